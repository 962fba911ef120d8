import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { api } from '../src/api.ts'
import type { Operation } from '../src/kernel/foundation/operation.ts'
import { type ErrorCode, errorTable } from '../src/kernel/lib/errors.ts'
import { startTestService, type TestService } from './harness.ts'
import { fillTenantTables, samples } from './samples.ts'
import { listTenantTables, passingTables } from './tenant-tables.ts'

const { redisUrl } = inject('engines')

/** Every operation; one without a sample fails. */
const operations = api.map(({ operation }) => operation)
const named = operations.map((operation) => [operation.id, operation] as const)
const tenantOperations = named.filter(([, { access }]) => access === 'org' || access === 'admin')
const withPath = named.filter(([, { params }]) => params !== undefined)

let app: TestService
/** A statement that reads all tenant tables except those from which the server deletes rows itself. */
let snapshotText: TemplateStringsArray
let keptTables: string[]
beforeAll(async () => {
  app = await startTestService()
  const other = await app.organization('other')
  await app.service.database.asOrg(other, (sql) => sql`update organizations set plan_id = 'enterprise'`)
  await fillTenantTables(app, 'other')
  const tables = await listTenantTables(app)
  keptTables = tables.map(({ name }) => name).filter((name) => !passingTables.includes(name))
  const selects = keptTables.map(
    (name) =>
      `select '${name}' as name, jsonb_agg(to_jsonb(t) order by to_jsonb(t)::text)::text as rows from ${name} t`,
  )
  const text = [selects.join(' union all ')]
  snapshotText = Object.assign(text, { raw: text })
})
afterAll(() => app.close())

test('every operation has a sample, and every sample has an operation', () => {
  expect(Object.keys(samples).sort()).toEqual(operations.map(({ id }) => id).sort())
})

test('every tenant table has rows that a request could change', async () => {
  const { organizations = '', audit_events = '' } = await snapshot('other')
  expect(organizations).toContain('enterprise')
  expect(audit_events).toContain('publishable_key.created')
  const empty = Object.entries(await snapshot('other')).filter(([, rows]) => rows === null)
  expect(empty, 'tables without a row; add one in fillTables in the capability’s samples.ts').toEqual([])
})

async function call(operation: Operation, token: string | undefined, params: Record<string, string> = {}) {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? randomUUID())
  const { query, body: makeBody } = samples[operation.id] ?? {}
  const body = makeBody?.()
  return app.request(operation.method.toUpperCase(), query ? `${path}?${new URLSearchParams(query)}` : path, {
    ...(token && { token }),
    ...(body !== undefined && { body }),
  })
}

function envelope(code: ErrorCode, data: Record<string, unknown> = {}) {
  const { status, code: outer, message } = errorTable[code]
  return { defined: true, code: outer, status, message, data: { code, ...data } }
}

describe.each(named.filter(([, { access }]) => access !== 'public'))('%s', (_, operation) => {
  // Reading a token uses no store, so one set of engines is enough; src/accounts/access/access.test.ts has more tokens.
  test.runIf(!redisUrl).each([undefined, 'garbage'])('rejects the token %s with a 401', async (token) => {
    const { status, body, headers } = await call(operation, token)
    expect({ status, body }).toEqual({ status: 401, body: envelope('AUTH_REQUIRED') })
    expect(headers.get('www-authenticate')).toMatch(/^Bearer/)
  })

  test('works for an admin', async () => {
    const params = await samples[operation.id]?.prepare?.(app, 'demo')
    const token = await (samples[operation.id]?.token?.(app) ?? app.tokenFor('admin@demo.test', 'demo'))
    const { status, body } = await call(operation, token, params)
    expect({ status, body }).toMatchObject({ status: 200 })
    await samples[operation.id]?.undo?.(app, 'admin@demo.test', 'demo')
  })
})

