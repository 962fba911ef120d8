import type { Service } from '../../kernel/foundation/service.ts'
import { DiscoveryFailed, discover } from '../../visitors/identity-provider/discovery.ts'
import type { TrustedIssuer } from '../../visitors/identity-provider/issuers.ts'
import type { OpenConnector } from '../connectors/connectors.ts'
import { requestToken, splitScopes } from '../connectors/exchanges.ts'
import type { ServerMetadata } from '../connectors/server-metadata.ts'
import { StepFailed } from '../connectors/steps.ts'
import { checkAssertion, isWithin, show } from './id-jag.ts'

type Working = Pick<Service, 'fetch' | 'clock'>

/** The organization's identity provider as an issuer of assertions. */
export interface AssertionIssuer {
  issuer: string
  token_endpoint: string
  wantsSecretInForm: boolean
}

export interface Assertion {
  text: string
  scopes: readonly string[]
  /** Whether the assertion contains its scopes. Otherwise they're requested when it's redeemed. */
  isScoped: boolean
}

export interface IssuedToken {
  access_token: string
  /** Unvalidated value from the server. */
  expires_in: unknown
  scopes: string[]
}

const idJag = 'urn:ietf:params:oauth:token-type:id-jag'

/** RFC 8693: exchanges the user's ID token for an assertion for one tool server. */
export async function requestAssertion(
  service: Working,
  provider: AssertionIssuer,
  idToken: string,
  delegation: OpenConnector,
  metadata: Pick<ServerMetadata, 'issuer'>,
): Promise<Assertion> {
  const { server_url, audience_mode, scopes, client, idpClient } = delegation
  const audience = audience_mode === 'issuer' ? metadata.issuer : server_url
  const answer = await requestToken(service, 'provider_exchange', {
    endpoint: provider.token_endpoint,
    form: {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: idToken,
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      requested_token_type: idJag,
      audience,
      resource: server_url,
      scope: scopes.join(' '),
      ...(provider.wantsSecretInForm && { client_id: idpClient.id, client_secret: idpClient.secret }),
    },
    // HTTP Basic unless the provider doesn't support it, so that the form has only the documented fields.
    basic: provider.wantsSecretInForm ? undefined : idpClient,
    secrets: [idToken, idpClient.secret],
  })
  if (answer.issued_token_type !== idJag) {
    const found = { expected: idJag, seen: show(answer.issued_token_type) }
    throw new StepFailed('provider_exchange', 'The identity provider issued the wrong type of token', found)
  }
  if (typeof answer.access_token !== 'string') {
    throw new StepFailed('provider_exchange', 'The identity provider’s response has no access_token')
  }
  requireNoMore('provider_exchange', answer.scope, scopes)
  const granted = checkAssertion(answer.access_token, {
    issuer: provider.issuer,
    audience,
    clientId: client.id,
    resource: server_url,
    scopes,
    now: Math.floor(service.clock() / 1000),
  })
  return { text: answer.access_token, scopes: granted ?? scopes, isScoped: granted !== undefined }
}

/** Finds the token endpoint through discovery, with `/oauth/token` as the fallback. */
export async function findAssertionIssuer(
  service: Pick<Service, 'fetch'>,
  trusted: TrustedIssuer,
): Promise<AssertionIssuer> {
  try {
    const {
      issuer,
      token_endpoint = `${issuer.replace(/\/$/, '')}/oauth/token`,
      wantsSecretInForm,
    } = await discover(service, trusted)
    return { issuer, token_endpoint, wantsSecretInForm }
  } catch (error) {
    if (!(error instanceof DiscoveryFailed)) throw error
    throw new StepFailed(
      'provider_exchange',
      `Could not read the identity provider’s configuration: ${error.message}`,
      {
        cause: error,
      },
    )
  }
}

/** RFC 7523: redeems the assertion for an access token of the tool server. */
export async function redeemAssertion(
  service: Working,
  assertion: Assertion,
  { client, audience_mode, server_url }: Pick<OpenConnector, 'client' | 'audience_mode' | 'server_url'>,
  { token_endpoint, authentication, issuer }: ServerMetadata,
): Promise<IssuedToken> {
  const isBasic = authentication === 'client_secret_basic'
  const answer = await requestToken(service, 'redemption', {
    endpoint: token_endpoint,
    form: {
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: assertion.text,
      ...(!assertion.isScoped && { scope: assertion.scopes.join(' ') }),
      ...(!isBasic && { client_id: client.id, client_secret: client.secret }),
    },
    basic: isBasic ? client : undefined,
    secrets: [assertion.text, client.secret],
    ...(audience_mode === 'resource' &&
      issuer !== server_url && {
        advice: `If the server expects ${issuer} as the audience, set audience_mode to issuer`,
      }),
  })
  const { access_token, token_type, expires_in, scope } = answer
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token)) {
    throw new StepFailed('redemption', 'The tool server’s response has no access_token')
  }
  if (String(token_type).toLowerCase() !== 'bearer') {
    const found = { expected: 'Bearer', seen: show(token_type) }
    throw new StepFailed('redemption', 'The tool server issued the wrong type of token', found)
  }
  requireNoMore('redemption', scope, assertion.scopes)
  return { access_token, expires_in, scopes: typeof scope === 'string' ? splitScopes(scope) : [...assertion.scopes] }
}

function requireNoMore(step: 'provider_exchange' | 'redemption', scope: unknown, asked: readonly string[]): void {
  if (scope === undefined || isWithin(scope, asked)) return
  throw new StepFailed(step, 'More scopes were granted than requested', {
    expected: asked.join(' '),
    seen: show(scope),
  })
}
