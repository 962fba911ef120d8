import fc from 'fast-check'
import { expect, test } from 'vitest'
import { describeTarget, findRedirectProblem, formTarget, isNative, isOnThisComputer } from './redirect-uris.ts'

test.each([
  ['https://app.example.com/callback', false, 'app.example.com', 'https://app.example.com'],
  ['https://app.example.com:8443/?a=b', false, 'app.example.com:8443', 'https://app.example.com:8443'],
  ['https://localhost:8443/', false, 'a program on this computer', 'https://localhost:8443'],
  ['http://127.0.0.1:3000/callback', true, 'a program on this computer', 'http://127.0.0.1:3000'],
  ['http://localhost/callback', true, 'a program on this computer', 'http://localhost'],
  ['http://[::1]:3000/', true, 'a program on this computer', 'http://[::1]:3000'],
  ['com.example.app:/callback', true, 'an app on this computer (com.example.app)', 'com.example.app:'],
  ['cursor://tool/callback', true, 'an app on this computer (cursor)', 'cursor:'],
])('accepts %s', (uri, native, target, source) => {
  expect(findRedirectProblem(uri)).toBeUndefined()
  expect(isNative(uri)).toBe(native)
  expect(describeTarget(uri)).toBe(target)
  expect(isOnThisComputer(uri)).toBe(target.includes('this computer'))
  expect(formTarget(uri)).toBe(source)
})

test.each([
  'http://app.example.com/callback',
  'http://127.0.0.1.example.com/',
  'http://localhost.example.com/',
  'https://user@app.example.com/',
  'https://user:pass@app.example.com/',
  'https://app.example.com/#fragment',
  'https://app.example.com/#',
  'https://a;script-src/',
  'https://a,b/',
  "https://a'b/",
  'javascript:alert(1)',
  'data:text/html,x',
  'file:///etc/passwd',
  'blob:https://app.example.com/1',
  'view-source:https://app.example.com/',
  'ftp://app.example.com/',
  '/callback',
  '',
  7,
  null,
])('rejects %j', (uri) => {
  expect(findRedirectProblem(uri)).toMatch(/^redirect_uris must /)
})

test('a redirect URI that is accepted cannot break out of a header', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.webUrl(),
        fc.string().map((text) => `https://${text}/`),
        fc.string(),
      ),
      (uri) => {
        if (findRedirectProblem(uri)) return
        expect(formTarget(uri)).toMatch(/^[a-z][a-z0-9+.-]*:(\/\/[a-z0-9._:[\]-]+)?$/)
      },
    ),
  )
})
