import { decodeJwt, decodeProtectedHeader } from 'jose'
import { splitScopes } from '../connectors/exchanges.ts'
import { StepFailed } from '../connectors/steps.ts'

/** The values that an assertion must have before it's sent to the tool server. */
export interface ExpectedAssertion {
  issuer: string
  audience: string
  clientId: string
  resource: string
  /** The assertion may grant fewer of these, but no others. */
  scopes: readonly string[]
  /** Current time in seconds. */
  now: number
}

interface Assertion {
  header: Record<string, unknown>
  claims: Record<string, unknown>
}

interface Check {
  name: string
  expected(expected: ExpectedAssertion): string
  seen(assertion: Assertion): unknown
  passes(assertion: Assertion, expected: ExpectedAssertion): boolean
}

const skewSeconds = 60

const checks: Check[] = [
  {
    name: 'type',
    expected: () => 'oauth-id-jag+jwt',
    seen: ({ header }) => header.typ,
    passes: ({ header }) => /^(application\/)?oauth-id-jag\+jwt$/i.test(String(header.typ)),
  },
  {
    name: 'issuer',
    expected: ({ issuer }) => issuer,
    seen: ({ claims }) => claims.iss,
    passes: ({ claims }, { issuer }) => claims.iss === issuer,
  },
  {
    name: 'audience',
    expected: ({ audience }) => audience,
    seen: ({ claims }) => claims.aud,
    passes: ({ claims }, { audience }) => onlyOne(claims.aud) === audience,
  },
  {
    name: 'client',
    expected: ({ clientId }) => clientId,
    seen: ({ claims }) => claims.client_id,
    passes: ({ claims }, { clientId }) => claims.client_id === clientId,
  },
  {
    name: 'resource',
    expected: ({ resource }) => resource,
    seen: ({ claims }) => claims.resource,
    passes: ({ claims }, { resource }) => claims.resource === undefined || onlyOne(claims.resource) === resource,
  },
  {
    name: 'scope',
    expected: ({ scopes }) => scopes.join(' '),
    seen: ({ claims }) => claims.scope,
    passes: ({ claims }, { scopes }) => claims.scope === undefined || isWithin(claims.scope, scopes),
  },
  {
    name: 'expiry',
    expected: ({ now }) => `after ${now}`,
    seen: ({ claims }) => claims.exp,
    passes: ({ claims }, { now }) => typeof claims.exp === 'number' && claims.exp > now - skewSeconds,
  },
]

/**
 * Checks the claims of an assertion. Its signature is left to the tool server, because the assertion was received
 * directly from the provider's endpoint. Returns the granted scopes, or undefined if there is no scope claim.
 */
export function checkAssertion(text: string, expected: ExpectedAssertion): string[] | undefined {
  const assertion = readAssertion(text)
  for (const { name, passes, ...shown } of checks) {
    if (passes(assertion, expected)) continue
    throw new StepFailed('provider_exchange', `The identity provider’s ID-JAG has the wrong ${name}`, {
      expected: shown.expected(expected),
      seen: show(shown.seen(assertion)),
    })
  }
  const { scope } = assertion.claims
  return scope === undefined ? undefined : splitScopes(scope as string)
}

function readAssertion(text: string): Assertion {
  try {
    return { header: decodeProtectedHeader(text), claims: decodeJwt(text) }
  } catch {
    throw new StepFailed('provider_exchange', 'The identity provider’s ID-JAG is not a JSON Web Token')
  }
}

/** Whether an unvalidated scope contains only allowed scopes. */
export const isWithin = (scope: unknown, allowed: readonly string[]): boolean =>
  typeof scope === 'string' && splitScopes(scope).every((each) => allowed.includes(each))

const onlyOne = (value: unknown): unknown => (Array.isArray(value) && value.length === 1 ? value[0] : value)

export const show = (value: unknown): string =>
  value === undefined ? 'none' : (JSON.stringify(value) ?? 'none').replace(/^"|"$/g, '').slice(0, 200)
