import type { Plan } from '../../kernel/config/plan-file.ts'
import type { ActivityKind } from '../../kernel/foundation/activity.ts'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { beforeAll, oneMore, type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { wildcardOf } from '../../kernel/net/origins.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { requireWithinPlan } from '../../plans/plans/plans.ts'
import { moveUsageOffSite } from '../../plans/usage/usage.ts'
import type * as contract from './contract.ts'

type Site = Output<typeof contract.listSites>[number]

export async function listSites(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor: [at, id] = beforeAll }: Input<typeof contract.listSites>,
): Promise<Paged<Site[]>> {
  const found = await database.asOrg(
    organization.id,
    (sql) => sql<Site>`
      select id, origin, name, created_at, last_seen_at from sites
      where (created_at, id) > (${at}::timestamptz, ${id}::uuid)
      order by created_at, id limit ${oneMore(limit)} offset ${offset}`,
  )
  const { rows: body, next_cursor } = takePage(found, limit, (site) => [site.created_at, site.id])
  return { body, next_cursor }
}

/** Keeps the site's usage and threads, without a site. */
export async function deleteSite(
  { database }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.deleteSite>,
): Promise<Output<typeof contract.deleteSite>> {
  await database.asOrg(caller.organization.id, async (sql) => {
    // Recording usage locks the site too, so concurrent usage is either moved here, or finds no site.
    const [site] = await sql<{ origin: string; is_allowed: boolean }>`
      select origin, is_allowed from sites where id = ${id} for update`
    if (!site) throw notFound('site', id)
    if (site.is_allowed) throw stillAllowed(site.origin, await selectAllowing(sql, site.origin))
    await moveUsageOffSite(sql, id)
    await moveThreadsOffSite(sql, id)
    await sql`delete from sites where id = ${id}`
    await recordAudit(sql, trailOf(caller), 'site.deleted', id, { origin: site.origin })
  })
  return { success: true }
}

/** Detaches a site's threads from the site. The caller must lock the site first, so that no new threads start there. */
async function moveThreadsOffSite(sql: Sql, siteId: string): Promise<void> {
  while (await detachThreads(sql, siteId, 10_000));
}

async function detachThreads(sql: Sql, siteId: string, most: number): Promise<number> {
  const [row] = await sql<{ changed: number }>`
    with changed as (
      update threads set site_id = null
      where id in (select id from threads where site_id = ${siteId} order by id limit ${most}) returning id
    )
    select count(*) as changed from changed`
  return row?.changed ?? 0
}

/**
 * Updates the sites to the allowed origins, within the plan's limit. Call it in every transaction that changes where
 * the widget may be embedded. An origin that is no longer allowed keeps its site if it has usage or threads.
 */
export async function settleSites(plans: readonly Plan[], sql: Sql): Promise<void> {
  // Serializes concurrent changes, so that each sees the earlier ones.
  await sql`select from organizations where id = current_organization() for no key update`
  const before = await countAllowed(sql)
  const allowed = (
    await sql<{ origin: string }>`
    select unnest(allowed_origins) as origin from publishable_keys where revoked_at is null
    union select unnest(allowed_domains) from identity_providers order by origin`
  ).map(({ origin }) => origin)
  await sql`
    insert into sites (organization_id, id, origin, name, is_allowed)
    select current_organization(), id, origin, name, true
    from unnest(${allowed.map(newId)}::uuid[], ${allowed}::text[], ${allowed.map(hostOf)}::text[]) as given (id, origin, name)
    on conflict (organization_id, origin) do update set is_allowed = true where not sites.is_allowed`
  await sql`update sites set is_allowed = false where is_allowed and not origin = any(${allowed})`
  await deleteUnused(sql)
  if ((await countAllowed(sql)) > before) await requireWithinPlan(plans, sql, 'sites')
}

/** The site of an origin that an administrator allowed, either exactly or with a wildcard. */
export async function findSite(sql: Sql, origin: string): Promise<string | undefined> {
  const [site] = await sql<{ id: string }>`
    select id from sites where is_allowed and origin in (${origin}, ${wildcardOf(origin)})
    order by origin = ${origin} desc limit 1`
  return site?.id
}

async function countAllowed(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }>`select count(*) as count from sites where is_allowed`
  return row?.count ?? 0
}

async function deleteUnused(sql: Sql): Promise<void> {
  // A separate statement takes the lock, so that the next one sees everything recorded so far, and nothing is added.
  await sql`select from sites where not is_allowed order by id for update`
  await sql`
    delete from sites where not is_allowed
      and not exists (select from usage_site_days where site_id = sites.id)
      and not exists (select from threads where site_id = sites.id)`
}

const selectAllowing = (sql: Sql, origin: string) => sql<{ name: string; key_prefix: string }>`
  select name, key_prefix from publishable_keys where revoked_at is null and ${origin} = any(allowed_origins) order by id limit 1`

function stillAllowed(origin: string, [key]: { name: string; key_prefix: string }[]) {
  const place = key
    ? `the allowed origins of the key “${key.name}” (${key.key_prefix}…)`
    : 'the organization’s allowed domains'
  return failure(409, 'CONFLICT', `${origin} is still allowed. Remove it from ${place} first.`, {
    data: { code: 'SITE_STILL_ALLOWED' },
  })
}

const hostOf = (origin: string) => origin.replace(/^[a-z]+:\/\//, '')

/** Visits of sites, by their ID. */
export const siteVisits: ActivityKind = {
  table: 'sites',
  write: (sql, noted) => sql`
    update sites t set last_seen_at = greatest(t.last_seen_at, n.at)
    from unnest(${noted.map(({ key }) => key)}::uuid[], ${noted.map(({ at }) => at)}::timestamptz[]) as n (id, at)
    where t.id = n.id`,
}
