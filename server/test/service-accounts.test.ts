import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { api, tools } from '../src/api.ts'
import type { Operation } from '../src/kernel/foundation/operation.ts'
import { startTestService, type TestService } from './harness.ts'
import { callTool, makeMessage, post } from './mcp-messages.ts'
import { samples, toolSamples } from './samples.ts'

/** Calls every operation and every tool with a service account of each role, next to a user with that role. */

const roles = ['admin', 'member'] as const
type Role = (typeof roles)[number]

const operations = api.map(({ operation }) => operation).filter(({ access }) => access !== 'public')

let app: TestService
const keys = {} as Record<Role, string>
const tokens = {} as Record<Role, string>
beforeAll(async () => {
  app = await startTestService()
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update organizations set plan_id = 'enterprise'`,
  )
  for (const role of roles) tokens[role] = await app.tokenFor(`${role}@demo.test`, 'demo')
  for (const role of roles) {
    const created = await app.request('POST', '/service-accounts', { token: tokens.admin, body: { name: role, role } })
    keys[role] = created.body.key
  }
})
afterAll(() => app.close())

async function call(operation: Operation, token: string, params: Record<string, string>) {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? randomUUID())
  const { query, body: makeBody } = samples[operation.id] ?? {}
  const body = makeBody?.()
  return app.request(operation.method.toUpperCase(), query ? `${path}?${new URLSearchParams(query)}` : path, {
    token,
    ...(body !== undefined && { body }),
  })
}

/** Why a service account with the role is refused, or undefined if it isn't. */
function refusalOf(role: Role, { access, usersOnly }: Pick<Operation, 'access' | 'usersOnly'>): string | undefined {
  if (access === 'admin' && role !== 'admin') return 'This needs the admin role'
  return usersOnly && `Service accounts can’t do this: ${usersOnly}. Use the access token of a signed-in user.`
}

const denied = (reason: string) => ({
  defined: true,
  code: 'FORBIDDEN',
  status: 403,
  message: 'Access denied',
  data: { code: 'ACCESS_DENIED', reason },
})

async function auditLength(): Promise<number> {
  const [row] = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql<{ length: number }>`select count(*) as length from audit_events`,
  )
  return row?.length ?? 0
}

/** Operations whose responses differ from one request to the next, or from one caller to the next. */
const varying = new Set(['listOrganizations', 'getCheckoutUrl', 'getPortalUrl', 'listAuditEvents'])

describe.each(operations.map((operation) => [operation.id, operation] as const))('%s', (id, operation) => {
  test.each(roles)('treats a service account with the role %s like a user, or says why not', async (role) => {
    const params = (await samples[id]?.prepare?.(app, 'demo')) ?? {}
    const refusal = refusalOf(role, operation)
    const before = await auditLength()
    const answer = await call(operation, keys[role], params)
    if (refusal) {
      expect(answer.body).toEqual(denied(refusal))
      expect(await auditLength(), 'a refused call changes nothing').toBe(before)
      return
    }
    expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 200 })
    if (operation.method !== 'get' || varying.has(id)) return
    const user = await call(operation, tokens[role], params)
    expect(answer.body).toEqual(user.body)
  })
})

describe.each(tools.map((tool) => [tool.name, tool] as const))('the tool %s', (name, tool) => {
  test.each(roles)('treats a service account with the role %s like a user, or says why not', async (role) => {
    const { valid = [], fails = false } = toolSamples[name] ?? {}
    const refusal = refusalOf(role, tool)
    for (const args of valid) {
      const before = await auditLength()
      const { isError, value } = await callTool(app, keys[role], name, args)
      if (refusal) {
        expect(value).toEqual(denied(refusal))
        expect(await auditLength(), 'a refused call changes nothing').toBe(before)
      } else expect({ isError, value }).toMatchObject({ isError: fails })
    }
  })
})

test.each(roles)('a service account with the role %s is only offered tools that it can call', async (role) => {
  const list = async (token: string): Promise<string[]> =>
    (await post(app, token, makeMessage('2026-07-28', 'tools/list'))).body.result.tools.map(
      ({ name }: { name: string }) => name,
    )
  const callable = tools.filter((tool) => refusalOf(role, tool) === undefined).map(({ name }) => name)
  expect(await list(keys[role])).toEqual(callable)
  expect(await list(tokens[role])).toEqual(expect.arrayContaining(['hub_call_tool', 'get_profile']))
})

/**
 * What service accounts can change. An operation that gives access to anyone, or names whom the organization trusts,
 * belongs to users (`usersDecideAccess`, `usersDecideTrust`): its effect would outlive the account.
 */
const open = {
  'renames or ends something': [
    'updateOrganization',
    'revokePublishableKey',
    'deleteSite',
    'eraseEndUser',
    'removeConfirmedBrowser',
    'deleteConnector',
    'removeGithubApp',
    'removeGithubInstallation',
    'disconnectGithubRepository',
  ],
  'limits what others may do': ['updateBudgets', 'updateEndUserBudget', 'updateToolCallSettings'],
  'writes text that gives no rights': [
    'createSkill',
    'patchSkill',
    'archiveSkill',
    'restoreSkill',
    'updateThread',
    'updateFeedback',
  ],
  'repeats or reads what users have set up': [
    'syncGithubRepository',
    'syncSubscription',
    'revealPublishableKey',
    'checkFeature',
    'listSkills',
  ],
  'tests what it is given, and stores nothing': ['testIdentityProvider', 'testGovernanceProvider', 'testAgentModel'],
}

test('a service account can’t decide who has access or whom the organization trusts', () => {
  const changing = operations.filter(({ method, usersOnly }) => method !== 'get' && !usersOnly)
  const callable = changing.map(({ id }) => id)
  expect(callable.toSorted(), 'a new operation is for users only, or has its place in a row above').toEqual(
    Object.values(open).flat().toSorted(),
  )
})

/** Everything that gives access to an organization, or names whom it trusts. */
const accessTables = [
  'members',
  'invitations',
  'service_accounts',
  'directories',
  'directory_tokens',
  'directory_groups',
  'sign_in_providers',
  'sign_in_domains',
  'identity_providers',
  'publishable_keys',
  'connectors',
  'governance_providers',
  'agent_settings',
  'github_apps',
  'github_repositories',
]
/** When something was used or tested says nothing about access. */
const passing = ['last_used_at', 'updated_at', 'last_test_at', 'last_test_status', 'last_test_message']

async function accessRows(): Promise<Set<string>> {
  return app.service.database.asOrg(await app.organization('demo'), async (sql) => {
    const rows = new Set<string>()
    for (const name of accessTables) {
      const text = [`select (to_jsonb(t) - '{${passing.join()}}'::text[])::text as row from ${name} t`]
      for (const { row } of await sql<{ row: string }>(Object.assign(text, { raw: text }))) rows.add(`${name} ${row}`)
    }
    return rows
  })
}

test('a deleted admin service account leaves nothing behind that gives access', async () => {
  const thief = (
    await app.request('POST', '/service-accounts', { token: tokens.admin, body: { name: 'CI', role: 'admin' } })
  ).body
  const prepared = new Map<string, Record<string, string>>()
  for (const { id } of operations) prepared.set(id, (await samples[id]?.prepare?.(app, 'demo')) ?? {})
  const before = await accessRows()
  for (const operation of operations) await call(operation, thief.key, prepared.get(operation.id) ?? {})
  for (const { name } of tools)
    for (const args of toolSamples[name]?.valid ?? []) await callTool(app, thief.key, name, args)
  expect((await app.request('DELETE', `/service-accounts/${thief.id}`, { token: tokens.admin })).status).toBe(200)
  const added = [...(await accessRows())].filter((row) => !before.has(row))
  expect(added.filter((row) => !/"revoked_at": "\d/.test(row))).toEqual([])
})

test('a service account that was deleted during its request changes nothing', async () => {
  const account = (
    await app.request('POST', '/service-accounts', { token: tokens.admin, body: { name: 'late', role: 'admin' } })
  ).body
  expect((await app.request('GET', '/publishable-keys', { token: account.key })).status).toBe(200)
  // Without a message, as if the request had been let in just before.
  const demo = await app.organization('demo')
  await app.service.database.asOrg(demo, (sql) => sql`delete from service_accounts where id = ${account.id}`)
  const late = await app.request('PATCH', '/organizations/current', { token: account.key, body: { name: 'Too late' } })
  expect(late.body).toEqual(denied('Your access to this organization has just changed'))
})

test('docs/service-accounts.md lists exactly what service accounts can’t do', () => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/service-accounts.md'), 'utf8')
  const [, table = ''] = text.split('| what service accounts can’t do | why |')
  const rows = (table.split('\n\n')[0] ?? '').split('\n').filter((row) => row.startsWith('| `'))
  const documented = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, what]) => what),
  )
  const refused = [
    ...operations.filter(({ usersOnly }) => usersOnly).map(({ method, path }) => `${method.toUpperCase()} ${path}`),
    ...tools.filter(({ usersOnly }) => usersOnly).map(({ name }) => name),
  ]
  expect(documented.toSorted()).toEqual(refused.toSorted())
})
