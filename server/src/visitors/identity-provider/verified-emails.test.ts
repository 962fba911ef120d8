import { expect, test } from 'vitest'
import { isEmailVerified } from './verified-emails.ts'

const entra = 'https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/v2.0'
const other = 'https://acme.okta.com'

test.each<[string, Record<string, unknown>, boolean]>([
  [other, { email_verified: true }, true],
  [other, { email_verified: 'true' }, false],
  [other, { email_verified: false }, false],
  [other, {}, false],
  [other, { xms_edov: true }, false],
  [entra, { email_verified: true }, true],
  [entra, {}, false],
  [entra, { xms_edov: true }, true],
  [entra, { xms_edov: 1 }, true],
  [entra, { xms_edov: '1' }, true],
  [entra, { xms_edov: 'true' }, true],
  [entra, { xms_edov: false }, false],
  [entra, { xms_edov: 0 }, false],
  [entra, { xms_edov: '0' }, false],
  [entra, { xms_edov: ['1'] }, false],
  [entra, { email_verified: false, xms_edov: true }, false],
  [entra.replace('.com', '.us'), { xms_edov: true }, true],
  ['https://login.microsoftonline.com.evil.example/v2.0', { xms_edov: true }, false],
  ['http://login.microsoftonline.com/v2.0', { xms_edov: true }, false],
])('%s with %j: %s', (issuer, claims, expected) => {
  expect(isEmailVerified(issuer, claims)).toBe(expected)
})