describe.each(tenantOperations)('%s', (_, operation) => {
  test('rejects a token without an organization', async () => {
    const { status, body } = await call(operation, await app.tokenFor('admin@demo.test'))
    expect({ status, body }).toEqual({ status: 403, body: envelope('ORG_CONTEXT_REQUIRED') })
  })

  test('rejects a user who is not a member', async () => {
    const { body } = await call(operation, await app.tokenFor('admin@demo.test', 'other'))
    expect(body).toEqual(envelope('ACCESS_DENIED', { reason: 'You are not a member of this organization' }))
  })

  // This member is an admin of another organization.
  test(operation.access === 'admin' ? 'rejects a member' : 'works for a member', async () => {
    const params = await samples[operation.id]?.prepare?.(app, 'demo')
    const before = await auditLength('demo')
    const { status, body } = await call(operation, await app.tokenFor('member@demo.test', 'demo'), params)
    if (operation.access === 'admin') {
      expect(body).toEqual(envelope('ACCESS_DENIED', { reason: 'This needs the admin role' }))
      expect(await auditLength('demo'), 'a rejected call changes nothing').toBe(before)
    } else {
      expect(status).toBe(200)
      await samples[operation.id]?.undo?.(app, 'member@demo.test', 'demo')
    }
  })
})

/** These test something, begin what a page in the browser finishes, or find nothing to change with their sample. */
const withoutChange = [
  ...['testIdentityProvider', 'testGovernanceProvider', 'testConnector', 'testAgentModel'],
  ...['startGithubAppManifest', 'startGithubInstallation'],
  ...['deleteSignInProvider', 'deleteFrameSignIn', 'verifySignInDomain', 'clearGovernanceProvider'],
  ...['updateOrganization', 'endPreviousServiceAccountKey'],
]
/** Its own test demotes the administrators of the organization that it deletes. */
const ofItsOwn = ['deleteOrganization']
const changing = tenantOperations.filter(
  ([id, { access, method }]) => access === 'admin' && method !== 'get' && ![...withoutChange, ...ofItsOwn].includes(id),
)

describe.each(changing)('%s', (id, operation) => {
  test('fails for an admin who was demoted after the request was let in', async () => {
    const params = await samples[id]?.prepare?.(app, 'demo')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
    const demo = await app.organization('demo')
    // Without a message, so that the cached role lets the request in.
    const setRole = (role: string) =>
      app.service.database.asOrg(
        demo,
        (sql) => sql`
          update members set role = ${role} where user_id = (select id from users where email = 'admin@demo.test')`,
      )
    await setRole('member')
    const before = await auditLength('demo')
    const { status, body } = await call(operation, token, params)
    await setRole('admin')
    expect({ status, body }).toEqual({
      status: 403,
      body: envelope('ACCESS_DENIED', { reason: 'Your access to this organization has just changed' }),
    })
    expect(await auditLength('demo')).toBe(before)
  })
})

describe.each(withPath)('%s', (_, operation) => {
  test('treats another organization’s id exactly like an unknown one, and changes nothing', async () => {
    const params = (await samples[operation.id]?.prepare?.(app, 'other')) ?? {}
    const [name = '', value = ''] = Object.entries(params)[0] ?? []
    const before = await snapshot('other')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const foreign = await call(operation, token, params)
    const unknownId = randomUUID()
    const unknown = await call(operation, token, { [name]: unknownId })
    expect(foreign.body).toEqual(envelope('RESOURCE_NOT_FOUND', { resource: operation.resource, resourceId: value }))
    expect(JSON.stringify(foreign.body)).toBe(JSON.stringify(unknown.body).replaceAll(unknownId, value))
    expect(await snapshot('other')).toEqual(before)
  })

  test.each(['1', 'null', '..%2f', '%00', "' or 1=1", 'a'.repeat(300)])('returns a 404 for the id %s', async (id) => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const name = /\{(\w+)\}/.exec(operation.path)?.[1] ?? ''
    const { status, body } = await call(operation, token, { [name]: encodeURIComponent(id) })
    expect({ status, code: body.data?.code }).toEqual({ status: 404, code: 'RESOURCE_NOT_FOUND' })
  })
})

async function auditLength(slug: 'demo' | 'other'): Promise<number> {
  const [row] = await app.service.database.asOrg(
    await app.organization(slug),
    (sql) => sql<{ length: number }>`select count(*) as length from audit_events`,
  )
  return row?.length ?? 0
}

/** All rows of an organization, by table, for every tenant table in PostgreSQL's catalog. */
async function snapshot(slug: 'demo' | 'other'): Promise<Record<string, string>> {
  const rows = await app.service.database.asOrg(await app.organization(slug), (sql) =>
    sql<{ name: string; rows: string }>(snapshotText),
  )
  return Object.fromEntries(rows.map(({ name, rows }) => [name, rows]))
}
