import { cleanName } from '../../kernel/lib/names.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import { demandedValues, matches, type PatchPath, parsePath, readBoolean } from './filters.ts'
import { type Attribute, enterpriseSchema, findAttribute, userType } from './schemas.ts'
import { badRequest, quote } from './scim-error.ts'

/** A user's attributes as stored: names as in the schema, only known attributes, `active` always set. */
export type UserAttributes = Record<string, unknown>

type Fields = Record<string, unknown>

export const userLimits = { bytes: 8 * 1024, userName: 256, text: 1_000, values: 50 }

/** The columns of a user that Inlay itself uses. */
export interface UserColumns {
  user_name: string
  external_id: string | null
  email: string
  name: string
  active: boolean
}

/** Reads the body of a POST or PUT. Unknown and read-only attributes are ignored, as the RFC asks. */
export function readUser(body: Fields, before?: UserAttributes): UserAttributes {
  const read: UserAttributes = {}
  for (const [key, value] of Object.entries(body)) {
    if (key.toLowerCase() === enterpriseSchema.toLowerCase()) {
      const extension = readFields(userType.extension?.attributes ?? [], requireObject(key, value))
      if (Object.keys(extension).length > 0) read[enterpriseSchema] = extension
      continue
    }
    const attribute = findAttribute(userType.attributes, key)
    if (attribute) set(read, attribute, value)
  }
  // A PUT without `active` must not give a deactivated user their access back.
  read.active ??= before?.active ?? true
  return requireComplete(read)
}

function readFields(attributes: readonly Attribute[], fields: Fields): Fields {
  const read: Fields = {}
  for (const [key, value] of Object.entries(fields)) {
    const attribute = findAttribute(attributes, key)
    if (attribute) set(read, attribute, value)
  }
  return read
}

/** Null means that there is no value. */
function set(target: Fields, attribute: Attribute, value: unknown): void {
  if (attribute.isReadOnly || attribute.isIgnored) return
  const read = value === null ? undefined : readValue(attribute, value)
  if (read === undefined || (Array.isArray(read) && read.length === 0)) delete target[attribute.name]
  else target[attribute.name] = read
}

function readValue(attribute: Attribute, value: unknown): unknown {
  if (!attribute.isMultiple) return readSingle(attribute, value)
  const list = Array.isArray(value) ? value : [value]
  if (list.length > userLimits.values) {
    throw badRequest('invalidValue', `${quote(attribute.name)} has more than ${userLimits.values} values.`)
  }
  return keepOnePrimary(list.filter((each) => each !== null).map((each) => readSingle(attribute, each) as Fields))
}

function readSingle(attribute: Attribute, value: unknown): unknown {
  const { name, type } = attribute
  if (type === 'complex') {
    // Some clients send `"manager": "<id>"` and `"emails": ["a@b.example"]`.
    const isShort = typeof value === 'string' && findAttribute(attribute.subAttributes, 'value')
    return readFields(attribute.subAttributes ?? [], isShort ? { value } : requireObject(name, value))
  }
  if (type === 'boolean') {
    const flag = readBoolean(value)
    if (flag === undefined)
      throw badRequest('invalidValue', `${quote(name)} must be true or false, not ${quote(value)}.`)
    return flag
  }
  if (typeof value !== 'string' && typeof value !== 'number') {
    throw badRequest('invalidValue', `${quote(name)} must be text, not ${quote(value)}.`)
  }
  const text = String(value)
  if (text.length > userLimits.text) {
    throw badRequest('invalidValue', `${quote(name)} is longer than ${userLimits.text} characters.`)
  }
  return text
}

function requireObject(name: string, value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw badRequest('invalidValue', `${quote(name)} must be an object, not ${quote(value)}.`)
}

/** The last one wins: a patch that adds a primary value means that one. */
function keepOnePrimary(list: Fields[]): Fields[] {
  const last = list.findLastIndex(({ primary }) => primary === true)
  return list.map((value, index) => (value.primary === true && index !== last ? { ...value, primary: false } : value))
}

