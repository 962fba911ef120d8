import { domainToASCII } from 'node:url'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalEmail } from './email-addresses.ts'

test.each([
  ['ASCII letters in both parts', 'Ann@ACME.example', 'ann@acme.example'],
  ['an international domain', 'ann@Bücher.example', 'ann@xn--bcher-kva.example'],
  ['an international domain in punycode', 'ann@XN--BCHER-KVA.example', 'ann@xn--bcher-kva.example'],
  ['a domain in decomposed letters', 'ann@bu\u0308cher.example', 'ann@xn--bcher-kva.example'],
  ['a full-width domain', 'ann@ａｃｍｅ.example', 'ann@acme.example'],
  ['the Kelvin sign in a domain, which IDNA maps', 'ann@\u212aiosk.example', 'ann@kiosk.example'],
])('%s have one form', (_, written, canonical) => {
  expect(canonicalEmail(written)).toBe(canonical)
  expect(canonicalEmail(canonical)).toBe(canonical)
})

test.each([
  ['the Kelvin sign', 'mi\u212ae@acme.example', 'mike@acme.example'],
  ['a long s', 'u\u017fer@acme.example', 'user@acme.example'],
  ['a dotted capital I', '\u0130da@acme.example', 'ida@acme.example'],
  ['an accent', 'ánn@acme.example', 'ann@acme.example'],
  ['a path after the domain', 'ann@acme.example/x', 'ann@acme.example'],
  ['a second at sign', 'ann@acme.example@other.example', 'ann@other.example'],
])('%s is another address', (_, one, other) => {
  expect(canonicalEmail(one)).not.toBe(canonicalEmail(other))
})

test('a domain of Latin letters, digits and hyphens is as IDNA has it', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9-]{1,6}(\.[a-z0-9-]{1,5}){0,3}$/), (domain) => {
      expect(canonicalEmail(`ann@${domain}`)).toBe(`ann@${domainToASCII(domain) || domain}`)
    }),
    { examples: [['xn--bcher-kva.example'], ['0x7f.1'], ['1.2.3'], ['a.0x1'], ['shop.example']] },
  )
})
