import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { startInterceptor } from '../../../test/interceptor.ts'
import { callTool, eras, makeMessage, post } from '../../../test/mcp-messages.ts'
import { toolSamples } from '../../../test/samples.ts'
import { tools } from '../../api.ts'
import { type ErrorCode, errorTable } from '../../kernel/lib/errors.ts'

let app: TestService
const tokens = {} as Record<'admin' | 'member' | 'nowhere' | 'stranger' | 'other', string>
beforeAll(async () => {
  app = await startTestService()
  tokens.admin = await app.tokenFor('admin@demo.test', 'demo')
  tokens.member = await app.tokenFor('member@demo.test', 'demo')
  tokens.nowhere = await app.tokenFor('admin@demo.test')
  tokens.stranger = await app.tokenFor('admin@demo.test', 'other')
  tokens.other = await app.tokenFor('admin@other.test', 'other')
})
afterAll(() => app.close())

const id = expect.stringMatching(/^[0-9a-f-]{36}$/)
const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const sentence = expect.stringMatching(/\S/)

function envelope(code: ErrorCode, data: Record<string, unknown> = {}) {
  const { status, code: outer, message } = errorTable[code]
  return { defined: true, code: outer, status, message, data: { code, ...data } }
}

/** The names in the first column of the table of tools. */
function readDocumentedTools(): string[] {
  const text = readFileSync(join(import.meta.dirname, '../../../../docs/mcp.md'), 'utf8')
  const [, [table = ''] = []] = text.split('| tool | who | what it does |').map((part) => part.split('\n\n'))
  return [...table.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, cell = '']) => cell.replaceAll('`', '').split(', '))
}

test('offers exactly the tools in docs/mcp.md, in that order, each with a sample', () => {
  const names = tools.map(({ name }) => name)
  expect(names).toEqual(readDocumentedTools())
  expect(Object.keys(toolSamples).sort()).toEqual(names.toSorted())
})

describe.each(tools.map((tool) => [tool.name, tool] as const))('%s', (name, tool) => {
  const { valid, invalid, fails = false } = toolSamples[name] ?? { valid: [], invalid: [] }
  const refusals = {
    admin: undefined,
    member: tool.access === 'admin' ? envelope('ACCESS_DENIED', { reason: 'This needs the admin role' }) : undefined,
    nowhere: tool.access === 'user' ? undefined : envelope('ORG_CONTEXT_REQUIRED'),
    stranger:
      tool.access === 'user'
        ? undefined
        : envelope('ACCESS_DENIED', { reason: 'You are not a member of this organization' }),
  }
  const rows = Object.entries(refusals) as [keyof typeof refusals, object | undefined][]

  describe.each(rows)('for %s', (role, refusal) => {
    test.each(valid)(`${refusal ? 'refuses' : 'accepts'} %j`, async (args) => {
      const before = await auditLengths()
      const { isError, value } = await callTool(app, tokens[role], name, args)
      if (refusal) {
        expect({ isError, value }).toEqual({ isError: true, value: refusal })
        expect(await auditLengths(), 'a refused call writes no audit event').toEqual(before)
      } else {
        expect({ isError, value }).toMatchObject({ isError: fails })
      }
    })

    test.each(invalid)(`refuses %j`, async (args, field) => {
      const before = await auditLengths()
      const answer = await callTool(app, tokens[role], name, args)
      expect(answer).toEqual({
        isError: true,
        value: refusal ?? envelope('VALIDATION_ERROR', { field, details: sentence }),
      })
      expect(await auditLengths()).toEqual(before)
    })

    test(`is ${refusal ? 'not ' : ''}listed`, async () => {
      for (const version of eras) {
        const { body } = await post(app, tokens[role], makeMessage(version, 'tools/list'))
        const names = body.result.tools.map((listed: { name: string }) => listed.name)
        expect(names.includes(name)).toBe(refusal === undefined)
      }
    })
  })

  test('has a title, a description and hints', () => {
    expect(tool.title).toMatch(/^[A-Z]/)
    expect(tool.description).toMatch(/\.$/)
    const { readOnlyHint, destructiveHint } = tool.annotations
    expect(typeof readOnlyHint).toBe('boolean')
    if (!readOnlyHint) expect(typeof destructiveHint).toBe('boolean')
  })
})

