import type { Service } from '../../kernel/foundation/service.ts'
import type { Trail } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { missingFeature } from '../../plans/plans/plans.ts'
import type { AccessCleanup } from '../access-cleanup/access-cleanup.ts'
import { lockMembers } from '../organizations/members.ts'
import { type Filter, parseFilter } from './filters.ts'
import { listSchema, type ResourceType } from './schemas.ts'
import { badRequest, quote, ScimError } from './scim-error.ts'

/** What users and groups have in common: requests, lists, versions and limits. */

export type Fields = Record<string, unknown>

/** The directory that a request's token belongs to. */
export interface Directory {
  id: string
  organizationId: string
  /** The URL that its resources begin with. */
  url: string
}

export interface ScimService extends Service {
  accessCleanup: AccessCleanup
}

export interface ResourceRequest {
  id: string
  body: Fields
  query: URLSearchParams
  /** The `If-Match` header. */
  ifMatch: string | undefined
}

export interface Reply {
  status: number
  body?: Fields
  headers?: Record<string, string>
}

/** The operations on one type of resource. */
export interface Resources {
  list(service: ScimService, directory: Directory, query: URLSearchParams): Promise<Reply>
  read(service: ScimService, directory: Directory, request: ResourceRequest): Promise<Reply>
  create(service: ScimService, directory: Directory, request: ResourceRequest): Promise<Reply>
  replace(service: ScimService, directory: Directory, request: ResourceRequest): Promise<Reply>
  patch(service: ScimService, directory: Directory, request: ResourceRequest): Promise<Reply>
  remove(service: ScimService, directory: Directory, request: ResourceRequest): Promise<Reply>
}

export const scimLimits = {
  users: 20_000,
  groups: 5_000,
  membersPerGroup: 20_000,
  operations: 1_000,
  page: 200,
  /** Members of groups, or groups of users, on one page. The page has fewer resources instead. */
  entriesPerPage: 20_000,
}

/** Locks the organization first: all changes of a directory are made one after the other. */
export async function beginWrite(sql: Sql, service: Service, directory: Directory): Promise<Trail> {
  const [, trail] = await Promise.all([lockMembers(sql), requireOpen(sql, service, directory, { writes: true })])
  return trail
}

/** For writes that can end access: without a plan with directories, `requirePlan` throws, and nothing else is refused. */
export async function beginEnding(
  sql: Sql,
  service: Service,
  directory: Directory,
): Promise<{ trail: Trail; hasPlan: boolean; requirePlan: () => void }> {
  const [, trail, reason] = await Promise.all([
    lockMembers(sql),
    requireOpen(sql, service, directory, { writes: false }),
    missingFeature(service.config.plans, sql, 'scim'),
  ])
  const requirePlan = () => {
    if (reason !== null) throw needsPlan(reason)
  }
  return { trail, hasPlan: reason === null, requirePlan }
}

/** Reads and writes are refused while the directory is inactive. Writes also need a plan with directories. */
export async function requireOpen(
  sql: Sql,
  { config }: Service,
  { id, organizationId }: Directory,
  { writes }: { writes: boolean },
): Promise<Trail> {
  // Sent together, in one round trip.
  const [[directory], reason] = await Promise.all([
    sql<{ name: string; status: string }>`select name, status from directories where id = ${id}`,
    writes ? missingFeature(config.plans, sql, 'scim') : null,
  ])
  if (!directory) throw new ScimError(401, 'This directory was disconnected. Connect a new one in Inlay.')
  if (directory.status !== 'active') {
    throw new ScimError(403, 'This directory is inactive. An administrator can activate it in Inlay’s dashboard.')
  }
  if (reason !== null) throw needsPlan(reason)
  return { organizationId, actor: `directory ${directory.name}` }
}

const needsPlan = (reason: string) =>
  new ScimError(
    403,
    `${reason}, so users can only be deactivated or deleted. Choose a plan with directories, or disconnect this one.`,
  )

export const notThere = (type: ResourceType, id: string) =>
  new ScimError(404, `There is no ${type.name} with the ID ${quote(id)} in this directory.`)

/** `W/"3"`; every change increments the number. */
export const etagOf = (version: number): string => `W/"${version}"`

export function requireVersion(ifMatch: string | undefined, version: number): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return
  if (ifMatch.split(',').some((tag) => bareTag(tag) === String(version))) return
  throw new ScimError(412, 'The resource has changed since you read it. Read it again, then repeat the change.')
}

/** Clients also send the tag without `W/`. */
export const bareTag = (tag: string): string => tag.trim().replace(/^(?:W\/)?"(.*)"$/i, '$1')

interface Page {
  filter: Filter | undefined
  startIndex: number
  count: number
}

