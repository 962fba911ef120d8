import type { Service } from '../../kernel/foundation/service.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { createSigner } from '../../kernel/lib/signed-values.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import { type StoredConnector, selectStoredConnectors } from '../connectors/connectors.ts'
import { StepFailed } from '../connectors/steps.ts'
import { type Consenting, finishConsent, type Visit } from './consent.ts'
import { disconnect } from './revocation.ts'

/**
 * End users have no account at Inlay. They follow a link from the agent's conversation, consent at the third party, and
 * return to the page that embeds the agent with a code. The consent is only completed there, by the user who asked for
 * it: so a link that was sent to another user can't connect that user's account.
 */

/** A call of the agent that needs the user to connect their account. */
export interface Invitation extends Consenting {
  organizationName: string
  /** How the organization knows the user. */
  userName: string
  /** Where the user talks to the agent. */
  origin: string
  /** The page where the user wrote. */
  pageUrl: string | undefined
}

/** The query parameter of the page's URL that has the code. */
const codeParameter = 'inlay_connect'

/** What the third party returned, until the user is back at the page. Authorization codes expire soon as well. */
const arrivals = oneTime<{ visit: Visit; code: string; iss: string | undefined }>('connect-arrival', 600)

/** Each call's link starts one consent. */
export const linkSeconds = 60 * 60
const usedKey = (callId: string) => `connect-link:${callId}`

/**
 * Links to connect an account. They're signed when they are sent to the user: whoever knows only the IDs, such as a
 * member of the organization, can't follow a user's link and connect an account of their own for that user.
 */
export interface ConnectLinks {
  pathOf(organizationId: string, callId: string): string
  /** Undefined unless the link was issued here. */
  open(link: string): { organizationId: string; callId: string } | undefined
  /** Adds the `path` of the link to each `data-connect` chunk. */
  addTo<Each extends { type: string }>(organizationId: string, chunks: readonly Each[]): readonly Each[]
}

const longestLink = 512

export function createConnectLinks({ secrets }: Pick<Service, 'secrets'>): ConnectLinks {
  const signer = createSigner<[organizationId: string, callId: string]>(secrets.derive('connect links'), longestLink)
  const pathOf = (organizationId: string, callId: string) => `/connect/agent/${signer.sign([organizationId, callId])}`
  return {
    pathOf,
    open(link) {
      const [organizationId, callId] = signer.open(link) ?? []
      return organizationId === undefined || callId === undefined ? undefined : { organizationId, callId }
    },
    addTo(organizationId, chunks) {
      if (!chunks.some(isConnect)) return chunks
      return chunks.map((chunk) => {
        if (!isConnect(chunk)) return chunk
        return { ...chunk, data: { ...chunk.data, path: pathOf(organizationId, chunk.id) } }
      })
    },
  }
}

const isConnect = (chunk: { type: string }): chunk is { type: 'data-connect'; id: string; data: object } =>
  chunk.type === 'data-connect'

/** Undefined if there is no such call, its link was used or is too old, or its user or connector is gone. */
export async function findInvitation(
  { database, kv }: Pick<Service, 'database' | 'kv'>,
  organizationId: string,
  callId: string,
): Promise<Invitation | undefined> {
  if (!isId(organizationId) || !isId(callId) || (await kv.get(usedKey(callId)))) return undefined
  return database.asOrg(organizationId, async (sql) => {
    const [call] = await selectCall(sql, callId)
    const connector = call && (await selectThirdParty(sql, call.connect_to))
    // The server has checked that the page's URL has the origin of the user's ticket.
    const origin = URL.parse(call?.page_url ?? call?.thread_origin ?? '')?.origin
    if (!connector || origin === undefined) return undefined
    const { end_user_id: userId, user_name: userName, organization_name: organizationName, page_url } = call
    return { organizationId, organizationName, connector, userId, userName, origin, pageUrl: page_url ?? undefined }
  })
}

const selectCall = (sql: Sql, callId: string) => sql<{
  connect_to: string
  page_url: string | null
  thread_origin: string | null
  end_user_id: string
  user_name: string
  organization_name: string
}>`
  select c.connect_to, r.page->>'url' as page_url, t.origin as thread_origin, t.end_user_id,
         coalesce(nullif(u.email, ''), u.external_id) as user_name, o.name as organization_name
  from tool_calls c
  join runs r on r.organization_id = c.organization_id and r.id = c.run_id
  join threads t on t.organization_id = r.organization_id and t.id = r.thread_id
  join end_users u on u.organization_id = t.organization_id and u.id = t.end_user_id
  join organizations o on o.id = c.organization_id
  where c.id = ${callId} and c.connect_to is not null and t.status <> 'deleted'
    and c.ended_at > now() - make_interval(secs => ${linkSeconds})`

