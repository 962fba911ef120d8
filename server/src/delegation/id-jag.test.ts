import fc from 'fast-check'
import { UnsecuredJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import { StepFailed } from '../connectors/steps.ts'
import { timeToLive } from '../remote-tools/connector-tokens.ts'
import { checkAssertion } from './id-jag.ts'

const now = 1_800_000_000
const expected = {
  issuer: 'https://idp.example',
  audience: 'https://tools.example/mcp',
  clientId: 'hub',
  resource: 'https://tools.example/mcp',
  scopes: ['mcp:tools:read', 'mcp:tools:call'],
  now,
}
const good = {
  iss: expected.issuer,
  aud: expected.audience,
  client_id: expected.clientId,
  resource: expected.resource,
  scope: 'mcp:tools:read',
  exp: now + 300,
}

/** Nobody looks at the signature here. */
function assertion(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}): string {
  const [, payload] = new UnsecuredJWT({ ...good, ...claims }).encode().split('.')
  const head = Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'oauth-id-jag+jwt', ...header })).toString('base64url')
  return `${head}.${payload}.c2ln`
}

describe('an assertion', () => {
  test.each<[string, Record<string, unknown>, Record<string, unknown>, string[] | undefined]>([
    ['as asked for', {}, {}, ['mcp:tools:read']],
    ['with its type written out', {}, { typ: 'application/OAuth-ID-JAG+jwt' }, ['mcp:tools:read']],
    ['with a list of one audience', { aud: [expected.audience] }, {}, ['mcp:tools:read']],
    ['without a resource', { resource: undefined }, {}, ['mcp:tools:read']],
    ['without a scope', { scope: undefined }, {}, undefined],
    ['with the least scope', { scope: '' }, {}, []],
    ['that expired 59 s ago', { exp: now - 59 }, {}, ['mcp:tools:read']],
  ])('%s passes', (_, claims, header, scopes) => {
    expect(checkAssertion(assertion(claims, header), expected)).toEqual(scopes)
  })

  test.each<[string, Record<string, unknown>]>([
    ['that expired 60 s ago', { exp: now - 60 }],
    ['without an expiry', { exp: undefined }],
    ['with a list of two audiences', { aud: [expected.audience, 'https://other.example'] }],
    ['without an audience', { aud: undefined }],
    ['without a client', { client_id: undefined }],
    ['with a list of scopes', { scope: ['mcp:tools:read'] }],
  ])('%s is refused', (_, claims) => {
    expect(() => checkAssertion(assertion(claims), expected)).toThrow(StepFailed)
  })

  test('with any other value in one of its claims is refused', () => {
    const names = ['iss', 'aud', 'client_id', 'resource', 'scope'] as const
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.jsonValue(), (name, value) => {
        const isSame = JSON.stringify(value) === JSON.stringify(good[name]) || (name === 'scope' && isGranted(value))
        fc.pre(!isSame)
        expect(() => checkAssertion(assertion({ [name]: value }), expected)).toThrow(StepFailed)
      }),
    )
  })

  test('that is any text at all is refused', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => checkAssertion(text, expected)).toThrow(StepFailed)
      }),
    )
  })
})

const isGranted = (value: unknown) =>
  typeof value === 'string' &&
  value
    .split(' ')
    .filter(Boolean)
    .every((scope) => expected.scopes.includes(scope))

// Abuse case 45.
test('whatever a server says of its tokens, they are remembered for an hour at most, and never for ever', () => {
  const anything = fc.oneof(fc.anything(), fc.double(), fc.integer())
  fc.assert(
    fc.property(anything, (expiresIn) => {
      const seconds = timeToLive(expiresIn)
      expect(seconds >= 0 && seconds <= 3600).toBe(true)
    }),
  )
})
