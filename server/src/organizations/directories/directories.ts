import { randomBytes } from 'node:crypto'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { duplicate, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { requireFeature } from '../../plans/plans/plans.ts'
import type { AccessCleanup } from '../access-cleanup/access-cleanup.ts'
import { lockMembers } from '../organizations/members.ts'
import { announceChangedPeople } from './announce-changed-people.ts'
import type * as contract from './contract.ts'
import { releaseMembers, settleMembers } from './membership.ts'

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
  return database
    .asOrg(caller.organization.id, async (sql) => {
      await requireFeature(config.plans, sql, 'scim')
      await sql`
        insert into directories (organization_id, id, name, type, domain)
        values (current_organization(), ${id}, ${name}, ${type}, ${domain})`
      const token = await addToken(sql, id)
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
    await lockMembers(sql)
    await releaseMembers(sql, id)
    const [gone] = await sql<{ name: string; domain: string }>`
      delete from directories where id = ${id} returning name, domain`
    if (!gone) throw notFound('directory', id)
    await recordAudit(sql, trailOf(caller), 'directory.deleted', id, gone)
  })
  return { success: true }
}

export async function rotateDirectoryToken(
  { database, config }: Service,
  caller: OrgCaller,
  { id, overlap_hours }: Input<typeof contract.rotateDirectoryToken>,
): Promise<Output<typeof contract.rotateDirectoryToken>> {
  return database.asOrg(caller.organization.id, async (sql) => {
    const [locked] = await sql`select from directories where id = ${id} for no key update`
    if (!locked) throw notFound('directory', id)
    await sql`
      update directory_tokens set expires_at = least(expires_at, now() + make_interval(hours => ${overlap_hours}))
      where directory_id = ${id}`
    await sql`
      delete from directory_tokens where directory_id = ${id} and (expires_at <= now() or id in (
        select id from directory_tokens where directory_id = ${id} order by created_at desc, id desc offset ${mostPrevious}))`
    const token = await addToken(sql, id)
    await recordAudit(sql, trailOf(caller), 'directory.token_rotated', id, { overlap_hours })
    const { tokens } = await selectDirectory(sql, config, id)
    return { bearer_token: token, tokens }
  })
}

/** Previous tokens that can work beside a new one. */
const mostPrevious = 4

/** Only its hash is stored. */
async function addToken(sql: Sql, directoryId: string): Promise<string> {
  const token = `scim_${randomBytes(32).toString('base64url')}`
  await sql`
    insert into directory_tokens (organization_id, directory_id, id, token_hash, last_four)
    values (current_organization(), ${directoryId}, ${newId()}, ${fingerprint(token)}, ${token.slice(-4)})`
  return token
}

/** Before the first user or group. */
const firstId = '00000000-0000-0000-0000-000000000000'

export async function listDirectoryUsers(
  { database, config }: Service,
  { organization }: OrgCaller,
  { id, limit, offset, cursor: [after] = [firstId] }: Input<typeof contract.listDirectoryUsers>,
): Promise<Paged<Users>> {
  return database.asOrg(organization.id, async (sql) => {
    const { user_count } = await selectDirectory(sql, config, id)
    const found = await sql<Users['users'][number]>`
      with page as materialized (
        select id, external_id, user_name, email, name, active, created_at, updated_at
        from directory_users where directory_id = ${id} and id > ${after} order by id limit ${limit + 1} offset ${offset}
      )
      select page.*, m.role, i.id is not null as is_invited from page
      left join members m on m.directory_user_id = page.id and m.deactivated_at is null
      left join invitations i on i.directory_user_id = page.id order by page.id`
    const { rows: users, next_cursor } = takePage(found, limit, (user) => [user.id])
    return { body: { users, total: user_count }, next_cursor }
  })
}

export async function listDirectoryGroups(
  { database, config }: Service,
  { organization }: OrgCaller,
  { id, limit, offset, cursor: [after] = [firstId] }: Input<typeof contract.listDirectoryGroups>,
): Promise<Paged<Groups>> {
  return database.asOrg(organization.id, async (sql) => {
    const { group_count } = await selectDirectory(sql, config, id)
    const found = await sql<Groups['groups'][number]>`
      select id, external_id, display_name, role, created_at, updated_at,
             (select count(*) from directory_group_members gm where gm.group_id = g.id) as member_count
      from directory_groups g where directory_id = ${id} and id > ${after}
      order by id limit ${limit + 1} offset ${offset}`
    const { rows: groups, next_cursor } = takePage(found, limit, (group) => [group.id])
    return { body: { groups, total: group_count }, next_cursor }
  })
}

export async function updateDirectoryGroup(
  service: Service & { accessCleanup: AccessCleanup },
  caller: OrgCaller,
  { id, group_id, role }: Input<typeof contract.updateDirectoryGroup>,
): Promise<Output<typeof contract.updateDirectoryGroup>> {
  const { database, config } = service
  const trail = trailOf(caller)
  const { group, people } = await database.asOrg(trail.organizationId, async (sql) => {
    await lockMembers(sql)
    const [directory] = await sql`select from directories where id = ${id}`
    if (!directory) throw notFound('directory', id)
    await sql`update directory_groups set role = ${role} where id = ${group_id} and directory_id = ${id}`
    const [group] = await sql<Groups['groups'][number]>`
      select id, external_id, display_name, role, created_at, updated_at,
             (select count(*) from directory_group_members gm where gm.group_id = g.id) as member_count
      from directory_groups g where id = ${group_id} and directory_id = ${id}`
    if (!group) throw notFound('directory_group', group_id)
    const users = await sql<{ user_id: string }>`
      select user_id from directory_group_members where group_id = ${group_id}`
    const people = await settleMembers(
      sql,
      config.plans,
      trail,
      users.map(({ user_id }) => user_id),
    )
    await recordAudit(sql, trail, 'directory_group.role_changed', group_id, { name: group.display_name, role })
    return { group, people }
  })
  await announceChangedPeople(service, trail.organizationId, people)
  return group
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
         coalesce((
           select jsonb_agg(jsonb_build_object(
             'id', t.id, 'last_four', last_four, 'created_at', iso_timestamp(t.created_at),
             'expires_at', iso_timestamp(expires_at), 'last_used_at', iso_timestamp(last_used_at))
             order by t.created_at desc, t.id desc)
           from directory_tokens t where t.directory_id = d.id and (expires_at is null or expires_at > now())), '[]') as tokens,
         last_synced_at, created_at, updated_at
  from directories d where id = coalesce(${id}, id) order by id`

function refuseSecondActive(error: unknown): never {
  throw isUniqueViolation(error, 'directories_active_domain') ? duplicate('directory') : error
}
