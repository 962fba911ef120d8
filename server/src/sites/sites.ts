import type { OrgCaller } from '../access.ts'
import { recordAudit } from '../audit/audit.ts'
import { newId } from '../lib/ids.ts'
import type { Output } from '../operation.ts'
import { requireRoom } from '../plans/plans.ts'
import type { Service } from '../service.ts'
import type { Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'

type Site = Output<typeof contract.listSites>[number]

export async function listSites({ database }: Service, { organization }: OrgCaller): Promise<Site[]> {
  return database.asOrg(
    organization.id,
    (sql) => sql<Site>`select id, origin, name, created_at, last_seen_at from sites order by created_at, id`,
  )
}

/** Origins that an administrator allows are sites before anybody was there. A wildcard stands for sites yet to be seen. */
export async function declareSites(sql: Sql, origins: readonly string[]): Promise<void> {
  const declared = origins.filter((origin) => !origin.includes('*'))
  await sql`delete from sites where last_seen_at is null and not origin = any(${declared})`
  let added = 0
  for (const origin of declared) added += (await addSite(sql, origin, false)).length
  if (added > 0) await requireRoom(sql, 'sites')
}

/** The site that a ticket is asked for on: found, or made within the plan's limit. */
export async function findOrAddSite(sql: Sql, organizationId: string, origin: string): Promise<string> {
  const [known] = await sql<{ id: string }>`select id from sites where origin = ${origin}`
  if (known) return known.id
  const [added] = await addSite(sql, origin, true)
  // Somebody else's first visit at the same moment.
  if (!added) return findOrAddSite(sql, organizationId, origin)
  await requireRoom(sql, 'sites')
  await recordAudit(sql, { organizationId, actor: 'widget' }, 'site.added', added.id, { origin })
  return added.id
}

const addSite = (sql: Sql, origin: string, isSeen: boolean) => sql<{ id: string }>`
  insert into sites (organization_id, id, origin, name, last_seen_at)
  values (current_organization(), ${newId()}, ${origin}, ${new URL(origin).host}, case when ${isSeen} then now() end)
  on conflict (organization_id, origin) do nothing returning id`