export function readPage(type: ResourceType, query: URLSearchParams): Page {
  const filter = query.get('filter')
  return {
    filter: filter === null ? undefined : parseFilter(type, filter),
    startIndex: Math.max(1, readInteger(query, 'startIndex') ?? 1),
    count: Math.min(scimLimits.page, Math.max(0, readInteger(query, 'count') ?? scimLimits.page)),
  }
}

function readInteger(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isNaN(value))
    throw badRequest('invalidValue', `${quote(name)} must be a whole number, not ${quote(text)}.`)
  return value
}

export const listReply = (resources: Fields[], total: number, startIndex: number): Reply => ({
  status: 200,
  body: {
    schemas: [listSchema],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: resources,
  },
})

/** Drops the last of the page's resources if they have too many entries together; at least one is left. */
export function fitPage<Row extends { entries: number }>(rows: readonly Row[]): Row[] {
  let entries = 0
  return rows.filter((row, index) => {
    entries += row.entries
    return index === 0 || entries <= scimLimits.entriesPerPage
  })
}

/** Applies `attributes` and `excludedAttributes`. Attributes that identify the resource are always returned. */
export function project(resource: Fields, query: URLSearchParams): Fields {
  const wanted = namesIn(query.get('attributes'))
  const unwanted = namesIn(query.get('excludedAttributes'))
  const isKept = (name: string) => {
    if (name === 'id' || name === 'schemas') return true
    if (wanted) return wanted.some((each) => includesName(each, name))
    return !unwanted?.some((each) => each === name.toLowerCase())
  }
  return Object.fromEntries(Object.entries(resource).filter(([name]) => isKept(name)))
}

/** Whether the response will have the attribute, which may be expensive to read. */
export const isWanted = (name: string, query: URLSearchParams): boolean => name in project({ [name]: 0 }, query)

/** Undefined without the parameter. Schema prefixes of core attributes are dropped. */
function namesIn(text: string | null): string[] | undefined {
  if (text === null || text.trim() === '') return undefined
  return text.split(',', 200).map((name) =>
    name
      .trim()
      .toLowerCase()
      .replace(/^urn:ietf:params:scim:schemas:core:2\.0:\w+:/, ''),
  )
}

/** `name.givenname` asks for `name`, and `urn:…:user:department` for its extension. */
const includesName = (asked: string, name: string): boolean => {
  const own = name.toLowerCase()
  return asked === own || asked.startsWith(`${own}.`) || asked.startsWith(`${own}:`)
}

/** Reads the rows of a directory in batches, and returns the IDs of those that match, in order. */
export async function scan<Row extends { id: string }>(
  readBatch: (after: string, limit: number) => Promise<Row[]>,
  isMatch: (row: Row) => boolean,
): Promise<string[]> {
  const found: string[] = []
  const limit = 1_000
  let after = '00000000-0000-0000-0000-000000000000'
  for (;;) {
    const rows = await readBatch(after, limit)
    for (const row of rows) if (isMatch(row)) found.push(row.id)
    const last = rows.at(-1)
    if (!last || rows.length < limit) return found
    after = last.id
  }
}

interface RawOperation {
  op?: unknown
  path?: unknown
  value?: unknown
}

/** Reads the operations of a PATCH body. Entra writes `Add`, and some clients `operations`. */
export function readOperations(
  body: Fields,
): { op: 'add' | 'replace' | 'remove'; path: string | undefined; value: unknown }[] {
  const [, list] = Object.entries(body).find(([name]) => name.toLowerCase() === 'operations') ?? []
  if (!Array.isArray(list) || list.length === 0)
    throw badRequest('invalidSyntax', 'A patch needs a list of “Operations”.')
  if (list.length > scimLimits.operations) {
    throw new ScimError(413, `A patch can have at most ${scimLimits.operations} operations. Send several patches.`)
  }
  return list.map((each: unknown) => {
    if (typeof each !== 'object' || each === null)
      throw badRequest('invalidSyntax', `${quote(each)} isn’t an operation.`)
    const { op, path, value } = each as RawOperation
    const name = typeof op === 'string' ? op.toLowerCase() : ''
    if (name !== 'add' && name !== 'replace' && name !== 'remove') {
      throw badRequest('invalidSyntax', `${quote(op ?? 'nothing')} isn’t an operation. Use add, replace or remove.`)
    }
    if (path !== undefined && path !== null && typeof path !== 'string') {
      throw badRequest('invalidPath', `The path must be text, not ${quote(path)}.`)
    }
    if (name !== 'remove' && value === undefined)
      throw badRequest('invalidValue', `The operation ${quote(op)} needs a value.`)
    return { op: name, path: path || undefined, value }
  })
}
