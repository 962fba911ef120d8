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

/** The signature is fake, because it isn't checked here. */
function assertion(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}): string {
  const [, payload] = new UnsecuredJWT({ ...good, ...claims }).encode().split('.')
  const head = Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'oauth-id-jag+jwt', ...header })).toString('base64url')
  return `${head}.${payload}.c2ln`
}

describe('an assertion', () => {
  test.each<[string, Record<string, unknown>, Record<string, unknown>, string[] | undefined]>([
    ['with the requested values', {}, {}, ['mcp:tools:read']],
    ['with the full media type', {}, { typ: 'application/OAuth-ID-JAG+jwt' }, ['mcp:tools:read']],
    ['with a list of one audience', { aud: [expected.audience] }, {}, ['mcp:tools:read']],
    ['without a resource', { resource: undefined }, {}, ['mcp:tools:read']],
    ['without a scope', { scope: undefined }, {}, undefined],
    ['with an empty scope', { scope: '' }, {}, []],
    ['that expired 59 seconds ago', { exp: now - 59 }, {}, ['mcp:tools:read']],
  ])('%s is accepted', (_, claims, header, scopes) => {
    expect(checkAssertion(assertion(claims, header), expected)).toEqual(scopes)
  })

  test.each<[string, Record<string, unknown>]>([
    ['that expired 60 seconds ago', { exp: now - 60 }],
    ['without an expiry', { exp: undefined }],
    ['with a list of two audiences', { aud: [expected.audience, 'https://other.example'] }],
    ['without an audience', { aud: undefined }],
    ['without a client', { client_id: undefined }],
    ['with a list of scopes', { scope: ['mcp:tools:read'] }],
  ])('%s is rejected', (_, claims) => {
    expect(() => checkAssertion(assertion(claims), expected)).toThrow(StepFailed)
  })

  test('with any other value in a claim is rejected', () => {
    const names = ['iss', 'aud', 'client_id', 'resource', 'scope'] as const
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.jsonValue(), (name, value) => {
        const isSame = JSON.stringify(value) === JSON.stringify(good[name]) || (name === 'scope' && isGranted(value))
        fc.pre(!isSame)
        expect(() => checkAssertion(assertion({ [name]: value }), expected)).toThrow(StepFailed)
      }),
    )
  })

  test('that is arbitrary text is rejected', () => {
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

test('tokens are cached for at most an hour, whatever expires_in is', () => {
  const anything = fc.oneof(fc.anything(), fc.double(), fc.integer())
  fc.assert(
    fc.property(anything, (expiresIn) => {
      const seconds = timeToLive(expiresIn)
      expect(seconds >= 0 && seconds <= 3600).toBe(true)
    }),
  )
})
