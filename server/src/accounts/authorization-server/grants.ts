import type { Client, Grant, KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Caller, SignIn } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { scope } from '../../kernel/http/protected-resources.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { listMyInvitations } from '../../organizations/organizations/invitations.ts'
import { listOrganizations } from '../../organizations/organizations/organizations.ts'
import { describeSignIn, findRecord, grantSeconds, signInOfSession } from '../access/records.ts'
import { dashboardClientId, ownPagesClientId } from './clients/own-clients.ts'
import { isOnThisComputer } from './clients/redirect-uris.ts'

/** The organization and resources that a user allowed a client. */
interface Consent {
  organization_id: string | undefined
  resources: readonly string[]
}

type Who = { userId: string; clientId: string; signIn: SignIn }

/** Each authorization gets its own grant, so that revoking one doesn't affect the others. */
export async function saveGrant(provider: Provider, who: Who, consent: Consent): Promise<string> {
  const { userId, clientId, signIn } = who
  const grant = new provider.Grant({ accountId: userId, clientId })
  grant.addOIDCScope(`openid offline_access ${scope}`)
  for (const resource of consent.resources) grant.addResourceScope(resource, scope)
  if (consent.organization_id) grant.addRar({ type: 'organization', identifier: consent.organization_id })
  grant.addRar(describeSignIn(signIn))
  return grant.save()
}

export const organizationOf = (grant: Pick<Grant, 'rar'> | undefined): string | undefined =>
  grant?.rar?.find(({ type }) => type === 'organization')?.identifier as string | undefined

/** The key includes the session generation: after all sessions are ended, earlier consents no longer count. */
const consentKey = ({ userId, clientId, signIn }: Who) =>
  `oauth:consent:${fingerprint(JSON.stringify([userId, signIn.generation, clientId]))}`

export const saveConsent = ({ kv }: Service, who: Who, consent: Consent): Promise<void> =>
  kv.set(consentKey(who), consent, grantSeconds)

/** The user's latest consent for this client. */
export const readConsent = ({ kv }: Service, who: Who): Promise<Consent | undefined> => kv.get(consentKey(who))

/** Returns the grant of the consent that was just given, or a new one if the user allowed the same before. */
export async function loadGrant(service: Service, { oidc }: KoaContextWithOIDC): Promise<Grant | undefined> {
  const { provider, client, account, params, result, session } = oidc
  if (result?.consent?.grantId) return provider.Grant.find(result.consent.grantId)
  const isAsked = oidc.promptPending('consent') || oidc.promptPending('login')
  if (client?.clientId === ownPagesClientId && account) {
    // This grant only establishes that the user is signed in.
    const grant = new provider.Grant({ accountId: account.accountId, clientId: ownPagesClientId })
    grant.addOIDCScope('openid')
    await grant.save()
    return grant
  }
  if (client?.clientId === dashboardClientId && account && session?.accountId && !oidc.promptPending('login')) {
    const who = { userId: account.accountId, clientId: dashboardClientId, signIn: signInOfSession(session) }
    return provider.Grant.find(await saveGrant(provider, who, await allowDashboard(service, who, params?.organization)))
  }
  // Any program on the user's computer can impersonate the client that was allowed (RFC 8252, section 8.6).
  if (!client || !account || !session?.accountId || isAsked || isOnThisComputer(String(params?.redirect_uri)))
    return undefined
  const who = { userId: account.accountId, clientId: client.clientId, signIn: signInOfSession(session) }
  const consent = await readConsent(service, who)
  if (!consent || !readResources(params?.resource).every((one) => consent.resources.includes(one))) return undefined
  if (!(await findSignedInUser(service, who.userId, who.signIn, consent.organization_id))) return undefined
  // A user who has just signed in answers their invitations first. A silent renewal skips this: a stranger's invitation
  // must not interrupt a client.
  if (result?.login && (await listMyInvitations(service, { user: { id: who.userId } })).length > 0) return undefined
  return provider.Grant.find(await saveGrant(provider, who, consent))
}

/** Chooses the organization that was asked for, or the last one, or any. A user may have none yet. */
async function allowDashboard(service: Service, who: Who, asked: unknown): Promise<Consent> {
  const organizations = await listOrganizations(service, { user: { id: who.userId } })
  const last = (await readConsent(service, who))?.organization_id
  const chosen = asked
    ? organizations.find(({ slug }) => slug === asked)
    : (organizations.find(({ id }) => id === last) ?? organizations[0])
  const consent = { organization_id: chosen?.id, resources: [service.config.publicUrl] }
  if (chosen && chosen.id !== last) await saveConsent(service, who, consent)
  return consent
}

/** Audits that a client revoked its own grant. */
export async function recordRevocation(
  { database, kv }: Service,
  { clientId, clientName }: Client,
  grantId: string | undefined,
): Promise<void> {
  const grant = grantId ? await findRecord(kv, 'Grant', grantId) : undefined
  const organizationId = organizationOf(grant)
  if (!grant || !organizationId) return
  await database.asOrg(organizationId, async (sql) => {
    const [user] = await sql<{ email: string }>`select email from users where id = ${grant.accountId}`
    const trail = { organizationId, actor: user?.email ?? 'oauth', actorId: user && grant.accountId }
    await recordAudit(sql, trail, 'client.revoked', clientId, { name: clientName ?? clientId })
  })
}

export const readResources = (resource: unknown): string[] => [resource ?? []].flat().map(String)

/** Also undefined if the user's sessions were ended since, or if the user isn't a member of the organization. */
export async function findSignedInUser(
  { database }: Service,
  userId: string,
  signIn: SignIn | undefined,
  organizationId?: string | undefined,
): Promise<Caller['user'] | undefined> {
  if (!signIn || Number.isNaN(signIn.generation)) return undefined
  const [user] = await database.asUser(
    userId,
    (sql) => sql<Caller['user']>`
      select id, email, name, avatar_url from users u
      where id = ${userId} and session_generation = ${signIn.generation} and (${organizationId ?? null}::uuid is null or exists (
        select from members m where m.user_id = u.id and m.organization_id = ${organizationId ?? null}))`,
  )
  return user
}
