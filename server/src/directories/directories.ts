import { randomBytes } from 'node:crypto'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { duplicate, notFound } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { fingerprint } from '../lib/secrets.ts'
import { requireFeature } from '../plans/plans.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'

type Directory = Output<typeof contract.getDirectory>
type Users = Output<typeof contract.listDirectoryUsers>
type Groups = Output<typeof contract.listDirectoryGroups>

export async function getDirectoryStatus(
  service: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.getDirectoryStatus>> {
  const { directories } = await listDirectories(service, caller)
  const active = directories.find(({ status }) => status === 'active')
  return {
    has_directory: directories.length > 0,
    has_active_directory: active !== undefined,
    directory_count: directories.length,
    ...(active && { active_directory: summarize(active) }),
  }
}

const summarize = ({ id, name, type, domain, user_count, group_count }: Directory) => ({
  id,
  name,
  type,
  domain,
  user_count,
  group_count,
})

export async function listDirectories(
  { database, config }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.listDirectories>> {
  return { directories: await database.asOrg(organization.id, (sql) => selectDirectories(sql, config)) }
}

export async function getDirectory(
  { database, config }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getDirectory>,
): Promise<Directory> {
  return database.asOrg(organization.id, (sql) => selectDirectory(sql, config, id))
}

export async function createDirectory(
  { database, config }: Service,
  caller: OrgCaller,
  { name, type, domain }: Input<typeof contract.createDirectory>,
): Promise<Output<typeof contract.createDirectory>> {
  const id = newId()
  const token = `scim_${randomBytes(32).toString('base64url')}`
  return database
    .asOrg(caller.organization.id, async (sql) => {
      await requireFeature(config.plans, sql, 'scim')
      await sql`
        insert into directories (organization_id, id, name, type, domain, token_hash)
        values (current_organization(), ${id}, ${name}, ${type}, ${domain}, ${fingerprint(token)})`
      await recordAudit(sql, trailOf(caller), 'directory.created', id, { name, type, domain })
      return { ...(await selectDirectory(sql, config, id)), bearer_token: token }
    })
    .catch(refuseSecondActive)
}

export async function updateDirectory(
  { database, config }: Service,
  caller: OrgCaller,
  { id, ...changes }: Input<typeof contract.updateDirectory>,
): Promise<Directory> {
  return database
    .asOrg(caller.organization.id, async (sql) => {
      await selectDirectory(sql, config, id)
      if (changes.status === 'active') await requireFeature(config.plans, sql, 'scim')
      await sql`
        update directories
        set name = coalesce(${changes.name ?? null}, name), type = coalesce(${changes.type ?? null}, type),
            domain = coalesce(${changes.domain ?? null}, domain), status = coalesce(${changes.status ?? null}, status),
            updated_at = now()
        where id = ${id}`
      await recordAudit(sql, trailOf(caller), 'directory.updated', id, changes)
      return selectDirectory(sql, config, id)
    })
    .catch(refuseSecondActive)
}

export async function deleteDirectory(
  { database }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.deleteDirectory>,
): Promise<Output<typeof contract.deleteDirectory>> {
  await database.asOrg(caller.organization.id, async (sql) => {
    const [gone] = await sql<{ name: string; domain: string }>`
      delete from directories where id = ${id} returning name, domain`
    if (!gone) throw notFound('directory', id)
    await recordAudit(sql, trailOf(caller), 'directory.deleted', id, gone)
  })
  return { success: true }
}

export async function listDirectoryUsers(
  { database, config }: Service,
  { organization }: OrgCaller,
  { id, limit, offset }: Input<typeof contract.listDirectoryUsers>,
): Promise<Users> {
  return database.asOrg(organization.id, async (sql) => {
    const { user_count } = await selectDirectory(sql, config, id)
    const users = await sql<Users['users'][number]>`
      select id, external_id, user_name, email, name, active, created_at, updated_at
      from directory_users where directory_id = ${id} order by id limit ${limit} offset ${offset}`
    return { users, total: user_count }
  })
}

export async function listDirectoryGroups(
  { database, config }: Service,
  { organization }: OrgCaller,
  { id, limit, offset }: Input<typeof contract.listDirectoryGroups>,
): Promise<Groups> {
  return database.asOrg(organization.id, async (sql) => {
    const { group_count } = await selectDirectory(sql, config, id)
    const groups = await sql<Groups['groups'][number]>`
      select id, external_id, display_name, created_at, updated_at
      from directory_groups where directory_id = ${id} order by id limit ${limit} offset ${offset}`
    return { groups, total: group_count }
  })
}

async function selectDirectory(sql: Sql, config: Service['config'], id: string): Promise<Directory> {
  const [directory] = await selectDirectories(sql, config, id)
  if (!directory) throw notFound('directory', id)
  return directory
}

/** Without an ID, selects all directories, oldest first. */
const selectDirectories = (sql: Sql, { publicUrl }: Service['config'], id: string | null = null) => sql<Directory>`
  select id, name, type, domain, status, ${`${publicUrl}/scim/v2/`} || id as scim_base_url,
         (select count(*) from directory_users u where u.directory_id = d.id) as user_count,
         (select count(*) from directory_groups g where g.directory_id = d.id) as group_count,
         created_at, updated_at
  from directories d where id = coalesce(${id}, id) order by id`

function refuseSecondActive(error: unknown): never {
  throw isUniqueViolation(error, 'directories_active_domain') ? duplicate('directory') : error
}