/** A single operation of a patch, in any capitalization. */
export interface PatchOperation {
  op: 'add' | 'replace' | 'remove'
  path: string | undefined
  value: unknown
}

/** Applies operations one by one. The given attributes stay as they are. */
export function patchUser(attributes: UserAttributes, operations: readonly PatchOperation[]): UserAttributes {
  const user = structuredClone(attributes)
  for (const operation of operations) applyOperation(user, operation)
  return requireComplete(user)
}

/** Clients repeat these in values without a path; they can't be changed and say nothing new. */
const repeated = new Set(['schemas', 'id', 'meta'])

function applyOperation(user: UserAttributes, { op, path, value }: PatchOperation): void {
  if (path === undefined && op === 'remove') throw badRequest('noTarget', 'A remove operation needs a path.')
  const changes = path === undefined ? Object.entries(requireObject('value', value)) : [[path, value] as const]
  for (const [key, each] of changes) if (path !== undefined || !repeated.has(key)) applyAt(user, op, key, each)
}

function applyAt(user: UserAttributes, op: PatchOperation['op'], text: string, value: unknown): void {
  const path = parsePath(userType, text)
  if ('schema' in path) {
    applyToExtension(user, op, path.schema, value)
    return
  }
  const { attribute, extension } = path
  if (attribute.isReadOnly) throw badRequest('mutability', `${quote(text)} can’t be changed.`)
  if (attribute.isIgnored) return
  if (extension !== undefined) user[extension] ??= {}
  const holder = extension === undefined ? user : (user[extension] as Fields)
  if (attribute.isMultiple) applyToList(holder, op, path, value)
  else if (path.sub) applyToPart(holder, op, attribute, path.sub, value)
  else applyToAttribute(holder, op, attribute, value)
  if (extension !== undefined && Object.keys(holder).length === 0) delete user[extension]
}

function applyToExtension(user: UserAttributes, op: PatchOperation['op'], schema: string, value: unknown): void {
  if (op === 'remove') {
    delete user[schema]
    return
  }
  for (const [key, each] of Object.entries(requireObject(schema, value))) applyAt(user, op, `${schema}:${key}`, each)
}

function applyToAttribute(holder: Fields, op: PatchOperation['op'], attribute: Attribute, value: unknown): void {
  if (op === 'remove') delete holder[attribute.name]
  else if (attribute.type === 'complex' && value !== null) {
    const read = readSingle(attribute, value) as Fields
    holder[attribute.name] = { ...(holder[attribute.name] as Fields | undefined), ...read }
  } else set(holder, attribute, value)
}

function applyToPart(
  holder: Fields,
  op: PatchOperation['op'],
  attribute: Attribute,
  sub: Attribute,
  value: unknown,
): void {
  const parts = { ...(holder[attribute.name] as Fields | undefined) }
  set(parts, sub, op === 'remove' ? null : value)
  if (Object.keys(parts).length > 0) holder[attribute.name] = parts
  else delete holder[attribute.name]
}

function applyToList(holder: Fields, op: PatchOperation['op'], path: PatchPath, value: unknown): void {
  const { attribute } = path
  const before = (holder[attribute.name] as Fields[] | undefined) ?? []
  const list = op === 'remove' ? withoutEntries(before, path, value) : withEntries(before, op, path, value)
  set(
    holder,
    attribute,
    list.filter((entry) => Object.keys(entry).length > 0),
  )
}

const isMeant = ({ filter }: PatchPath, entry: Fields): boolean => !filter || matches(filter, entry)