test('publishes every schema as an object without references', async () => {
  const { body } = await post(app, tokens.admin, makeMessage('2025-11-25', 'tools/list'))
  for (const { name, inputSchema, outputSchema } of body.result.tools) {
    expect(inputSchema, name).toMatchObject({ type: 'object', additionalProperties: false })
    if (name !== 'hub_call_tool') expect(outputSchema, name).toMatchObject({ type: 'object' })
    expect(JSON.stringify([inputSchema, outputSchema]), name).not.toContain('$ref')
  }
})

describe('results of the tools', () => {
  const answer = async (name: string, args: object = {}, role: keyof typeof tokens = 'admin') => {
    const [modern, legacy] = await Promise.all(eras.map((version) => callTool(app, tokens[role], name, args, version)))
    expect(legacy).toEqual(modern)
    return modern?.value
  }
  const demo = { id, name: 'Demo', slug: 'demo' }
  const other = { id, name: 'Other', slug: 'other', role: 'admin' }

  test('get_profile', async () => {
    expect(await answer('get_profile', {}, 'member')).toEqual({
      id,
      email: 'member@demo.test',
      name: 'Demo Member',
      organizations: [{ ...demo, role: 'member' }, other],
    })
  })

  test('list_organizations', async () => {
    expect(await answer('list_organizations', {}, 'nowhere')).toEqual({
      organizations: [{ ...demo, role: 'admin' }],
      count: 1,
    })
  })

  test('get_organization, by id and by slug', async () => {
    const demoId = await app.organization('demo')
    expect(await answer('get_organization', { id: demoId })).toEqual({ ...demo, id: demoId, role: 'admin' })
    expect(await answer('get_organization', { slug: 'demo' }, 'member')).toEqual({ ...demo, role: 'member' })
  })

  test('get_organization rejects both or neither of id and slug', async () => {
    const details = 'Provide either id or slug, not both'
    const refused = envelope('VALIDATION_ERROR', { field: '', details })
    expect(await answer('get_organization', {})).toEqual(refused)
    expect(await answer('get_organization', { id: 'x', slug: 'demo' })).toEqual(refused)
  })

  test('get_organization doesn’t reveal whether another tenant’s organization exists', async () => {
    const foreign = await app.organization('other')
    for (const key of [foreign, 'x', "' or 1=1", '00000000-0000-7000-8000-000000000000']) {
      const refused = envelope('RESOURCE_NOT_FOUND', { resource: 'organization', resourceId: key })
      expect(await answer('get_organization', { id: key })).toEqual(refused)
      expect(await answer('get_organization', { slug: key })).toEqual(refused)
    }
    expect(await answer('get_organization', { slug: 'other' })).toMatchObject({ code: 'NOT_FOUND' })
  })

  test('list_members returns only the token’s organization', async () => {
    expect(await answer('list_members', {}, 'member')).toEqual({
      members: [
        { user_id: id, email: 'admin@demo.test', name: 'Demo Admin', role: 'admin', joined_at: timestamp },
        { user_id: id, email: 'member@demo.test', name: 'Demo Member', role: 'member', joined_at: timestamp },
      ],
      count: 2,
    })
    const { members } = await answer('list_members', {}, 'other')
    expect(members.map(({ email }: { email: string }) => email)).toEqual(['admin@other.test', 'member@demo.test'])
  })

  test('manage_idp_config gets, updates single fields and clears', async () => {
    const unset = { idp_type: null, idp_client_id: null, idp_domain: null, idp_issuer: null, allowed_domains: [] }
    await answer('manage_idp_config', { action: 'clear' })
    expect(await answer('manage_idp_config', { action: 'get' })).toEqual(unset)
    const okta = { idp_type: 'idp_vendor_1', idp_domain: 'acme.okta.com', idp_client_id: 'first' }
    const saved = { ...unset, idp_type: 'okta', idp_domain: 'acme.okta.com', idp_client_id: 'first' }
    expect(await answer('manage_idp_config', { action: 'update', ...okta })).toEqual(saved)
    const allowed_domains = ['https://app.example.com']
    expect(await answer('manage_idp_config', { action: 'update', allowed_domains })).toEqual({
      ...saved,
      allowed_domains,
    })
    expect(await answer('manage_idp_config', { action: 'get' })).toEqual({ ...saved, allowed_domains })
    expect(await answer('manage_idp_config', { action: 'clear' })).toEqual(unset)
  })

  test('idp_client_id is the first entry of REST’s allowed_audiences and keeps the others', async () => {
    const path = '/identity-providers/config'
    const body = { allowed_audiences: ['first', 'second', 'third'] }
    await app.request('PATCH', path, { token: tokens.admin, body })
    expect(await answer('manage_idp_config', { action: 'get' })).toMatchObject({ idp_client_id: 'first' })
    for (const [given, audiences] of [
      ['new', ['new', 'second', 'third']],
      ['third', ['third', 'second']],
    ] as const) {
      await callTool(app, tokens.admin, 'manage_idp_config', { action: 'update', idp_client_id: given })
      expect((await app.request('GET', path, { token: tokens.admin })).body.allowed_audiences).toEqual(audiences)
    }
    await answer('manage_idp_config', { action: 'clear' })
  })

  test('test_idp_connection with a working and a stopped provider', async () => {
    const { startTestProvider } = await import('../../../test/oidc-provider.ts')
    const provider = await startTestProvider()
    const wanted = { idp_type: 'custom_oidc', idp_issuer: provider.issuer }
    expect(await answer('test_idp_connection', wanted)).toEqual({
      success: true,
      issuer: provider.issuer,
      jwks_uri: expect.stringContaining(provider.issuer),
    })
    expect(await answer('test_idp_connection', wanted, 'member'), 'private networks are for admins').toEqual({
      success: false,
      error: `${new URL(provider.issuer).hostname} points to a private or reserved address, which this server does not allow`,
    })
    await provider.stop()
    expect(await answer('test_idp_connection', wanted)).toEqual({ success: false, error: sentence })
  })

  test('manage_governance_provider gets, updates single fields and clears', async () => {
    const none = { effective_status: 'bypassed', reason: sentence, config: null }
    expect(await answer('manage_governance_provider', { action: 'clear' })).toEqual({ action: 'clear', ...none })
    expect(await answer('manage_governance_provider', { action: 'get' })).toEqual({ action: 'get', ...none })
    const given = {
      interceptor_url: 'https://gov.example.com/v1',
      interceptor_name: 'policies',
      api_key: 'key-12345678',
    }
    await callTool(app, tokens.admin, 'manage_governance_provider', { action: 'update', ...given })
    expect(
      (await callTool(app, tokens.admin, 'manage_governance_provider', { action: 'update', is_enabled: true })).value,
    ).toEqual({
      action: 'update',
      effective_status: 'active',
      reason: sentence,
      config: {
        provider_key: 'byo',
        interceptor_url: 'https://gov.example.com/v1',
        interceptor_name: 'policies',
        api_key_last4: '5678',
        has_api_key: true,
        is_enabled: true,
        last_test_status: '',
        last_test_message: '',
        last_test_at: null,
        created_at: timestamp,
        updated_at: timestamp,
      },
    })
    await answer('manage_governance_provider', { action: 'clear' })
  })

  test('test_governance_provider', async () => {
    const { url, asked } = await startInterceptor()
    const given = { interceptor_url: url, interceptor_name: 'policies', api_key: 'key-12345678' }
    expect((await callTool(app, tokens.admin, 'test_governance_provider', given)).value).toEqual({
      provider_key: 'byo',
      interceptor_url: url,
      interceptor_name: 'policies',
      status: 'success',
      message: sentence,
      violations: [],
      latency_ms: expect.any(Number),
    })
    expect(asked).toHaveLength(1)
    expect(JSON.stringify(asked), 'the caller’s token isn’t sent').not.toContain(tokens.admin)
  })

  test('the governance provider’s stored key is never sent to another host', async () => {
    const [own, foreign] = [await startInterceptor(), await startInterceptor()]
    const saved = { interceptor_url: own.url, interceptor_name: 'policies', api_key: 'key-12345678' }
    await callTool(app, tokens.admin, 'manage_governance_provider', { action: 'update', ...saved })
    const elsewhere = { interceptor_url: foreign.url }
    const refused = { isError: true, value: envelope('VALIDATION_ERROR', { field: 'api_key', details: sentence }) }
    expect(await callTool(app, tokens.admin, 'test_governance_provider', elsewhere)).toEqual(refused)
    const change = { action: 'update', ...elsewhere }
    expect(await callTool(app, tokens.admin, 'manage_governance_provider', change)).toEqual(refused)
    expect(foreign.asked).toEqual([])
    await callTool(app, tokens.admin, 'test_governance_provider', {})
    expect(own.asked).toHaveLength(1)
    await answer('manage_governance_provider', { action: 'clear' })
  })

  test('list_plans', async () => {
    const { plans, count } = await answer('list_plans', {}, 'nowhere')
    expect(count).toBe(3)
    expect(plans[0]).toEqual({
      id: 'free',
      name: sentence,
      description: sentence,
      features: { sso: false, scim: false, audit_logs: false, custom_domains: false, end_users: true, seats: true },
      limits: { seats: 3, end_users: 100, sites: 1, skills: 10 },
      created_at: timestamp,
      updated_at: timestamp,
    })
  })

  const plan = { id: 'free', name: sentence, description: sentence }
  const features = { sso: false, scim: false, audit_logs: false, custom_domains: false, end_users: true, seats: true }
  const limits = { seats: 3, end_users: 100, sites: 1, skills: 10 }
  const usage = { seats_used: 2, end_users_used: 0 }
  test.each([
    [{}, { plan, features, limits, usage }],
    [{ include: 'all' }, { plan, features, limits, usage }],
    [{ include: 'basic' }, { plan }],
    [{ include: 'features' }, { plan, features, limits }],
    [{ include: 'usage' }, { plan, limits, usage }],
  ])('get_plan_info %j', async (args, expected) => {
    expect(await answer('get_plan_info', args, 'other')).toEqual(expected)
  })

  test.each([
    [{ feature: 'sso' }, { feature: 'sso', allowed: false, reason: sentence }],
    [{ feature: 'seats' }, { feature: 'seats', allowed: true, reason: null }],
    [
      { feature: 'seats', current_usage: 2 },
      { feature: 'seats', allowed: true, reason: null },
    ],
    [
      { feature: 'seats', current_usage: 3 },
      { feature: 'seats', allowed: false, reason: sentence },
    ],
  ])('check_feature %j', async (args, expected) => {
    expect(await answer('check_feature', args, 'other')).toEqual(expected)
  })

  const status = {
    has_subscription: false,
    is_active: false,
    status: 'none',
    plan_id: 'free',
    current_period_end: null,
    cancel_at: null,
  }
  const record = { status: 'none', plan_id: 'free', current_period_end: null, cancel_at: null, grace_ends_at: null }
  const empty = { id: null, product_id: null, customer_id: null, seats: null, created_at: null, updated_at: null }
  test.each([
    [{}, status],
    [{ detail: 'status' }, status],
    [{ detail: 'active_check' }, { is_active: false }],
    [{ detail: 'full' }, { ...record, ...empty }],
  ])('get_subscription %j without a subscription', async (args, expected) => {
    expect(await answer('get_subscription', args, 'other')).toEqual(expected)
  })

  test('get_subscription with a subscription', async () => {
    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`
        insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id,
                                   current_period_end, cancel_at, created_at, updated_at)
        values (current_organization(), 'sub_1', 'trialing', 'team', 'inlay_team', 'cus_1',
                '2026-12-01T00:00:00.000Z', null, '2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z')`,
    )
    const shared = {
      status: 'trialing',
      plan_id: 'team',
      current_period_end: '2026-12-01T00:00:00.000Z',
      cancel_at: null,
    }
    expect(await answer('get_subscription', { detail: 'active_check' })).toEqual({ is_active: true })
    expect(await answer('get_subscription')).toEqual({ has_subscription: true, is_active: true, ...shared })
    expect(await answer('get_subscription', { detail: 'full' })).toEqual({
      ...shared,
      id: 'sub_1',
      product_id: 'inlay_team',
      customer_id: 'cus_1',
      seats: null,
      grace_ends_at: null,
      created_at: '2026-11-01T00:00:00.000Z',
      updated_at: '2026-11-02T00:00:00.000Z',
    })
  })

  test('get_billing_url contains the organization; the portal is only for admins', async () => {
    const wanted = { type: 'checkout', product_id: 'inlay_team' }
    const { value: checkout } = await callTool(app, tokens.member, 'get_billing_url', wanted)
    expect(checkout).toEqual({ url_type: 'checkout', url: expect.stringMatching(/^http/) })
    expect(checkout.url).toContain(await app.organization('demo'))
    expect((await callTool(app, tokens.admin, 'get_billing_url', { type: 'portal' })).value).toEqual({
      url_type: 'portal',
      url: expect.stringMatching(/^http/),
    })
    expect(await answer('get_billing_url', { type: 'portal' }, 'member')).toEqual(
      envelope('ACCESS_DENIED', { reason: 'This needs the admin role' }),
    )
    expect(await answer('get_billing_url', { type: 'checkout', product_id: 'nothing' })).toEqual(
      envelope('RESOURCE_NOT_FOUND', { resource: 'product', resourceId: 'nothing' }),
    )
  })

  test('sync_subscription', async () => {
    expect(await answer('sync_subscription', {}, 'other')).toEqual({ synced: 0, deleted: 0 })
  })

  test('the hub tools without open pages', async () => {
    expect(await answer('hub_list_tools', { include_sources: true })).toEqual({ count: 0, tools: [] })
    expect(await answer('hub_list_sources')).toEqual({ count: 0, sources: [] })
    expect(await callTool(app, tokens.admin, 'hub_call_tool', { tool_name: 'add_to_cart' })).toEqual({
      isError: true,
      value: envelope('RESOURCE_NOT_FOUND', { resource: 'hub_tool', resourceId: 'add_to_cart' }),
    })
  })

  test('echo returns any text', async () => {
    for (const message of ['hi', '"\\\n\u2028é漢🎉', '</script>', 'x'.repeat(1000)]) {
      expect(await answer('echo', { message }, 'nowhere')).toEqual({ message: `Echo: ${message}` })
    }
  })

  test('verify_api_access with and without an organization', async () => {
    const shared = {
      status: 'ok',
      message: sentence,
      authenticated: true,
      user_email: 'admin@demo.test',
      token_expires_at: timestamp,
      token_expiring_soon: false,
      has_refresh_token: false,
    }
    expect(await answer('verify_api_access')).toEqual({
      ...shared,
      organization_id: await app.organization('demo'),
      organization_name: 'Demo',
      role: 'admin',
    })
    const nowhere = { ...shared, organization_id: null, organization_name: null, role: null }
    expect(await answer('verify_api_access', {}, 'nowhere')).toEqual(nowhere)
    expect(await answer('verify_api_access', {}, 'stranger')).toEqual(nowhere)
  })

  test.each([
    [3600 - 300, false],
    [3600 - 299, true],
  ])('verify_api_access after %i seconds returns token_expiring_soon: %s', async (seconds, expected) => {
    const before = app.clock.now
    const token = await app.tokenFor('admin@demo.test', 'demo')
    // Expiry times of tokens are in whole seconds.
    app.clock.now = Math.floor(before / 1000) * 1000 + seconds * 1000
    const { value } = await callTool(app, token, 'verify_api_access')
    app.clock.now = before
    expect(value.token_expiring_soon).toBe(expected)
  })
})

/** Counts the audit events of both organizations, except those that record earlier calls a few seconds later. */
async function auditLengths(): Promise<unknown> {
  const count = async (slug: 'demo' | 'other') =>
    app.service.database.asOrg(await app.organization(slug), (sql) => sql`select count(*) from audit_events`)
  return Promise.all([count('demo'), count('other')])
}
