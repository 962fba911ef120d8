import type { OrgCaller } from '../access.ts'
import { readConfig } from '../identity-provider/identity-provider.ts'
import { InvalidProvider, type TrustedIssuer, trustedIssuer } from '../identity-provider/issuers.ts'
import type { Foundation } from '../service.ts'
import type { Sql } from '../stores/database.ts'
import { type StoredConnector, selectStoredConnectors } from './connectors.ts'
import type { Consenting } from './consent.ts'
import { describeProvider, findIdentity, type HeldIdentity } from './held-identities.ts'
import { StepFailed } from './steps.ts'

/** A person, at a tool server. */
export interface Delegate extends Consenting {
  /** Who vouches for them, and by which ID token; at third parties they consent themselves. */
  vouched: Vouched | undefined
}

interface Vouched {
  identity: HeldIdentity
  trusted: TrustedIssuer
}

/** What an organization has set up. */
export interface Setup {
  connectors: StoredConnector[]
  trusted: TrustedIssuer | undefined
}

export async function readSetup({ config }: Pick<Foundation, 'config'>, sql: Sql): Promise<Setup> {
  const [connectors, provider] = [await selectStoredConnectors(sql), await readConfig(sql)]
  return { connectors, trusted: readProvider(provider, config.mode) }
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
  foundation: Pick<Foundation, 'kv'>,
  caller: OrgCaller,
  setup: Setup,
  connector: StoredConnector,
): Promise<Delegate> {
  const vouched = connector.kind === 'id_jag' ? await requireIdentity(foundation, caller, setup) : undefined
  const userId = vouched?.identity.end_user_id ?? caller.user.id
  return { organizationId: caller.organization.id, connector, userId, vouched }
}

/** As whom a caller acts elsewhere: whoever brought a verified ID token with the same address to a page. */
export async function requireIdentity(
  foundation: Pick<Foundation, 'kv'>,
  { user, email_verified, organization }: OrgCaller,
  { trusted }: Setup,
): Promise<Vouched> {
  if (!trusted) throw noIdentity('The organization has no identity provider that could vouch for people')
  if (!email_verified) throw noIdentity('Nobody vouches for the address that you are signed in with')
  const identity = await findIdentity(foundation, organization.id, user.email)
  if (!identity || identity.provider !== describeProvider(trusted)) {
    throw noIdentity('Open a page with the widget, sign in there with your own address, and try again')
  }
  return { identity, trusted }
}

const noIdentity = (message: string) => new StepFailed('identity', message)
