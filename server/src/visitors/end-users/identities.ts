import type { Plan } from '../../kernel/config/plan-file.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { selectDeprovisioned } from '../../organizations/directories/deprovisioned.ts'
import { requireWithinPlan } from '../../plans/plans/plans.ts'
import { IdTokenRefused, type VerifiedIdentity, verifyIdToken } from '../identity-provider/id-tokens.ts'
import { createIssuerKeys } from '../identity-provider/issuer-keys.ts'
import { describeIdentityProvider, type TrustedIssuer } from '../identity-provider/issuers.ts'
import { holdIdentity, isIdentityNeeded } from './held-identities.ts'

/** The end users behind ID tokens. */
export interface Identities {
  /** Throws IdTokenRefused, or PAYMENT_REQUIRED for a new end user beyond the plan's limit. */
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

const cachedTokens = 10_000
const skewMs = 60_000

export function createIdentities(service: Service): Identities {
  const { config, database, changes, clock } = service
  const keys = createIssuerKeys(service)
  const known = new FreshCache<Recognised>({
    changes,
    clock,
    limit: cachedTokens,
    topicsOf: ({ organizationId, endUserId }) => [
      topics.identityProvider(organizationId),
      topics.endUser(endUserId),
      // ID tokens must be held once the organization has a connector.
      topics.connectors(organizationId),
    ],
  })

  async function verify(organizationId: string, idToken: string, trusted: TrustedIssuer): Promise<Recognised> {
    const identity = await verifyIdToken(idToken, { trusted, keys, now: clock() })
    const endUserId = await database.asOrg(organizationId, async (sql) => {
      await requireProvisioned(sql, identity)
      const id = await admitEndUser(config.plans, sql, organizationId, identity, trusted)
      const { email, email_verified, expires_at } = identity
      // Before the commit, so that a later erasure also finds the token.
      if (email_verified && email && (await isIdentityNeeded(sql))) {
        const held = {
          end_user_id: id,
          id_token: idToken,
          verified_email: email,
          provider: describeIdentityProvider(trusted),
        }
        await holdIdentity(service, organizationId, held, expires_at)
      }
      return id
    })
    return { organizationId, endUserId, identity }
  }

  return {
    async recognise(organizationId, idToken, trusted) {
      // The key includes the provider, because a token that one provider issued isn't valid for another.
      const key = `${organizationId}:${fingerprint(`${describeIdentityProvider(trusted)}\n${idToken}`)}`
      const load = () => verify(organizationId, idToken, trusted)
      const recognised = known.get(key) ?? ((await known.load(key, load)) as Recognised)
      // Verifying an expired token again throws the usual error.
      return recognised.identity.expires_at + skewMs > clock() ? recognised : load()
    },
  }
}

/** A user whom a directory has deactivated may still have a valid ID token. */
async function requireProvisioned(sql: Sql, { email, email_verified }: VerifiedIdentity): Promise<void> {
  if (!email_verified || !email) return
  const [inactive] = await selectDeprovisioned(sql, [email])
  if (!inactive) return
  throw new IdTokenRefused('directory', 'A directory of the organization has deactivated or deleted this user.', {
    expected: 'an active user',
    seen: email,
  })
}

/**
 * Finds the end user by issuer and subject, or creates one within the plan's limit. Never refuses an existing end user.
 * A subject means nothing without its issuer: another provider can give the same one to another person.
 */
async function admitEndUser(
  plans: readonly Plan[],
  sql: Sql,
  organizationId: string,
  identity: VerifiedIdentity,
  trusted: TrustedIssuer,
): Promise<string> {
  const { issuer, subject, email, metadata } = identity
  if (trusted.issuerPattern) await spellIssuer(sql, identity, trusted)
  const [known] = await sql<{ id: string }>`
    update end_users set
      email = ${email}, metadata = ${metadata}, last_activity_at = now(),
      updated_at = case when (email, metadata) is distinct from (${email}, ${metadata}) then now() else updated_at end
    where issuer = ${issuer} and external_id = ${subject} returning id`
  if (known) return known.id
  const [added] = await sql<{ id: string }>`
    insert into end_users (organization_id, id, issuer, external_id, email, metadata)
    values (${organizationId}, ${newId()}, ${issuer}, ${subject}, ${email}, ${metadata})
    on conflict (organization_id, issuer, external_id) do nothing returning id`
  // A concurrent request created the same end user.
  if (!added) return admitEndUser(plans, sql, organizationId, identity, trusted)
  await requireWithinPlan(plans, sql, 'end_users')
  await recordAudit(sql, { organizationId, actor: 'widget' }, 'end_user.created', added.id)
  return added.id
}

/**
 * End users from before issuers were stored have the issuer as derived from the settings. Only a Microsoft tenant that
 * was entered by name is spelled otherwise. A name can move to another tenant, so the first tenant ID that was seen is
 * the only one that such end users get.
 */
const spellIssuer = (sql: Sql, { issuer, subject }: VerifiedIdentity, { issuer: derived }: TrustedIssuer) => sql`
  update end_users set issuer = ${issuer}
  where issuer = ${derived} and external_id = ${subject}
    and not exists (
      select from end_users other
      where other.issuer like 'https://login.microsoftonline.com/%' and other.issuer not in (${issuer}, ${derived}))
    and not exists (select from end_users other where other.issuer = ${issuer} and other.external_id = ${subject})`
