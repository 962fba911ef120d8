import { createHmac, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createMac } from './signed-values.ts'

test('the signature is HMAC-SHA-256, whatever was signed before', () => {
  const key = randomBytes(32)
  const mac = createMac(key, 500)
  const ascii = fc.string({ unit: 'binary-ascii', maxLength: 500 })
  fc.assert(
    fc.property(ascii, (text) => {
      expect(mac(text)).toBe(createHmac('sha256', key).update(text).digest('base64url'))
    }),
  )
})

test('a text that is too long is never signed in part', () => {
  const mac = createMac(randomBytes(32), 10)
  expect(mac('x'.repeat(10))).toHaveLength(43)
  expect(() => mac('x'.repeat(11))).toThrow('more than 10 characters')
})
