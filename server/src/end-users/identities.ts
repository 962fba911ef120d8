import { recordAudit } from '../audit/audit.ts'
import { connectorsChanged } from '../connectors/connectors.ts'
import { describeProvider, holdIdentity, isIdentityNeeded } from '../connectors/held-identities.ts'
import { type VerifiedIdentity, verifyIdToken } from '../identity-provider/id-tokens.ts'
import { identityProviderChanged } from '../identity-provider/identity-provider.ts'
import type { TrustedIssuer } from '../identity-provider/issuers.ts'
import { createProviderKeys } from '../identity-provider/provider-keys.ts'
import { BoundedMap } from '../lib/bounded-map.ts'
import { newId } from '../lib/ids.ts'
import { fingerprint } from '../lib/secrets.ts'
import { requireRoom } from '../plans/plans.ts'
import type { Foundation } from '../service.ts'
import type { Sql } from '../stores/database.ts'

/** On the bus when a person is erased, so that no node goes on knowing them. */
export const endUserErased = 'end-user-erased'

/** The end users behind ID tokens. A token is verified once and remembered until it expires. */
export interface Identities {
  /** Throws IdTokenRefused, or PAYMENT_REQUIRED for a newcomer beyond the plan. */
  recognise(
    organizationId: string,
    idToken: string,
    trusted: TrustedIssuer,
  ): Promise<{ endUserId: string; identity: VerifiedIdentity }>
}

interface Recognised {
  organizationId: string
  endUserId: string
  identity: VerifiedIdentity
}

const rememberedTokens = 10_000
const skewMs = 60_000

export async function createIdentities(foundation: Foundation): Promise<Identities> {
  const { database, bus, clock } = foundation
  const keys = createProviderKeys(foundation)
  const known = new BoundedMap<string, Recognised>(rememberedTokens)
  const forgetThoseOf = ({ organization_id }: { organization_id: string }) =>
    known.deleteWhere(({ organizationId }) => organizationId === organization_id)
  await bus.subscribe(identityProviderChanged, forgetThoseOf)
  // With the first connector tokens begin to be held.
  await bus.subscribe(connectorsChanged, forgetThoseOf)
  await bus.subscribe<{ id: string }>(endUserErased, ({ id }) => known.deleteWhere(({ endUserId }) => endUserId === id))

  return {
    async recognise(organizationId, idToken, trusted) {
      const print = `${organizationId}:${fingerprint(idToken)}`
      const remembered = known.get(print)
      if (remembered && remembered.identity.expires_at + skewMs > clock()) return remembered
      const identity = await verifyIdToken(idToken, { trusted, keys, now: clock() })
      const endUserId = await database.asOrg(organizationId, async (sql) => {
        const id = await admitEndUser(sql, organizationId, identity)
        const { email, email_verified, expires_at } = identity
        // Before the commit: whoever erases the person afterwards finds the token too.
        if (email_verified && email && (await isIdentityNeeded(sql))) {
          const held = {
            end_user_id: id,
            id_token: idToken,
            verified_email: email,
            provider: describeProvider(trusted),
          }
          await holdIdentity(foundation, organizationId, held, expires_at)
        }
        return id
      })
      const recognised = { organizationId, endUserId, identity }
      known.set(print, recognised)
      return recognised
    },
  }
}

/** Finds the person by subject, or lets a newcomer in while the plan has room. Somebody known is never turned away. */
async function admitEndUser(sql: Sql, organizationId: string, identity: VerifiedIdentity): Promise<string> {
  const { subject, email, metadata } = identity
  const [known] = await sql<{ id: string }>`
    update end_users set
      email = ${email}, metadata = ${metadata}, last_activity_at = now(),
      updated_at = case when (email, metadata) is distinct from (${email}, ${metadata}) then now() else updated_at end
    where external_id = ${subject} returning id`
  if (known) return known.id
  const [added] = await sql<{ id: string }>`
    insert into end_users (organization_id, id, external_id, email, metadata)
    values (${organizationId}, ${newId()}, ${subject}, ${email}, ${metadata})
    on conflict (organization_id, external_id) do nothing returning id`
  // Somebody who came twice at once has been let in by the other.
  if (!added) return admitEndUser(sql, organizationId, identity)
  await requireRoom(sql, 'end_users')
  await recordAudit(sql, { organizationId, actor: 'widget' }, 'end_user.created', added.id)
  return added.id
}
