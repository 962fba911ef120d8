import { expect, test } from 'vitest'
import { findEndpointProblem } from './endpoints.ts'

const [https, http] = ['https://tools.example/mcp', 'http://127.0.0.1:9000/mcp']
const problem = (address: unknown, namedBy: string, isLink: boolean) =>
  findEndpointProblem({ name: 'token_endpoint', address, namedBy, isLink })

test.each<[string, string, boolean]>([
  ['https://id.example/authorize', https, true],
  ['https://id.example/authorize?tenant=a', https, true],
  ['https://id.example/authorize', http, true],
  ['http://localhost:9000/authorize', http, true],
  ['http://127.0.0.1:9000/authorize', http, true],
  ['http://[::1]:9000/authorize', http, true],
  ['http://10.0.0.5/token', http, false],
])('accepts %s from a document at %s', (address, namedBy, isLink) => {
  expect(problem(address, namedBy, isLink)).toBeUndefined()
})

test.each<[unknown, string, RegExp]>([
  [undefined, https, /^token_endpoint is not a URL$/],
  [7, https, /is not a URL/],
  ['', https, /is not a URL/],
  ['/authorize', https, /is not a URL/],
  ['file:///etc/passwd', https, /must start with https:\/\/, but it is file:\/\/\/etc\/passwd$/],
  ['file:///etc/passwd', http, /must start with https/],
  ['javascript:alert(1)', http, /must start with https/],
  ['JavaScript:alert(1)', http, /must start with https/],
  ['data:text/html,x', http, /must start with https/],
  ['ftp://id.example/', http, /must start with https/],
  ['http://id.example/authorize', https, /must start with https/],
  ['http://localhost/authorize', https, /must start with https/],
  ['http://id.example/authorize', http, /must start with https/],
  ['http://127.0.0.1.id.example/authorize', http, /must start with https/],
  ['https://user@id.example/', https, /user name/],
  ['https://:password@id.example/', https, /user name/],
  ['https://id.example/#fragment', https, /fragment/],
  [`x:${'y'.repeat(1_000)}`, https, /^.{0,200}$/],
])('rejects %s as a link from a document at %s', (address, namedBy, message) => {
  expect(problem(address, namedBy, true)).toMatch(message)
})

test('rejects an http endpoint from a document that was fetched over https', () => {
  expect(problem('http://10.0.0.5/token', https, false)).toMatch(/must start with https/)
})
