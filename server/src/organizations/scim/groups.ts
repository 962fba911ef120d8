import { isId, newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { announceChangedPeople, type ChangedPeople, nobodyChanged } from '../directories/announce-changed-people.ts'
import { settleMembers } from '../directories/membership.ts'
import { type Filter, matches, parsePath, requiredValue } from './filters.ts'
import {
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
import { groupSchema, groupType } from './schemas.ts'
import { badRequest, quote, ScimError } from './scim-error.ts'
import type { PatchOperation } from './user-attributes.ts'

interface GroupRow {
  id: string
  external_id: string | null
  display_name: string
  role: string | null
  version: number
  created_at: string
  updated_at: string
}

interface MemberRow {
  group_id: string
  user_id: string
  display: string
}

const longestName = 256

async function list(service: ScimService, directory: Directory, query: URLSearchParams): Promise<Reply> {
  const { filter, startIndex, count } = readPage(groupType, query)
  return service.database.asOrg(directory.organizationId, async (sql) => {
    await requireOpen(sql, service, directory, { writes: false })
    const all = await findIds(sql, directory, filter)
    const ids = all.slice(startIndex - 1, startIndex - 1 + count)
    return listReply(await renderGroups(sql, directory, ids, query), all.length, startIndex)
  })
}

async function findIds(sql: Sql, directory: Directory, filter: Filter | undefined): Promise<string[]> {
  if (!filter) {
    const rows = await sql<{ id: string }>`
      select id from directory_groups where directory_id = ${directory.id} order by id`
    return rows.map(({ id }) => id)
  }
  const asked = [...memberIdsIn(filter)].filter(isId)
  const known = await sql<MemberRow>`
    select group_id, user_id, '' as display from directory_group_members
    where directory_id = ${directory.id} and user_id = any(${asked}::uuid[])`
  const members = Map.groupBy(known, ({ group_id }) => group_id)
  const isMatch = (row: GroupRow) => matches(filter, render(row, directory, members.get(row.id) ?? []))
  const candidates = await selectCandidates(sql, directory, filter)
  if (candidates) return (await selectGroups(sql, directory, candidates)).filter(isMatch).map(({ id }) => id)
  const readBatch = (after: string, limit: number) => sql<GroupRow>`
    select id, external_id, display_name, role, version, created_at, updated_at from directory_groups
    where directory_id = ${directory.id} and id > ${after} order by id limit ${limit}`
  return scan(readBatch, isMatch)
}

async function selectCandidates(sql: Sql, { id }: Directory, filter: Filter): Promise<string[] | undefined> {
  const wantedId = requiredValue(filter, 'id')
  if (wantedId !== undefined) return isId(wantedId) ? [wantedId] : []
  const displayName = requiredValue(filter, 'displayName')
  if (displayName === undefined) return undefined
  const rows = await sql<{ id: string }>`
    select id from directory_groups where directory_id = ${id} and display_name_key = lower(${displayName})`
  return rows.map((row) => row.id)
}

/** The members that a filter asks about. Groups are only read with these, because they can have thousands. */
function memberIdsIn(filter: Filter): Set<string> {
  switch (filter.kind) {
    case 'and':
    case 'or':
      return filter.parts.reduce((all, part) => all.union(memberIdsIn(part)), new Set<string>())
    case 'not':
      return memberIdsIn(filter.part)
    case 'some':
      return valuesAskedFor(filter.filter)
    case 'present':
    case 'compare':
      return filter.ref.attribute.name === 'members' ? valuesAskedFor(filter) : new Set()
  }
}

function valuesAskedFor(filter: Filter): Set<string> {
  if (filter.kind === 'or')
    return filter.parts.reduce((all, part) => all.union(valuesAskedFor(part)), new Set<string>())
  const part = filter.kind === 'compare' ? (filter.ref.sub ?? filter.ref.attribute).name : ''
  if (filter.kind === 'compare' && filter.operator === 'eq' && ['members', 'value'].includes(part)) {
    return new Set([String(filter.value)])
  }
  throw badRequest('invalidFilter', 'Members can only be compared with eq, such as members eq "<ID of a user>".')
}

const selectGroups = (sql: Sql, { id }: Directory, ids: readonly string[]) => sql<GroupRow>`
  select id, external_id, display_name, role, version, created_at, updated_at from directory_groups
  where directory_id = ${id} and id = any(${ids}::uuid[]) order by id`

async function renderGroups(
  sql: Sql,
  directory: Directory,
  ids: readonly string[],
  query: URLSearchParams,
): Promise<Fields[]> {
  const rows = await selectGroups(sql, directory, ids)
  if (!isWanted('members', query)) return rows.map((row) => project(render(row, directory, []), query))
  const counts = await sql<{ group_id: string; count: number }>`
    select group_id, count(*) as count from directory_group_members where group_id = any(${ids}::uuid[]) group by group_id`
  const countOf = new Map(counts.map(({ group_id, count }) => [group_id, count]))
  const shown = fitPage(rows.map((row) => ({ ...row, entries: countOf.get(row.id) ?? 0 })))
  const found = await sql<MemberRow>`
    select group_id, user_id, case when u.name = '' then u.user_name else u.name end as display
    from directory_group_members gm join directory_users u on u.id = gm.user_id
    where group_id = any(${shown.map(({ id }) => id)}::uuid[]) order by group_id, user_id`
  const members = Map.groupBy(found, ({ group_id }) => group_id)
  return shown.map((row) => project(render(row, directory, members.get(row.id) ?? []), query))
}

function render(row: GroupRow, { url }: Directory, members: readonly MemberRow[]): Fields {
  const { id, external_id, display_name, version, created_at, updated_at } = row
  return {
    schemas: [groupSchema],
    id,
    ...(external_id !== null && { externalId: external_id }),
    displayName: display_name,
    members: members.map(({ user_id, display }) => ({
      value: user_id,
      $ref: `${url}/Users/${user_id}`,
      display,
      type: 'User',
    })),
    meta: {
      resourceType: 'Group',
      created: created_at,
      lastModified: updated_at,
      location: `${url}/Groups/${id}`,
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
  const meta = new URLSearchParams(isWanted('members', query) ? '' : 'excludedAttributes=members')
  const [group] = await renderGroups(sql, directory, [id], meta)
  if (!group) throw notThere(groupType, id)
  const { location, version } = group.meta as Record<'location' | 'version', string>
  return { status, body: project(group, query), headers: { etag: version, location } }
}

async function read(service: ScimService, directory: Directory, { id, query }: ResourceRequest): Promise<Reply> {
  return service.database.asOrg(directory.organizationId, async (sql) => {
    await requireOpen(sql, service, directory, { writes: false })
    return reply(sql, directory, id, query, 200)
  })
}

async function create(service: ScimService, directory: Directory, { body, query }: ResourceRequest): Promise<Reply> {
  const name = readName(body.displayName)
  const externalId = readExternalId(body.externalId)
  const members = readMembers(body.members)
  const id = newId()
  return service.database
    .asOrg(directory.organizationId, async (sql) => {
      const trail = await beginWrite(sql, service, directory)
      await sql`
        insert into directory_groups (organization_id, directory_id, id, external_id, display_name)
        values (current_organization(), ${directory.id}, ${id}, ${externalId}, ${name})`
      await requireGroupSpace(sql, directory)
      await addMembers(sql, directory, id, members ?? [])
      const answer = await reply(sql, directory, id, query, 201)
      // A new group gives no role yet.
      await recordAudit(sql, trail, 'directory_group.created', id, { name, members: members?.length ?? 0 })
      return answer
    })
    .catch(refuseTaken(name))
}

async function requireGroupSpace(sql: Sql, { id }: Directory): Promise<void> {
  const [counted] = await sql<{ total: number }>`
    select count(*) as total from directory_groups where directory_id = ${id}`
  if ((counted?.total ?? 0) <= scimLimits.groups) return
  throw new ScimError(403, `A directory can have at most ${scimLimits.groups} groups. Push fewer groups to Inlay.`)
}

const refuseTaken =
  (name: string) =>
  (error: unknown): never => {
    if (!isUniqueViolation(error, 'directory_groups_name')) throw error
    throw new ScimError(409, `Another group of this directory has the displayName ${quote(name)}.`, 'uniqueness')
  }

/** A group while its operations are applied. */
interface Draft {
  id: string
  name: string
  externalId: string | null
  /** Users who have come or gone. */
  touched: Set<string>
}

/** A PUT without members leaves them alone: clients that mean “none” send an empty list. */
const replace: Resources['replace'] = async (service, directory, request) => {
  const { body } = request
  const name = readName(body.displayName)
  const externalId = readExternalId(body.externalId)
  const members = readMembers(body.members)
  return change(service, directory, request, async (sql, draft) => {
    Object.assign(draft, { name, externalId })
    if (members) await replaceMembers(sql, directory, draft, members)
  })
}

const patch: Resources['patch'] = async (service, directory, request) => {
  const operations = readOperations(request.body)
  // The whole group can be large, and clients don't read it after a patch.
  const query = new URLSearchParams('attributes=meta')
  const { headers = {} } = await change(service, directory, { ...request, query }, async (sql, draft) => {
    for (const operation of operations) await applyOperation(sql, directory, draft, operation)
  })
  return { status: 204, headers }
}

async function change(
  service: ScimService,
  directory: Directory,
  { id, query, ifMatch }: ResourceRequest,
  apply: (sql: Sql, draft: Draft) => Promise<void>,
): Promise<Reply> {
  const { database, config } = service
  let name = ''
  const { answer, people } = await database
    .asOrg(directory.organizationId, async (sql) => {
      const trail = await beginWrite(sql, service, directory)
      const before = await lockGroup(sql, directory, id, ifMatch)
      const { display_name, external_id, role } = before
      const draft: Draft = { id, name: display_name, externalId: external_id, touched: new Set() }
      await apply(sql, draft)
      name = draft.name
      const isChanged = draft.touched.size > 0 || draft.name !== display_name || draft.externalId !== external_id
      let people: ChangedPeople = nobodyChanged
      if (isChanged) {
        await sql`
          update directory_groups
          set display_name = ${draft.name}, external_id = ${draft.externalId}, version = version + 1, updated_at = now()
          where id = ${id}`
        if (role) people = await settleMembers(sql, config.plans, trail, [...draft.touched])
      }
      const answer = await reply(sql, directory, id, query, 200)
      if (isChanged) {
        await recordAudit(sql, trail, 'directory_group.updated', id, { name, changed_members: draft.touched.size })
      }
      return { answer, people }
    })
    .catch((error) => refuseTaken(name)(error))
  await announceChangedPeople(service, directory.organizationId, people)
  return answer
}

/** Locked, so that concurrent patches of a group are applied one after the other. */
async function lockGroup(sql: Sql, directory: Directory, id: string, ifMatch: string | undefined): Promise<GroupRow> {
  const [group] = await sql<GroupRow>`
    select id, external_id, display_name, role, version, created_at, updated_at from directory_groups
    where directory_id = ${directory.id} and id = ${id} for update`
  if (!group) throw notThere(groupType, id)
  requireVersion(ifMatch, group.version)
  return group
}

/** Okta repeats the ID in values without a path. */
const repeated = new Set(['schemas', 'id', 'meta'])

async function applyOperation(sql: Sql, directory: Directory, draft: Draft, operation: PatchOperation): Promise<void> {
  const { op, path, value } = operation
  if (path !== undefined) return applyAt(sql, directory, draft, { ...operation, path })
  if (op === 'remove') throw badRequest('noTarget', 'A remove operation needs a path.')
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badRequest('invalidValue', `Without a path, the value must be an object, not ${quote(value)}.`)
  }
  for (const [key, each] of Object.entries(value)) {
    if (!repeated.has(key)) await applyAt(sql, directory, draft, { op, path: key, value: each })
  }
}

async function applyAt(
  sql: Sql,
  directory: Directory,
  draft: Draft,
  { op, path: text, value }: PatchOperation & { path: string },
): Promise<void> {
  const path = parsePath(groupType, text)
  const name = 'schema' in path ? '' : path.attribute.name
  if ('schema' in path || path.attribute.isReadOnly) throw badRequest('mutability', `${quote(text)} can’t be changed.`)
  if (path.sub) throw badRequest('invalidPath', `${quote(text)} can’t be changed. Add or remove whole members instead.`)
  if (name === 'displayName') draft.name = readName(op === 'remove' ? null : value)
  else if (name === 'externalId') draft.externalId = readExternalId(op === 'remove' ? null : value)
  else if (op === 'remove') await removeMembers(sql, draft, path.filter, value)
  else if (path.filter)
    throw badRequest('invalidPath', `Members are added with the path “members”, not ${quote(text)}.`)
  else if (op === 'add') touch(draft, await addMembers(sql, directory, draft.id, readMembers(value) ?? []))
  else await replaceMembers(sql, directory, draft, readMembers(value) ?? [])
}

const touch = (draft: Draft, userIds: readonly string[]): void => {
  for (const id of userIds) draft.touched.add(id)
}

/** Returns the users who weren't in the group before. */
async function addMembers(
  sql: Sql,
  directory: Directory,
  groupId: string,
  userIds: readonly string[],
): Promise<string[]> {
  if (userIds.length === 0) return []
  const known = await sql<{ id: string }>`
    select id from directory_users where directory_id = ${directory.id} and id = any(${userIds.filter(isId)}::uuid[])`
  const ids = new Set(known.map(({ id }) => id))
  const unknown = userIds.find((id) => !ids.has(id))
  if (unknown !== undefined) {
    throw badRequest(
      'invalidValue',
      `There is no user with the ID ${quote(unknown)} in this directory. Create the user first.`,
    )
  }
  const added = await sql<{ user_id: string }>`
    insert into directory_group_members (organization_id, directory_id, group_id, user_id)
    select current_organization(), ${directory.id}, ${groupId}, id from unnest(${[...ids]}::uuid[]) as n (id)
    on conflict do nothing returning user_id`
  const [counted] = await sql<{ total: number }>`
    select count(*) as total from directory_group_members where group_id = ${groupId}`
  if ((counted?.total ?? 0) > scimLimits.membersPerGroup) {
    throw new ScimError(403, `A group can have at most ${scimLimits.membersPerGroup} members.`)
  }
  return added.map(({ user_id }) => user_id)
}

async function replaceMembers(sql: Sql, directory: Directory, draft: Draft, userIds: readonly string[]): Promise<void> {
  const gone = await sql<{ user_id: string }>`
    delete from directory_group_members
    where group_id = ${draft.id} and user_id <> all(${userIds.filter(isId)}::uuid[]) returning user_id`
  touch(
    draft,
    gone.map(({ user_id }) => user_id),
  )
  touch(draft, await addMembers(sql, directory, draft.id, userIds))
}

/** Removes the members that a path's filter or the value names, or all. Users who aren't members are ignored. */
async function removeMembers(sql: Sql, draft: Draft, filter: Filter | undefined, value: unknown): Promise<void> {
  const named = value === undefined || value === null ? undefined : readMembers(value)
  const meant = filter ? await findMembers(sql, draft, filter) : named
  const gone = meant
    ? await sql<{ user_id: string }>`
        delete from directory_group_members
        where group_id = ${draft.id} and user_id = any(${meant.filter(isId)}::uuid[]) returning user_id`
    : await sql<{ user_id: string }>`
        delete from directory_group_members where group_id = ${draft.id} returning user_id`
  touch(
    draft,
    gone.map(({ user_id }) => user_id),
  )
}

async function findMembers(sql: Sql, { id }: Draft, filter: Filter): Promise<string[]> {
  const only = requiredValue(filter, 'value')
  const rows = await sql<MemberRow>`
    select group_id, user_id, case when u.name = '' then u.user_name else u.name end as display
    from directory_group_members gm join directory_users u on u.id = gm.user_id where group_id = ${id}
      and (${only ?? null}::text is null or user_id = any(${only !== undefined && isId(only) ? [only] : []}::uuid[]))`
  return rows
    .filter(({ user_id, display }) => matches(filter, { value: user_id, display, type: 'User' }))
    .map(({ user_id }) => user_id)
}

function readName(value: unknown): string {
  if (typeof value !== 'string' || value.trim() === '')
    throw badRequest('invalidValue', 'A group needs a “displayName”.')
  if (value.length > longestName)
    throw badRequest('invalidValue', `“displayName” is longer than ${longestName} characters.`)
  return value
}

function readExternalId(value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' && value.length <= longestName) return value
  throw badRequest('invalidValue', `“externalId” must be text of at most ${longestName} characters.`)
}

/** Reads `[{"value": "<ID>"}]`, a single one, or IDs alone. Undefined if there is no list. */
function readMembers(value: unknown): string[] | undefined {
  if (value === undefined || value === null) return undefined
  const list = Array.isArray(value) ? value : [value]
  if (list.length > scimLimits.membersPerGroup) {
    throw new ScimError(403, `A group can have at most ${scimLimits.membersPerGroup} members.`)
  }
  return [...new Set(list.map(readMember))]
}

function readMember(entry: unknown): string {
  const { value, type } = (typeof entry === 'object' && entry !== null ? entry : { value: entry }) as Fields
  if (typeof value !== 'string')
    throw badRequest('invalidValue', `A member needs a “value” with the user’s ID, not ${quote(entry)}.`)
  if (typeof type === 'string' && type.toLowerCase() === 'group') {
    throw badRequest('invalidValue', 'Groups in groups aren’t supported. Assign the users of the inner group directly.')
  }
  return value.toLowerCase()
}

async function remove(service: ScimService, directory: Directory, { id, ifMatch }: ResourceRequest): Promise<Reply> {
  const { database, config } = service
  const people = await database.asOrg(directory.organizationId, async (sql) => {
    const trail = await beginWrite(sql, service, directory)
    const { display_name, role } = await lockGroup(sql, directory, id, ifMatch)
    const members = await sql<{ user_id: string }>`
      delete from directory_group_members where group_id = ${id} returning user_id`
    await sql`delete from directory_groups where id = ${id}`
    const userIds = role ? members.map(({ user_id }) => user_id) : []
    const people = await settleMembers(sql, config.plans, trail, userIds)
    await recordAudit(sql, trail, 'directory_group.deleted', id, { name: display_name })
    return people
  })
  await announceChangedPeople(service, directory.organizationId, people)
  return { status: 204 }
}

export const scimGroups: Resources = { list, read, create, replace, patch, remove }
