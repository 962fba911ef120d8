import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { selectDeprovisioned } from '../../organizations/directories/deprovisioned.ts'
import { readTrustedIssuer } from '../../visitors/tickets/frames.ts'
import type * as contract from './contract.ts'

type ConfirmedBrowser = Output<typeof contract.listConfirmedBrowsers>['browsers'][number]

/** How long a browser stays confirmed after its user proved who they are. */
export const confirmedDays = 180
/** Per end user, and per browser: the oldest make room. */
const mostBrowsers = 20
const mostKeys = 20

/** A frame that asks to be confirmed, for the user whom its ticket named. */
export interface FrameClaim {
  organizationId: string
  endUserId: string
  thumbprint: string
  verifiedEmail: string | null
}

/** Confirms the frame if its user has proven in this browser before that they are the user. */
export const confirmAgain = (
  service: Service,
  { organizationId, endUserId, thumbprint, verifiedEmail }: FrameClaim,
  browser: string,
): Promise<boolean> =>
  announcing(service, endUserId, organizationId, async (sql) => {
    const issuer = (await readTrustedIssuer(sql, service.config))?.issuer
    if (!(await mayConfirm(sql, endUserId, verifiedEmail))) return false
    const [known] = await sql<{ id: string }>`
      update confirmed_browsers set last_used_at = now()
      where end_user_id = ${endUserId} and browser_fingerprint = ${browser} and expires_at > now()
        and issuer = ${issuer ?? null}
      returning id`
    if (!known) return false
    await addKey(sql, { endUserId, thumbprint, browserId: known.id })
    await recordAudit(sql, { organizationId, actor: 'widget' }, 'end_user.browser_confirmed', endUserId, {
      browser_id: known.id,
      how: 'cookie',
    })
    return true
  })

/** Confirms the browser, and the frame in it. The caller has verified that the browser's user is the end user. */
export const confirmBrowser = (
  service: Service,
  { organizationId, endUserId, thumbprint, verifiedEmail }: FrameClaim,
  { browser, how, issuer }: { browser: string; how: 'provider'; issuer: string },
): Promise<boolean> =>
  announcing(service, endUserId, organizationId, async (sql) => {
    // The provider may have changed since the user left for it.
    if ((await readTrustedIssuer(sql, service.config))?.issuer !== issuer) return false
    if (!(await mayConfirm(sql, endUserId, verifiedEmail))) return false
    const [confirmed] = await sql<{ id: string }>`
      insert into confirmed_browsers (organization_id, id, end_user_id, browser_fingerprint, how, issuer, expires_at)
      values (current_organization(), ${newId()}, ${endUserId}, ${browser}, ${how}, ${issuer},
              now() + make_interval(days => ${confirmedDays}))
      on conflict (organization_id, end_user_id, browser_fingerprint) do update set
        how = excluded.how, issuer = excluded.issuer, created_at = now(), last_used_at = now(), expires_at = excluded.expires_at
      returning id`
    const browserId = confirmed?.id ?? ''
    await sql`
      delete from confirmed_browsers where end_user_id = ${endUserId}
        and (expires_at <= now() or id not in (
          select id from confirmed_browsers where end_user_id = ${endUserId} order by last_used_at desc, id limit ${mostBrowsers}))`
    await addKey(sql, { endUserId, thumbprint, browserId })
    const data = { browser_id: browserId, how }
    await recordAudit(sql, { organizationId, actor: 'widget' }, 'end_user.browser_confirmed', endUserId, data)
    return true
  })

/** Locks the end user, so that confirmations of one user don't pass each other, an erasure or a directory's change. */
async function mayConfirm(sql: Sql, endUserId: string, verifiedEmail: string | null): Promise<boolean> {
  const [known] = await sql`select from end_users where id = ${endUserId} for update`
  if (!known) return false
  return verifiedEmail === null || (await selectDeprovisioned(sql, [verifiedEmail])).length === 0
}

async function addKey(
  sql: Sql,
  { endUserId, thumbprint, browserId }: { endUserId: string; thumbprint: string; browserId: string },
): Promise<void> {
  await sql`
    insert into frame_keys (organization_id, end_user_id, thumbprint, browser_id)
    values (current_organization(), ${endUserId}, ${thumbprint}, ${browserId})
    on conflict (organization_id, end_user_id, thumbprint) do update set browser_id = excluded.browser_id, created_at = now()`
  await sql`
    delete from frame_keys where browser_id = ${browserId} and thumbprint not in (
      select thumbprint from frame_keys where browser_id = ${browserId}
      order by created_at desc, thumbprint limit ${mostKeys})`
}

/** After the commit, every node looks up the user's open frames again. */
async function announcing(
  { database, changes }: Service,
  endUserId: string,
  organizationId: string,
  change: (sql: Sql) => Promise<boolean>,
): Promise<boolean> {
  const isDone = await database.asOrg(organizationId, change)
  if (isDone) changes.announce(topics.endUser(endUserId))
  return isDone
}

const selectBrowsers = (sql: Sql, endUserId: string) => sql<ConfirmedBrowser>`
  select b.id, b.how, b.created_at, b.last_used_at, b.expires_at,
         (select count(*) from frame_keys k where k.browser_id = b.id) as frame_count
  from confirmed_browsers b where b.end_user_id = ${endUserId} and b.expires_at > now()
  order by b.last_used_at desc, b.id`

export const listConfirmedBrowsers = (
  { database }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.listConfirmedBrowsers>,
): Promise<Output<typeof contract.listConfirmedBrowsers>> =>
  database.asOrg(organization.id, async (sql) => {
    const [known] = await sql`select from end_users where id = ${id}`
    if (!known) throw notFound('end_user', id)
    return { browsers: await selectBrowsers(sql, id) }
  })

export async function removeConfirmedBrowser(
  { database, changes }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.removeConfirmedBrowser>,
): Promise<Output<typeof contract.removeConfirmedBrowser>> {
  const endUserId = await database.asOrg(caller.organization.id, async (sql) => {
    const [removed] = await sql<{ end_user_id: string }>`
      delete from confirmed_browsers where id = ${id} returning end_user_id`
    if (!removed) throw notFound('confirmed_browser', id)
    await recordAudit(sql, trailOf(caller), 'end_user.browser_removed', removed.end_user_id, { browser_id: id })
    return removed.end_user_id
  })
  changes.announce(topics.endUser(endUserId))
  return { success: true }
}
