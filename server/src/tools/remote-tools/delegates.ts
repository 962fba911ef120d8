import { LRUCache } from 'lru-cache'
import type { Service } from '../../kernel/foundation/service.ts'
import type { ToolUser } from '../../kernel/foundation/tool-user.ts'
import { findIdentity, type HeldIdentity, readHeldIdentity } from '../../visitors/end-users/held-identities.ts'
import { readIdentityProvider } from '../../visitors/identity-provider/identity-provider.ts'
import {
  describeIdentityProvider,
  findTrustedIssuer,
  type TrustedIssuer,
} from '../../visitors/identity-provider/issuers.ts'
import { type StoredConnector, selectStoredConnectors } from '../connectors/connectors.ts'
import { StepFailed } from '../connectors/steps.ts'
import { type ConsentedToken, type Consenting, consentKey, readToken } from '../consent/consent.ts'

/** A user at a tool server. */
export interface Delegate extends Consenting {
  /** The verified identity and its provider; undefined for third parties, where users consent themselves. */
  vouched: Vouched | undefined
  /** The user's access token, if it was read together with the identity. */
  token?: ConsentedToken | undefined
}

export interface Vouched {
  identity: HeldIdentity
  trusted: TrustedIssuer
}

/** Cache key of a user at a connector. It changes with the connector's and the provider's settings. */
export const delegateKey = (delegate: Delegate): string =>
  [consentKey(delegate), delegate.connector.updated_at, delegate.provider].join(' ')

/** An organization's connectors and identity provider. */
export interface Setup {
  organizationId: string
  connectors: StoredConnector[]
  trusted: TrustedIssuer | undefined
  /** End user IDs by email address, as a guess that saves a round trip. It's verified before use. */
  endUserIds: LRUCache<string, string>
}

const cachedEndUsers = 1_000

export async function readSetup(
  { config, database }: Pick<Service, 'config' | 'database'>,
  organizationId: string,
): Promise<Setup> {
  const [connectors, provider] = await database.asOrg(
    organizationId,
    async (sql) => [await selectStoredConnectors(sql), await readIdentityProvider(sql)] as const,
  )
  const endUserIds = new LRUCache<string, string>({ max: cachedEndUsers })
  return { organizationId, connectors, trusted: findTrustedIssuer(provider, config.mode), endUserIds }
}

/** Throws StepFailed if the user has no verified identity, or can't consent. */
export async function requireDelegate(
  service: Pick<Service, 'kv'>,
  user: ToolUser,
  setup: Setup,
  connector: StoredConnector,
): Promise<Delegate> {
  const at = { organizationId: user.organizationId, connector }
  if (connector.kind === 'oauth') return { ...at, ...requireConsenting(user, setup), vouched: undefined }
  const guess = user.endUserId ?? setup.endUserIds.get(user.email)
  const reading = guess === undefined ? undefined : readToken(service, { ...at, userId: guess })
  const [vouched, token] = await Promise.all([requireIdentity(service, user, setup), reading])
  const userId = vouched.identity.end_user_id
  const { provider } = vouched.identity
  return { ...at, userId, provider, vouched, token: userId === guess ? token : undefined }
}

/**
 * Members and end users each consent for themselves. An end user isn't treated as the member with the same address: the
 * organization's identity provider vouches for the address, and must not get hold of what a member allowed in person.
 */
function requireConsenting(
  { member, endUserId }: ToolUser,
  { trusted }: Setup,
): Pick<Consenting, 'userId' | 'provider'> {
  if (member) return { userId: member.user.id }
  if (endUserId === undefined || !trusted)
    throw noIdentity('You aren’t signed in. Sign in on this page, and try again.')
  return { userId: endUserId, provider: describeIdentityProvider(trusted) }
}

/**
 * Finds the verified ID token that the end user brought to a page. For a member, this is the end user with the member's
 * email address.
 */
export async function requireIdentity(
  service: Pick<Service, 'kv'>,
  { organizationId, email, email_verified, member, endUserId }: ToolUser,
  { trusted, endUserIds }: Setup,
): Promise<Vouched> {
  if (!trusted) throw noIdentity('The organization has no identity provider. An administrator needs to configure one.')
  if (!member && endUserId === undefined) throw noIdentity('You aren’t signed in. Sign in on this page, and try again.')
  if (!email_verified)
    throw noIdentity('Your email address isn’t verified. Verify it where you sign in, and try again.')
  const identity =
    endUserId === undefined
      ? await findIdentity(service, organizationId, email, endUserIds.get(email))
      : await readHeldIdentity(service, organizationId, endUserId)
  if (!identity || identity.provider !== describeIdentityProvider(trusted)) {
    throw noIdentity('Open a page with the widget, sign in there with the same email address, and try again')
  }
  if (member) endUserIds.set(email, identity.end_user_id)
  return { identity, trusted }
}

const noIdentity = (message: string) => new StepFailed('identity', message)