async function selectThirdParty(sql: Sql, id: string): Promise<StoredConnector | undefined> {
  const [connector] = await selectStoredConnectors(sql, id)
  return connector?.kind === 'oauth' && connector.status === 'active' ? connector : undefined
}

/** Returns true for exactly one of several concurrent callers. */
export const useLink = ({ kv }: Pick<Service, 'kv'>, callId: string): Promise<boolean> =>
  kv.setIfAbsent(usedKey(callId), true, linkSeconds)

/** Where the user returns to: a page of the origin where they talk to the agent. */
export function findReturn({ origin, pageUrl }: Invitation, wanted: string | undefined): string {
  const url = URL.parse(wanted ?? pageUrl ?? '/', origin)
  return url?.origin === origin ? `${origin}${url.pathname}${url.search}` : `${origin}/`
}

/** Keeps the third party's response, and returns the URL of the page that completes the consent. */
export async function sendBack(
  { kv }: Pick<Service, 'kv'>,
  visit: Visit & { return_to: string },
  answer: { code: string; iss: string | undefined },
): Promise<string> {
  const url = new URL(visit.return_to)
  url.searchParams.set(codeParameter, await arrivals.issue(kv, { visit, ...answer }))
  return url.href
}

/** Completes the consent if the page's user is the one who asked for it. Returns the connector's name. */
export async function completeConsent(service: Service, holder: TicketHolder, code: string): Promise<string> {
  const { organization_id: organizationId, end_user } = holder
  const arrival = await arrivals.take(service.kv, code)
  const isOwn = arrival?.visit.organization_id === organizationId && arrival.visit.user_id === end_user?.id
  if (!arrival || !end_user || !isOwn) throw notCompleted()
  const { connector_id } = arrival.visit
  const connector = await service.database.asOrg(organizationId, async (sql) => {
    const found = await selectThirdParty(sql, connector_id)
    if (found) await insertConsent(sql, connector_id, end_user.id)
    return found
  })
  if (!connector) throw notCompleted()
  const { provider } = end_user
  const who: Consenting = { organizationId, connector, userId: end_user.id, provider }
  try {
    await finishConsent(service, who, arrival.visit, arrival)
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error
    const data = { connector: connector.name, reason: error.message }
    throw failure(502, 'CONNECT_FAILED', `${connector.name} couldn’t be connected: ${error.message}`, {
      data,
      cause: error,
    })
  }
  // The user or the connector may have been removed meanwhile; nothing may be left then.
  const isKept = await service.database.asOrg(organizationId, async (sql) => {
    const [kept] = await sql`
      select from end_user_consents where connector_id = ${connector_id} and end_user_id = ${end_user.id}`
    if (kept) await record(sql, who, 'connector.connected')
    return kept !== undefined
  })
  if (!isKept) {
    await disconnect(service, [who])
    throw notCompleted()
  }
  service.changes.announce(topics.consents(end_user.id))
  return connector.name
}

const insertConsent = (sql: Sql, connectorId: string, endUserId: string) => sql`
  insert into end_user_consents (organization_id, connector_id, end_user_id)
  select organization_id, ${connectorId}, id from end_users where id = ${endUserId}
  on conflict do nothing`

/** Deletes an end user's tokens, and revokes them at the third party. */
export async function disconnectEndUser(
  service: Service,
  organizationId: string,
  connectorId: string,
  endUserId: string,
): Promise<void> {
  const connector = await service.database.asOrg(organizationId, (sql) => selectThirdParty(sql, connectorId))
  if (!connector) throw notFound('connector', connectorId)
  const who: Consenting = { organizationId, connector, userId: endUserId }
  await disconnect(service, [who])
  await service.database.asOrg(organizationId, async (sql) => {
    await sql`delete from end_user_consents where connector_id = ${connectorId} and end_user_id = ${endUserId}`
    await record(sql, who, 'connector.disconnected')
  })
  service.changes.announce(topics.consents(endUserId))
}

const record = (sql: Sql, { organizationId, connector, userId }: Consenting, action: string) =>
  recordAudit(sql, { organizationId, actor: 'widget' }, action, connector.id, {
    name: connector.name,
    end_user_id: userId,
  })

const notCompleted = () =>
  failure(
    409,
    'CONNECT_EXPIRED',
    'Your account couldn’t be connected: the link has expired, was already used, or is another user’s. Ask the agent for a new one.',
  )