function withoutEntries(before: Fields[], path: PatchPath, value: unknown): Fields[] {
  const { attribute, sub } = path
  if (sub) return before.map((entry) => (isMeant(path, entry) ? without(entry, sub) : entry))
  const named = value === undefined || value === null ? undefined : (readValue(attribute, value) as Fields[])
  return before.filter((entry) => !isMeant(path, entry) || (named && !named.some((each) => isSame(each, entry))))
}

function withEntries(before: Fields[], op: 'add' | 'replace', path: PatchPath, value: unknown): Fields[] {
  const { attribute, filter, sub } = path
  if (!filter && !sub) {
    const given = value === null ? [] : (readValue(attribute, value) as Fields[])
    const kept = op === 'add' ? before.filter((entry) => !given.some((each) => isSame(each, entry))) : []
    return [...kept, ...given]
  }
  const changes = sub ? readFields([sub], { [sub.name]: value }) : (readSingle(attribute, value) as Fields)
  if (before.some((entry) => isMeant(path, entry))) {
    const changed = before.map((entry) => (isMeant(path, entry) ? { ...entry, ...changes } : entry))
    return preferPrimary(changed, changes)
  }
  // Entra adds an entry by naming it: `phoneNumbers[type eq "mobile"].value`.
  const demanded = filter ? demandedValues(filter) : {}
  if (!demanded) throw badRequest('noTarget', `No value of ${quote(attribute.name)} matches the path.`)
  return [...before, { ...demanded, ...changes }]
}

/** Keeps the entry that has just become the primary one. */
function preferPrimary(list: Fields[], changes: Fields): Fields[] {
  if (changes.primary !== true) return list
  const first = list.findIndex(
    (entry) => entry.primary === true && Object.entries(changes).every(([k, v]) => entry[k] === v),
  )
  return list.map((entry, index) => (index !== first && entry.primary === true ? { ...entry, primary: false } : entry))
}

const without = (entry: Fields, sub: Attribute): Fields =>
  Object.fromEntries(Object.entries(entry).filter(([name]) => name !== sub.name))

const isSame = (one: Fields, other: Fields): boolean =>
  one.value === other.value && (one.type === undefined || one.type === other.type)

function requireComplete(user: UserAttributes): UserAttributes {
  const { userName, active } = user
  if (typeof userName !== 'string' || userName.trim() === '')
    throw badRequest('invalidValue', 'A user needs a “userName”.')
  if (userName.length > userLimits.userName) {
    throw badRequest('invalidValue', `“userName” is longer than ${userLimits.userName} characters.`)
  }
  if (active === undefined) throw badRequest('invalidValue', '“active” can’t be removed. Set it to false instead.')
  const bytes = Buffer.byteLength(JSON.stringify(user))
  if (bytes > userLimits.bytes) {
    throw badRequest(
      'invalidValue',
      `The user has ${bytes} bytes of attributes. At most ${userLimits.bytes} are stored.`,
    )
  }
  return user
}

/** The address that identifies the user, in lower case, and a name to show. */
export function columnsOf(user: UserAttributes): UserColumns {
  const { userName, externalId, displayName, active } = user as { [name: string]: string | undefined } & {
    active: boolean
  }
  const name = (user.name ?? {}) as Record<string, string | undefined>
  const parts = [name.givenName, name.familyName].filter(Boolean).join(' ')
  return {
    user_name: userName ?? '',
    external_id: externalId ?? null,
    email: emailOf(user),
    name: cleanName(displayName || name.formatted || parts, 200),
    active,
  }
}

function emailOf({ emails, userName }: UserAttributes): string {
  const all = ((emails ?? []) as { value?: string; type?: string; primary?: boolean }[]).filter(({ value }) =>
    isEmail(value),
  )
  const best = all.find(({ primary }) => primary) ?? all.find(({ type }) => type?.toLowerCase() === 'work') ?? all[0]
  const email = best?.value ?? (isEmail(userName) ? userName : '')
  return canonicalEmail(email as string)
}

const isEmail = (text: unknown): text is string =>
  typeof text === 'string' && text.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(text)
