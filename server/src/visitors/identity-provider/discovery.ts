import type { Service } from '../../kernel/foundation/service.ts'
import { findEndpointProblem } from '../../kernel/net/endpoints.ts'
import { SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import type { TrustedIssuer } from './issuers.ts'

/** Why a provider's documents can't be used. `step` is for diagnostics, the message for the administrator. */
export class DiscoveryFailed extends Error {
  override name = 'DiscoveryFailed'
  readonly step: string

  constructor(step: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.step = step
  }
}

export interface DiscoveryDocument {
  issuer: string
  jwks_uri: string
  /** Undefined if the provider doesn't publish one. */
  token_endpoint: string | undefined
  /** Whether the token endpoint only accepts client secrets in the form. The default is Basic (RFC 8414, section 2). */
  wantsSecretInForm: boolean
}

export const discoveryUrl = ({ issuer }: TrustedIssuer): string =>
  `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`

/** OpenID Connect Discovery 1.0, section 4: the document's issuer must be the one it was found under. */
export async function discover(service: Pick<Service, 'fetch'>, trusted: TrustedIssuer): Promise<DiscoveryDocument> {
  const address = discoveryUrl(trusted)
  const document = await fetchJson(service, address, 'the discovery document')
  const { issuer, jwks_uri, token_endpoint, token_endpoint_auth_methods_supported: methods } = document
  const isExpected =
    typeof issuer === 'string' && (issuer === trusted.issuer || (trusted.issuerPattern?.test(issuer) ?? false))
  if (!isExpected) {
    throw new DiscoveryFailed(
      'issuer_mismatch',
      `Expected the issuer ${trusted.issuer}, but ${address} says ${show(issuer)}`,
    )
  }
  if (typeof jwks_uri !== 'string') throw new DiscoveryFailed('no_jwks_uri', `${address} has no jwks_uri`)
  const endpoints = { jwks_uri, ...(typeof token_endpoint === 'string' && { token_endpoint }) }
  for (const [name, endpoint] of Object.entries(endpoints)) {
    const problem = findEndpointProblem({ name, address: endpoint, namedBy: trusted.issuer })
    if (problem) throw new DiscoveryFailed('endpoint', `In ${address}, ${problem}`)
  }
  const wantsSecretInForm =
    Array.isArray(methods) && methods.includes('client_secret_post') && !methods.includes('client_secret_basic')
  return { issuer, token_endpoint: undefined, ...endpoints, wantsSecretInForm }
}

export async function fetchJson(
  { fetch }: Pick<Service, 'fetch'>,
  address: string,
  what: string,
): Promise<Record<string, unknown>> {
  const response = await fetch(address, { headers: { accept: 'application/json' } }).catch((error) => {
    if (error instanceof SafeFetchError) throw new DiscoveryFailed(error.reason, error.message, { cause: error })
    throw error
  })
  if (response.status !== 200) {
    throw new DiscoveryFailed('status', `${address} responded with status ${response.status} instead of ${what}`)
  }
  try {
    const json: unknown = await response.json()
    if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Record<string, unknown>
  } catch {
    // Reported below, like JSON that isn't an object.
  }
  throw new DiscoveryFailed('not_json', `${address} did not return a JSON object`)
}

const show = (value: unknown) => (typeof value === 'string' ? value.slice(0, 200) : 'none')
