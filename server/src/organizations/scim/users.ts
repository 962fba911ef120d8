import { isId, newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { announceChangedPeople, nobodyChanged } from '../directories/announce-changed-people.ts'
import { noteFormerAddresses, recordLeavers, selectAddresses } from '../directories/deprovisioned.ts'
import { deleteDirectoryUser, settleMembers } from '../directories/membership.ts'
import { type Filter, matches, mentions, requiredValue } from './filters.ts'
import {
  beginEnding,
  beginWrite,
  type Directory,
  etagOf,
  type Fields,
  fitPage,
  isWanted,
  listReply,
  notThere,
  project,
  type Reply,
  type ResourceRequest,
  type Resources,
  readOperations,
  readPage,
  requireOpen,
  requireVersion,
  type ScimService,
  scan,
  scimLimits,
} from './resources.ts'
import { enterpriseSchema, userSchema, userType } from './schemas.ts'
import { badRequest, quote, ScimError } from './scim-error.ts'
import { columnsOf, patchUser, readUser, type UserAttributes } from './user-attributes.ts'

interface UserRow {
  id: string
  attributes: UserAttributes
  email: string
  active: boolean
  version: number
  created_at: string
  updated_at: string
}

interface GroupOfUser {
  user_id: string
  group_id: string
  display_name: string
}

async function list(service: ScimService, directory: Directory, query: URLSearchParams): Promise<Reply> {
  const { filter, startIndex, count } = readPage(userType, query)
  return service.database.asOrg(directory.organizationId, async (sql) => {
    await requireOpen(sql, service, directory, { writes: false })
    const { ids, total } = filter
      ? pageOf(await findIds(sql, directory, filter), startIndex, count)
      : await selectPage(sql, directory, startIndex, count)
    return listReply(await renderUsers(sql, directory, ids, query), total, startIndex)
  })
}

const pageOf = (all: string[], startIndex: number, count: number) => ({
  ids: all.slice(startIndex - 1, startIndex - 1 + count),
  total: all.length,
})

async function selectPage(sql: Sql, { id }: Directory, startIndex: number, count: number) {
  const [counted] = await sql<{ total: number }>`
    select count(*) as total from directory_users where directory_id = ${id}`
  const rows = await sql<{ id: string }>`
    select id from directory_users where directory_id = ${id} order by id limit ${count} offset ${startIndex - 1}`
  return { ids: rows.map((row) => row.id), total: counted?.total ?? 0 }
}

/** Clients ask for a user by name before they create one, so that must not read all users. */
async function findIds(sql: Sql, directory: Directory, filter: Filter): Promise<string[]> {
  if (mentions(filter, 'groups')) {
    throw badRequest('invalidFilter', 'Users can’t be found by their groups. Read the members of the group instead.')
  }
  const candidates = await selectCandidates(sql, directory, filter)
  const readBatch = (after: string, limit: number) => sql<UserRow>`
    select id, attributes, email, active, version, created_at, updated_at from directory_users
    where directory_id = ${directory.id} and id > ${after} order by id limit ${limit}`
  const isMatch = (row: UserRow) => matches(filter, render(row, directory, []))
  if (!candidates) return scan(readBatch, isMatch)
  return (await selectUsers(sql, directory, candidates)).filter(isMatch).map(({ id }) => id)
}

async function selectCandidates(sql: Sql, { id }: Directory, filter: Filter): Promise<string[] | undefined> {
  const wantedId = requiredValue(filter, 'id')
  if (wantedId !== undefined) return isId(wantedId) ? [wantedId] : []
  const userName = requiredValue(filter, 'userName')
  if (userName !== undefined) {
    const rows = await sql<{ id: string }>`
      select id from directory_users where directory_id = ${id} and user_name_key = lower(${userName})`
    return rows.map((row) => row.id)
  }
  const externalId = requiredValue(filter, 'externalId')
  if (externalId === undefined) return undefined
  const rows = await sql<{ id: string }>`
    select id from directory_users where directory_id = ${id} and external_id = ${externalId} order by id`
  return rows.map((row) => row.id)
}

const selectUsers = (sql: Sql, { id }: Directory, ids: readonly string[]) => sql<UserRow>`
  select id, attributes, email, active, version, created_at, updated_at from directory_users
  where directory_id = ${id} and id = any(${ids}::uuid[]) order by id`

const selectGroupsOf = (sql: Sql, ids: readonly string[]) => sql<GroupOfUser>`
  select user_id, group_id, display_name from directory_group_members gm
  join directory_groups g on g.id = gm.group_id where user_id = any(${ids}::uuid[]) order by user_id, group_id`

async function renderUsers(
  sql: Sql,
  directory: Directory,
  ids: readonly string[],
  query: URLSearchParams,
): Promise<Fields[]> {
  const [rows, found] = await Promise.all([
    selectUsers(sql, directory, ids),
    isWanted('groups', query) ? selectGroupsOf(sql, ids) : [],
  ])
  const groups = Map.groupBy(found, ({ user_id }) => user_id)
  const sized = rows.map((row) => ({ row, entries: groups.get(row.id)?.length ?? 0 }))
  return fitPage(sized).map(({ row }) => project(render(row, directory, groups.get(row.id) ?? []), query))
}

function render(row: UserRow, { url }: Directory, groups: readonly GroupOfUser[]): Fields {
  const { id, attributes, version, created_at, updated_at } = row
  return {
    schemas: [userSchema, ...(enterpriseSchema in attributes ? [enterpriseSchema] : [])],
    id,
    ...attributes,
    ...(groups.length > 0 && {
      groups: groups.map(({ group_id, display_name }) => ({
        value: group_id,
        $ref: `${url}/Groups/${group_id}`,
        display: display_name,
        type: 'direct',
      })),
    }),
    meta: {
      resourceType: 'User',
      created: created_at,
      lastModified: updated_at,
      location: `${url}/Users/${id}`,
      version: etagOf(version),
    },
  }
}

async function reply(
  sql: Sql,
  directory: Directory,
  id: string,
  query: URLSearchParams,
  status: number,
): Promise<Reply> {
  const [user] = await renderUsers(sql, directory, [id], new URLSearchParams())
  if (!user) throw notThere(userType, id)
  return describe(user, query, status)
}

function describe(user: Fields, query: URLSearchParams, status: number): Reply {
  const { location, version } = user.meta as Record<'location' | 'version', string>
  return { status, body: project(user, query), headers: { etag: version, location } }
}

async function read(service: ScimService, directory: Directory, { id, query }: ResourceRequest): Promise<Reply> {
  return service.database.asOrg(directory.organizationId, async (sql) => {
    await requireOpen(sql, service, directory, { writes: false })
    return reply(sql, directory, id, query, 200)
  })
}

async function create(service: ScimService, directory: Directory, { body, query }: ResourceRequest): Promise<Reply> {
  const { database, config } = service
  const attributes = readUser(body)
  const columns = columnsOf(attributes)
  const id = newId()
  const { answer, people } = await database
    .asOrg(directory.organizationId, async (sql) => {
      const trail = await beginWrite(sql, service, directory)
      const { user_name, external_id, email, name, active } = columns
      const inserting = Promise.all([
        sql<UserRow>`
          insert into directory_users (organization_id, directory_id, id, external_id, user_name, email, name, active, attributes)
          values (current_organization(), ${directory.id}, ${id}, ${external_id}, ${user_name}, ${email}, ${name}, ${active},
                  ${JSON.stringify(attributes)})
          returning id, attributes, email, active, version, created_at, updated_at`,
        requireUserSpace(sql, directory),
      ])
      const leavers = active ? [] : await inserting.then(() => recordLeavers(sql, [email]))
      // An active user's statements are sent together, in one round trip.
      const [[[row]], { changed, departed, invited }] = await Promise.all([
        inserting,
        settleMembers(sql, config.plans, trail, [id]),
      ])
      const answer = describe(render(row as UserRow, directory, []), query, 201)
      await recordAudit(sql, trail, 'directory_user.created', id, { user_name, active })
      return { answer, people: { changed, departed: [...departed, ...leavers], invited } }
    })
    .catch(refuseTaken(columns.user_name))
  await announceChangedPeople(service, directory.organizationId, people)
  return answer
}

async function requireUserSpace(sql: Sql, { id }: Directory): Promise<void> {
  const [counted] = await sql<{ total: number }>`
    select count(*) as total from directory_users where directory_id = ${id}`
  if ((counted?.total ?? 0) <= scimLimits.users) return
  throw new ScimError(403, `A directory can have at most ${scimLimits.users} users. Assign fewer users to Inlay.`)
}

const refuseTaken =
  (userName: string) =>
  (error: unknown): never => {
    if (!isUniqueViolation(error, 'directory_users_name')) throw error
    throw new ScimError(409, `Another user of this directory has the userName ${quote(userName)}.`, 'uniqueness')
  }

const replace: Resources['replace'] = (service, directory, request) =>
  change(service, directory, request, (before) => readUser(request.body, before))

const patch: Resources['patch'] = async (service, directory, request) => {
  const operations = readOperations(request.body)
  return change(service, directory, request, (before) => patchUser(before, operations))
}

async function change(
  service: ScimService,
  directory: Directory,
  { id, query, ifMatch }: ResourceRequest,
  next: (before: UserAttributes) => UserAttributes,
): Promise<Reply> {
  const { database, config } = service
  let userName = ''
  const { answer, people } = await database
    .asOrg(directory.organizationId, async (sql) => {
      const { trail, hasPlan, requirePlan } = await beginEnding(sql, service, directory)
      const before = await lockUser(sql, directory, id, ifMatch)
      const asked = next(before.attributes)
      if (columnsOf(asked).active) requirePlan()
      // Access must end under any plan. Other changes that come with it are left out.
      const attributes = hasPlan ? asked : { ...before.attributes, active: false }
      const columns = columnsOf(attributes)
      userName = columns.user_name
      if (isEqual(attributes, before.attributes)) {
        return { answer: await reply(sql, directory, id, query, 200), people: nobodyChanged }
      }
      await saveUser(sql, id, attributes)
      const { email, active } = columns
      await noteFormerAddresses(sql, id, [before.email, columnsOf(asked).email])
      const hasLeft = (!active && before.active) || before.email !== email
      const leavers = hasLeft ? await recordLeavers(sql, await selectAddresses(sql, id)) : []
      const { changed, departed, invited } = await settleMembers(sql, config.plans, trail, [id])
      const answer = await reply(sql, directory, id, query, 200)
      const action = active === before.active ? 'updated' : active ? 'activated' : 'deactivated'
      await recordAudit(sql, trail, `directory_user.${action}`, id, { user_name: userName })
      return { answer, people: { changed, departed: [...departed, ...leavers], invited } }
    })
    .catch((error) => refuseTaken(userName)(error))
  await announceChangedPeople(service, directory.organizationId, people)
  return answer
}

async function lockUser(sql: Sql, directory: Directory, id: string, ifMatch: string | undefined): Promise<UserRow> {
  const [user] = await sql<UserRow>`
    select id, attributes, email, active, version, created_at, updated_at from directory_users
    where directory_id = ${directory.id} and id = ${id} for update`
  if (!user) throw notThere(userType, id)
  requireVersion(ifMatch, user.version)
  return user
}

/** Compares without regard to the order of keys, which PostgreSQL doesn't keep. */
const isEqual = (one: unknown, other: unknown): boolean => sorted(one) === sorted(other)

const sorted = (value: unknown): string =>
  JSON.stringify(value, (_, part) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )

async function saveUser(sql: Sql, id: string, attributes: UserAttributes): Promise<void> {
  const { user_name, external_id, email, name, active } = columnsOf(attributes)
  await sql`
    update directory_users
    set attributes = ${JSON.stringify(attributes)}, user_name = ${user_name}, external_id = ${external_id}, email = ${email},
        name = ${name}, active = ${active}, version = version + 1, updated_at = now()
    where id = ${id}`
}

async function remove(service: ScimService, directory: Directory, { id, ifMatch }: ResourceRequest): Promise<Reply> {
  const people = await service.database.asOrg(directory.organizationId, async (sql) => {
    const { trail } = await beginEnding(sql, service, directory)
    const { attributes } = await lockUser(sql, directory, id, ifMatch)
    const people = await deleteDirectoryUser(sql, service.config.plans, trail, id)
    await recordAudit(sql, trail, 'directory_user.deleted', id, { user_name: attributes.userName })
    return people
  })
  await announceChangedPeople(service, directory.organizationId, people)
  return { status: 204 }
}

export const scimUsers: Resources = { list, read, create, replace, patch, remove }
