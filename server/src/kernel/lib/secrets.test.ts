import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSecrets, fingerprint, UnreadableSecret } from './secrets.ts'

const [oldest, older, newest] = ['oldest', 'older', 'newest'].map((name) => `${name}-0123456789-abcdefghijklmnop`)
const secrets = createSecrets([newest as string])
const rotated = createSecrets([newest as string, older as string, oldest as string])
const former = createSecrets([oldest as string])
const text = fc.string({ unit: 'binary', maxLength: 200 })

describe('an envelope', () => {
  test('opens in its place, with the sealed value', () => {
    fc.assert(fc.property(text, text, (plain, place) => secrets.open(secrets.seal(plain, place), place) === plain))
  })

  test('does not open in another place', () => {
    fc.assert(
      fc.property(text, text, text, (plain, place, other) => {
        fc.pre(place !== other)
        expect(() => secrets.open(secrets.seal(plain, place), other)).toThrow(UnreadableSecret)
      }),
    )
  })

  test('hides the sealed value, and is different each time', () => {
    const [first, second] = [secrets.seal('canary', 'place'), secrets.seal('canary', 'place')]
    expect(first).toMatch(/^v1\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]+$/)
    expect(Buffer.from(first.split('.')[3] ?? '', 'base64url').toString('latin1')).not.toContain('canary')
    expect(second.split('.')[2]).not.toBe(first.split('.')[2])
  })

  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \0é'
  test('does not open after any character is changed', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 20 }), fc.nat(), fc.constantFrom(...letters), (plain, at, letter) => {
        const envelope = secrets.seal(plain, 'place')
        const index = at % envelope.length
        const changed = envelope.slice(0, index) + letter + envelope.slice(index + 1)
        fc.pre(changed !== envelope)
        expect(() => secrets.open(changed, 'place')).toThrow(UnreadableSecret)
      }),
      { numRuns: 2_000 },
    )
  })

  test('does not open after a character is added or removed', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 20 }), fc.nat(), fc.constantFrom(...letters), (plain, at, letter) => {
        const envelope = secrets.seal(plain, 'place')
        const index = at % (envelope.length + 1)
        const longer = envelope.slice(0, index) + letter + envelope.slice(index)
        const shorter = envelope.slice(0, index) + envelope.slice(index + 1)
        expect(() => secrets.open(longer, 'place')).toThrow(UnreadableSecret)
        if (shorter !== envelope) expect(() => secrets.open(shorter, 'place')).toThrow(UnreadableSecret)
      }),
      { numRuns: 2_000 },
    )
  })

  test.each(['', 'v1', 'v1...', 'plain text', '{"json":true}'])('is not "%s"', (envelope) => {
    expect(() => secrets.open(envelope, 'place')).toThrow(UnreadableSecret)
  })

  test('with another version does not open', () => {
    expect(() => secrets.open(secrets.seal('x', 'place').replace('v1', 'v2'), 'place')).toThrow(UnreadableSecret)
  })

  test('with an unknown secret fails with the id of the secret, and without the value', () => {
    const envelope = former.seal('canary', 'place')
    expect(() => secrets.open(envelope, 'place')).toThrow(
      new UnreadableSecret(`No secret with the id ${envelope.split('.')[1]} is configured`),
    )
  })
})

describe('a list of secrets', () => {
  test('opens envelopes of each secret', () => {
    for (const secret of [oldest, older, newest]) {
      expect(rotated.open(createSecrets([secret as string]).seal('x', 'place'), 'place')).toBe('x')
    }
  })

  test('seals with the first secret', () => {
    expect(secrets.open(rotated.seal('x', 'place'), 'place')).toBe('x')
    expect(() => former.open(rotated.seal('x', 'place'), 'place')).toThrow(UnreadableSecret)
  })

  test('recognizes envelopes that must be sealed again', () => {
    expect(rotated.isCurrent(rotated.seal('x', 'place'))).toBe(true)
    expect(rotated.isCurrent(secrets.seal('x', 'place'))).toBe(true)
    expect(rotated.isCurrent(former.seal('x', 'place'))).toBe(false)
    expect(rotated.isCurrent('plain text')).toBe(false)
  })

  test('must not be empty', () => {
    expect(() => createSecrets([])).toThrow('At least one secret is required')
  })
})

describe('a derived key', () => {
  test('is the same for the same secret and purpose, and different for any other', () => {
    const keys = ['encryption', 'database login'].flatMap((purpose) => rotated.derive(purpose))
    expect(new Set(keys.map(({ key }) => key.toString('hex'))).size).toBe(6)
    expect(rotated.derive('database login')[0]).toEqual(secrets.derive('database login')[0])
  })

  test('has an id that does not depend on its purpose', () => {
    expect(rotated.derive('a').map(({ id }) => id)).toEqual(rotated.derive('b').map(({ id }) => id))
  })
})

test('a fingerprint identifies a value without containing it', () => {
  expect(fingerprint('pk_live_1')).toBe(fingerprint('pk_live_1'))
  expect(fingerprint('pk_live_1')).not.toBe(fingerprint('pk_live_2'))
  expect(fingerprint('pk_live_1')).toMatch(/^[\w-]{43}$/)
})
