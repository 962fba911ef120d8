import { decodeJwt, decodeProtectedHeader } from 'jose'
import { splitScopes } from '../connectors/exchanges.ts'
import { StepFailed } from '../connectors/steps.ts'

/** What an assertion has to say before it is passed on. */
export interface ExpectedAssertion {
  issuer: string
  audience: string
  clientId: string
  resource: string
  /** It may grant fewer of them, never others. */
  scopes: readonly string[]
  /** In seconds. */
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

/** A missing check shows as a missing line. */
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
 * The provider's answer comes straight from its own endpoint, so its signature is left to the tool server, which knows the
 * assertion from us alone. Returns the scopes that it grants, and undefined if it has no scope.
 */
export function checkAssertion(text: string, expected: ExpectedAssertion): string[] | undefined {
  const assertion = readAssertion(text)
  for (const { name, passes, ...shown } of checks) {
    if (passes(assertion, expected)) continue
    throw new StepFailed('provider_exchange', `The provider’s ID-JAG has another ${name} than asked for`, {
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
    throw new StepFailed('provider_exchange', 'The provider’s ID-JAG is not a JSON Web Token')
  }
}

/** Whether a scope, as it came, has nothing but these. */
export const isWithin = (scope: unknown, allowed: readonly string[]): boolean =>
  typeof scope === 'string' && splitScopes(scope).every((each) => allowed.includes(each))

const onlyOne = (value: unknown): unknown => (Array.isArray(value) && value.length === 1 ? value[0] : value)

export const show = (value: unknown): string =>
  value === undefined ? 'none' : (JSON.stringify(value) ?? 'none').replace(/^"|"$/g, '').slice(0, 200)
