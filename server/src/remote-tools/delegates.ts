import { LRUCache } from 'lru-cache'
import { type StoredConnector, selectStoredConnectors } from '../connectors/connectors.ts'
import { StepFailed } from '../connectors/steps.ts'
import { type ConsentedToken, type Consenting, consentKey, readToken } from '../consent/consent.ts'
import { describeProvider, findIdentity, type HeldIdentity } from '../delegation/held-identities.ts'
import type { OrgCaller } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import { readProviderConfig } from '../identity-provider/identity-provider.ts'
import { InvalidProvider, type TrustedIssuer, trustedIssuer } from '../identity-provider/issuers.ts'

/** A person, at a tool server. */
export interface Delegate extends Consenting {
  /** Who vouches for them, and by which ID token; at third parties they consent themselves. */
  vouched: Vouched | undefined
  /** Their access token, where it was read together with that. */
  token?: ConsentedToken | undefined
}

export interface Vouched {
  identity: HeldIdentity
  trusted: TrustedIssuer
}

/** Names the user, and the connector and provider as they are now: whatever is cached for them ends with a change of either. */
export const delegateKey = (delegate: Delegate): string =>
  [consentKey(delegate), delegate.connector.updated_at, delegate.vouched?.identity.provider].join(' ')

/** What an organization has set up. */
export interface Setup {
  organizationId: string
  connectors: StoredConnector[]
  trusted: TrustedIssuer | undefined
  /** Who was found by which address: a guess who it is, no more than that. */
  people: LRUCache<string, string>
}

const rememberedPeople = 1_000

export async function readSetup(
  { config, database }: Pick<Service, 'config' | 'database'>,
  organizationId: string,
): Promise<Setup> {
  const [connectors, provider] = await database.asOrg(
    organizationId,
    async (sql) => [await selectStoredConnectors(sql), await readProviderConfig(sql)] as const,
  )
  const people = new LRUCache<string, string>({ max: rememberedPeople })
  return { organizationId, connectors, trusted: readProvider(provider, config.mode), people }
}

/** One that is not set up to the end vouches for nobody. */
function readProvider(...settings: Parameters<typeof trustedIssuer>): TrustedIssuer | undefined {
  try {
    return trustedIssuer(...settings)
  } catch (error) {
    if (error instanceof InvalidProvider) return undefined
    throw error
  }
}

/** Throws a StepFailed where nobody vouches for the caller. */
export async function requireDelegate(
  service: Pick<Service, 'kv'>,
  caller: OrgCaller,
  setup: Setup,
  connector: StoredConnector,
): Promise<Delegate> {
  const at = { organizationId: caller.organization.id, connector }
  if (connector.kind === 'oauth') return { ...at, userId: caller.user.id, vouched: undefined }
  const guess = setup.people.get(caller.user.email)
  const reading = guess === undefined ? undefined : readToken(service, { ...at, userId: guess })
  const [vouched, token] = await Promise.all([requireIdentity(service, caller, setup), reading])
  const userId = vouched.identity.end_user_id
  return { ...at, userId, vouched, token: userId === guess ? token : undefined }
}

/** As whom a caller acts elsewhere: whoever brought a verified ID token with the same address to a page. */
export async function requireIdentity(
  service: Pick<Service, 'kv'>,
  { user: { email }, email_verified, organization }: OrgCaller,
  { trusted, people }: Setup,
): Promise<Vouched> {
  if (!trusted) throw noIdentity('The organization has no identity provider that could vouch for people')
  if (!email_verified) throw noIdentity('Nobody vouches for the address that you are signed in with')
  const identity = await findIdentity(service, organization.id, email, people.get(email))
  if (!identity || identity.provider !== describeProvider(trusted)) {
    throw noIdentity('Open a page with the widget, sign in there with your own address, and try again')
  }
  people.set(email, identity.end_user_id)
  return { identity, trusted }
}

const noIdentity = (message: string) => new StepFailed('identity', message)
