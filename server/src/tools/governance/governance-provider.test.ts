import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { testSecret } from '../../../test/engines/engines.ts'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { resealColumns } from '../../console/operator/reseal.ts'
import { createSecrets } from '../../kernel/lib/secrets.ts'
import { topics } from '../../kernel/stores/topics.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())
beforeEach(() => clear())

const path = '/governance/providers/config'
const get = async () => (await app.request('GET', path, { token })).body
const patch = (body: unknown) => app.request('PATCH', path, { token, body })
const clear = () => app.request('DELETE', path, { token })
const runTest = (body: unknown = {}) => app.request('POST', '/governance/providers/test', { token, body })

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const apiKey = 'canary-key-5678'
const complete = {
  provider_key: 'vendor_default',
  interceptor_url: 'https://gov.example.com/v1',
  interceptor_name: 'policies',
  api_key: apiKey,
  is_enabled: true,
}
const none = {
  effective_status: 'bypassed',
  reason: 'No governance provider is configured, so tool calls aren’t checked.',
  config: null,
}
const invalidField = (field: string, details: unknown = expect.stringMatching(/\S/)) => ({
  defined: true,
  code: 'BAD_REQUEST',
  status: 400,
  message: 'Invalid request data',
  data: { code: 'VALIDATION_ERROR', field, details },
})

describe('configuring', () => {
  test('starts without a configuration', async () => {
    expect(await get()).toEqual(none)
  })

  test('saves every field, and only returns the last four characters of the key', async () => {
    const { body } = await patch({ ...complete, interceptor_url: 'https://GOV.example.com:443/v1?a=b' })
    expect(body).toEqual({
      effective_status: 'active',
      reason: 'The governance provider checks every tool call.',
      config: {
        provider_key: 'vendor_default',
        interceptor_url: 'https://gov.example.com/v1?a=b',
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
    expect(await get()).toEqual(body)
    const member = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('GET', path, { token: member })).body).toEqual(body)
  })

  test('leaves the other fields empty and the provider disabled on the first change', async () => {
    expect((await patch({ interceptor_name: ' policies ' })).body.config).toMatchObject({
      provider_key: 'byo',
      interceptor_url: '',
      interceptor_name: 'policies',
      api_key_last4: '',
      has_api_key: false,
      is_enabled: false,
    })
  })

  test.each([
    ['the provider', { provider_key: 'byo' }, { provider_key: 'byo' }],
    ['the path', { interceptor_url: 'https://gov.example.com/v2' }, { interceptor_url: 'https://gov.example.com/v2' }],
    ['the name', { interceptor_name: 'others' }, { interceptor_name: 'others' }],
    ['the key', { api_key: 'another-key-0000' }, { api_key_last4: '0000' }],
    ['is_enabled', { is_enabled: false }, { is_enabled: false }],
    ['nothing', {}, {}],
  ])('changes %s and nothing else', async (_, changes, expected) => {
    const { config: before } = (await patch(complete)).body
    const { config } = (await patch(changes)).body
    expect(config).toEqual({ ...before, ...expected, updated_at: timestamp })
  })

  test('keeps all concurrent changes to different fields, including the first change', async () => {
    const fields = Object.entries(complete).map(([field, value]) => ({ [field]: value }))
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => patch(fields[n % fields.length])))
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200))
    const { api_key, ...shown } = complete
    expect((await get()).config).toMatchObject({ ...shown, has_api_key: true, api_key_last4: '5678' })
  })

  test.each<[string, unknown]>([
    ['a name of 1 character', { interceptor_name: 'x' }],
    ['a name of 200 characters', { interceptor_name: 'ü'.repeat(200) }],
    ['a key of 8 characters', { api_key: '12345678' }],
    ['a key of 2000 characters', { api_key: '~'.repeat(2000) }],
    ['a URL of 2000 characters', { interceptor_url: `https://a.example.com/${'x'.repeat(1978)}` }],
    ['plain http in development', { interceptor_url: 'http://127.0.0.1:9000/' }],
  ])('accepts %s', async (_, body) => {
    expect((await patch(body)).status).toBe(200)
  })

  test.each<[unknown, string]>([
    [null, ''],
    [[], ''],
    [{ unknown: 1 }, 'unknown'],
    [{ api_key_last4: '1234' }, 'api_key_last4'],
    [{ last_test_status: 'success' }, 'last_test_status'],
    ...[null, '', 'other', 1].map((value): [unknown, string] => [{ provider_key: value }, 'provider_key']),
    ...[null, 'true', 1].map((value): [unknown, string] => [{ is_enabled: value }, 'is_enabled']),
    ...[null, 1, '', ' ', 'x'.repeat(201), 'a\u0007b'].map((value): [unknown, string] => [
      { interceptor_name: value },
      'interceptor_name',
    ]),
    ...[null, 1, '', '1234567', 'x'.repeat(2001), 'with space', 'line\nbreak', 'schlüssel'].map(
      (value): [unknown, string] => [{ api_key: value }, 'api_key'],
    ),
    ...[
      null,
      1,
      '',
      'gov.example.com',
      '/relative',
      'ftp://gov.example.com/',
      'javascript:alert(1)',
      'file:///etc/passwd',
      'https://',
      'https://user@gov.example.com/',
      'https://user:pass@gov.example.com/',
      'https://gov.example.com/#fragment',
      `https://a.example.com/${'x'.repeat(1979)}`,
    ].map((value): [unknown, string] => [{ interceptor_url: value }, 'interceptor_url']),
  ])('rejects %j', async (body, field) => {
    expect((await patch(body)).body).toEqual(invalidField(field))
    expect(await get(), 'nothing was saved').toEqual(none)
  })

  test('rejects an unpaired surrogate, which the database cannot store', async () => {
    expect((await patch({ interceptor_name: '\ud800' })).body.data.code).toBe('VALIDATION_ERROR')
  })

  test('only accepts https in production', async () => {
    const production = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    const token = await production.tokenFor('admin@demo.test', 'demo')
    const refusal = invalidField('interceptor_url', 'Must start with https://')
    const body = { interceptor_url: 'http://127.0.0.1:9000/' }
    expect((await production.request('PATCH', path, { token, body })).body).toEqual(refusal)
    expect((await production.request('POST', '/governance/providers/test', { token, body })).body).toEqual(refusal)
    const https = { interceptor_url: 'https://gov.example.com/' }
    expect((await production.request('PATCH', path, { token, body: https })).status).toBe(200)
  })

  test('deletes everything when cleared, and clearing again changes nothing', async () => {
    await patch(complete)
    expect((await clear()).body).toEqual(none)
    expect((await clear()).body).toEqual(none)
    expect(await get()).toEqual(none)
    expect((await patch({ interceptor_name: 'new' })).body.config.has_api_key).toBe(false)
  })

  test('does not affect other organizations', async () => {
    await patch(complete)
    const other = await app.tokenFor('admin@other.test', 'other')
    expect((await app.request('GET', path, { token: other })).body).toEqual(none)
    await app.request('DELETE', path, { token: other })
    expect((await get()).effective_status).toBe('active')
  })
})

describe('the effective status', () => {
  const { interceptor_url, interceptor_name, api_key } = complete
  test.each([
    [
      'bypassed',
      'The governance provider is disabled, so tool calls aren’t checked.',
      { ...complete, is_enabled: false },
    ],
    ['bypassed', 'The governance provider is disabled, so tool calls aren’t checked.', {}],
    [
      'misconfigured',
      'The governance provider is incomplete. Missing: interceptor_url, interceptor_name, api_key.',
      { is_enabled: true },
    ],
    [
      'misconfigured',
      'The governance provider is incomplete. Missing: interceptor_url.',
      { is_enabled: true, interceptor_name, api_key },
    ],
    [
      'misconfigured',
      'The governance provider is incomplete. Missing: interceptor_name.',
      { is_enabled: true, interceptor_url, api_key },
    ],
    [
      'misconfigured',
      'The governance provider is incomplete. Missing: api_key.',
      { is_enabled: true, interceptor_url, interceptor_name, provider_key: 'vendor_default' },
    ],
    [
      'active',
      'The governance provider checks every tool call.',
      { is_enabled: true, interceptor_url, interceptor_name, api_key },
    ],
  ])('is %s: %s', async (effective_status, reason, body) => {
    expect((await patch(body)).body).toMatchObject({ effective_status, reason })
    expect(await get()).toMatchObject({ effective_status, reason })
  })

  test.each([
    ['success', 'active', 'The governance provider checks every tool call.'],
    ['notify', 'active', 'The governance provider checks every tool call.'],
    ['failure', 'misconfigured', 'The last test failed: Because'],
  ])('after a test with %s, is %s', async (status, effective_status, reason) => {
    const { url } = await startInterceptor(answerWith({ status, message: 'Because', violations: [] }))
    await patch({ ...complete, interceptor_url: url })
    await runTest()
    expect(await get()).toMatchObject({
      effective_status,
      reason,
      config: { last_test_status: status, last_test_message: 'Because' },
    })
  })
})

describe('testing', () => {
  test('sends a sample call and returns the verdict', async () => {
    const violations = [{ policy_id: 'pii', status: 'notify', details: 'An address' }]
    const { url, asked } = await startInterceptor(answerWith({ status: 'notify', message: 'Look', violations }))
    const saved = (await patch({ ...complete, interceptor_url: url })).body.config
    const { body } = await runTest()
    expect(body).toEqual({
      provider_key: 'vendor_default',
      interceptor_url: url,
      interceptor_name: 'policies',
      status: 'notify',
      message: 'Look',
      violations,
      latency_ms: expect.any(Number),
    })
    expect(asked).toHaveLength(1)
    expect(asked[0]?.headers.authorization).toBe(`Bearer ${apiKey}`)
    expect(asked[0]?.body.params).toEqual({
      interceptor_name: 'policies',
      event: 'tools/call',
      phase: 'request',
      context: {
        mcp_call_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        organization_id: await app.organization('demo'),
        caller_identity: 'admin@demo.test',
        source: {
          tabId: 'test',
          origin: 'http://localhost:8787',
          url: 'http://localhost:8787/',
          title: expect.any(String),
        },
        tool: 'echo',
        arguments: { message: expect.any(String) },
      },
    })
    expect((await get()).config).toEqual({
      ...saved,
      last_test_status: 'notify',
      last_test_message: 'Look',
      last_test_at: new Date(app.clock.now).toISOString(),
    })
  })

  test('works without a saved configuration if all fields are given, and saves nothing', async () => {
    const { url, asked } = await startInterceptor()
    const { body } = await runTest({ interceptor_url: url, interceptor_name: 'trial', api_key: 'trial-key' })
    expect(body).toEqual({
      provider_key: 'byo',
      interceptor_url: url,
      interceptor_name: 'trial',
      status: 'success',
      message: 'The interceptor allowed the call',
      violations: [],
      latency_ms: expect.any(Number),
    })
    expect(asked[0]?.headers.authorization).toBe('Bearer trial-key')
    expect(await get()).toEqual(none)
  })

  test.each<['saves' | 'does not save', string, Record<string, unknown>]>([
    ['saves', 'the saved configuration', {}],
    ['saves', 'the same values', { provider_key: 'vendor_default', interceptor_name: 'policies' }],
    ['does not save', 'another provider', { provider_key: 'byo' }],
    ['does not save', 'another name', { interceptor_name: 'others' }],
    ['does not save', 'another key', { api_key: 'another-key' }],
  ])('%s the result of a test with %s', async (outcome, _, overrides) => {
    const { url } = await startInterceptor()
    const before = (await patch({ ...complete, interceptor_url: url })).body
    const { api_key, ...shown } = overrides
    expect((await runTest(overrides)).body).toMatchObject({ status: 'success', ...shown })
    const remembered = {
      last_test_status: 'success',
      last_test_message: expect.stringMatching(/./),
      last_test_at: timestamp,
    }
    const config = { ...before.config, ...(outcome === 'saves' && remembered) }
    expect(await get()).toEqual({ ...before, config })
  })

  test('sends the saved key to another path on the same host, and does not save the result', async () => {
    const { url, asked } = await startInterceptor()
    await patch({ ...complete, interceptor_url: url })
    await runTest({ interceptor_url: `${url}/other` })
    expect(asked[0]?.headers.authorization).toBe(`Bearer ${apiKey}`)
    expect((await get()).config.last_test_status).toBe('')
  })

  test('does not save the result if the connection was changed during the test', async () => {
    const { url } = await startInterceptor(async (request, response) => {
      await patch({ interceptor_name: 'changed' })
      answerWith({ status: 'failure', violations: [] })(request, response)
    })
    await patch({ ...complete, interceptor_url: url })
    expect((await runTest()).body).toMatchObject({ status: 'failure', interceptor_name: 'policies' })
    expect((await get()).config).toMatchObject({ interceptor_name: 'changed', last_test_status: '' })
  })

  test.each<['keeps' | 'discards', string, (url: string) => Record<string, unknown>]>([
    ['keeps', 'is_enabled', () => ({ is_enabled: false })],
    ['keeps', 'the provider', () => ({ provider_key: 'byo' })],
    ['keeps', 'nothing', (url) => ({ interceptor_url: url, interceptor_name: 'policies' })],
    ['discards', 'the path', (url) => ({ interceptor_url: `${url}/v2` })],
    ['discards', 'the name', () => ({ interceptor_name: 'others' })],
    ['discards', 'the key', () => ({ api_key: apiKey })],
  ])('%s the last result when a change affects %s', async (outcome, _, changes) => {
    const { url } = await startInterceptor()
    await patch({ ...complete, interceptor_url: url })
    await runTest()
    const { config } = (await patch(changes(url))).body
    expect([config.last_test_status, config.last_test_at]).toEqual(
      outcome === 'keeps' ? ['success', timestamp] : ['', null],
    )
  })

  test('saves why the interceptor could not be reached', async () => {
    await patch({ ...complete, interceptor_url: 'https://10.0.0.1/' })
    const { message } = (await runTest()).body
    expect(message).toMatch(/private or reserved address/)
    expect(await get()).toMatchObject({
      effective_status: 'misconfigured',
      reason: `The last test failed: ${message}`,
      config: { last_test_status: 'failure', last_test_message: message },
    })
  })

  test('handles control characters and overlong text from the interceptor', async () => {
    const message = `\u0007${'x'.repeat(998)}😀`
    const { url } = await startInterceptor(answerWith({ status: 'failure', message, violations: [] }))
    await patch({ ...complete, interceptor_url: url })
    expect((await runTest()).status).toBe(200)
    expect((await get()).config.last_test_message).toBe(` ${'x'.repeat(998)}\ufffd`)
  })

  test.each([
    ['interceptor_url', { interceptor_name: 'x', api_key: 'trial-key' }],
    ['interceptor_name', { interceptor_url: 'https://gov.example.com/', api_key: 'trial-key' }],
    ['api_key', { interceptor_url: 'https://gov.example.com/', interceptor_name: 'x' }],
  ])('requires %s if none is saved', async (field, body) => {
    expect((await runTest(body)).body).toEqual(invalidField(field, 'Required, because none is saved'))
    await patch({ is_enabled: true })
    expect((await runTest(body)).body).toEqual(invalidField(field, 'Required, because none is saved'))
  })

  test.each([
    [{ is_enabled: true }, 'is_enabled'],
    [{ api_key: 'short' }, 'api_key'],
    [{ interceptor_url: 'x' }, 'interceptor_url'],
  ])('rejects %j', async (body, field) => {
    expect((await runTest(body)).body).toEqual(invalidField(field))
  })
})

describe('the saved key', () => {
  const enterAgain = invalidField(
    'api_key',
    'Enter the API key again. The saved key is only sent to the host it was saved for.',
  )

  test.each([
    'https://evil.test/v1',
    'https://gov.example.com.evil.test/v1',
    'https://gov.example.co/v1',
    'https://gov.example.com:444/v1',
    'http://gov.example.com/v1',
    'https://evil.test/?https://gov.example.com/v1',
  ])('must be entered again for %s', async (interceptor_url) => {
    const before = (await patch(complete)).body
    expect((await patch({ interceptor_url, interceptor_name: 'new' })).body).toEqual(enterAgain)
    expect((await runTest({ interceptor_url })).body).toEqual(enterAgain)
    expect(await get(), 'the configuration is unchanged').toEqual(before)

    const { config } = (await patch({ interceptor_url, api_key: 'key-of-the-new-host' })).body
    expect(config).toMatchObject({ interceptor_url, api_key_last4: 'host' })
  })

  test('is not sent to another host, but a key given with the test is', async () => {
    const home = await startInterceptor()
    const elsewhere = await startInterceptor()
    await patch({ ...complete, interceptor_url: home.url })
    await runTest({ interceptor_url: elsewhere.url })
    expect(elsewhere.asked).toEqual([])
    await runTest({ interceptor_url: elsewhere.url, api_key: 'key-of-elsewhere' })
    expect(elsewhere.asked.map(({ headers }) => headers.authorization)).toEqual(['Bearer key-of-elsewhere'])
    expect(home.asked).toEqual([])
  })

  test('belongs to the first host if it was saved before one was set', async () => {
    await patch({ api_key: apiKey })
    expect((await runTest({ interceptor_url: 'https://gov.example.com/', interceptor_name: 'x' })).body).toEqual(
      enterAgain,
    )
    expect((await patch({ interceptor_url: 'https://gov.example.com/' })).body.config.has_api_key).toBe(true)
    expect((await patch({ interceptor_url: 'https://evil.test/' })).body).toEqual(enterAgain)
  })

  test('is never combined with another host by concurrent changes', async () => {
    for (let round = 0; round < 10; round++) {
      await clear()
      await patch({ interceptor_url: 'https://gov.example.com/' })
      await Promise.all([
        patch({ interceptor_url: 'https://evil.test/' }),
        patch({ interceptor_url: 'https://gov.example.com/', api_key: apiKey }),
        patch({ interceptor_url: 'https://evil.test/' }),
      ])
      expect((await get()).config).toMatchObject({ interceptor_url: 'https://gov.example.com/', has_api_key: true })
    }
  })

  test('is not in responses, rows or logs, even if the interceptor quotes it', async () => {
    const { url } = await startInterceptor(
      answerWith({ status: 'failure', message: `Bad key ${apiKey}`, violations: [] }),
    )
    const answers = [await patch({ ...complete, interceptor_url: url }), await runTest(), await get(), await clear()]
    await patch({ ...complete, interceptor_url: url })
    const rows = await app.service.database.asOrg(await app.organization('demo'), async (sql) => [
      ...(await sql`select * from governance_providers`),
      ...(await sql`select * from audit_events`),
    ])
    expect(rows.length).toBeGreaterThan(1)
    expect(JSON.stringify(answers)).toContain('Bad key [API key]')
    for (const text of [JSON.stringify(answers), JSON.stringify(rows), app.logged()]) expect(text).not.toContain(apiKey)
  })
})

test('rotating the secret reseals the saved key', async () => {
  const home = await useTestService()
  const admin = { token: await home.tokenFor('admin@demo.test', 'demo') }
  await home.request('PATCH', path, { ...admin, body: complete })
  const organizationId = await home.organization('demo')
  const both = createSecrets(['a-secret-that-came-later-0123456789', testSecret])
  await resealColumns({ ...home.stores, secrets: both }, [organizationId])
  const [row] = await home.service.database.asOrg(
    organizationId,
    (sql) => sql<{ api_key_sealed: string }>`select api_key_sealed from governance_providers`,
  )
  expect(both.isCurrent(row?.api_key_sealed ?? '')).toBe(true)
})

test('every change writes an audit event, and a request without effect writes none', async () => {
  const { service } = app
  const id = await app.organization('demo')
  const lengthBefore = (await auditRows()).length
  const { url } = await startInterceptor()
  await patch({ interceptor_url: url, interceptor_name: 'policies', api_key: apiKey })
  await patch({ is_enabled: true })
  await patch({ interceptor_url: 'https://evil.test/' })
  await runTest()
  await runTest({ interceptor_name: 'others' })
  await clear()
  await clear()
  expect((await auditRows()).slice(lengthBefore)).toEqual([
    {
      actor: 'admin@demo.test',
      action: 'governance_provider.updated',
      target: id,
      data: { interceptor_url: url, interceptor_name: 'policies', api_key: 'set' },
    },
    { actor: 'admin@demo.test', action: 'governance_provider.updated', target: id, data: { is_enabled: true } },
    { actor: 'admin@demo.test', action: 'governance_provider.tested', target: id, data: { status: 'success' } },
    { actor: 'admin@demo.test', action: 'governance_provider.cleared', target: id, data: {} },
  ])

  function auditRows() {
    return service.database.asOrg(
      id,
      (sql) => sql`select actor, action, target, data from audit_events order by sequence`,
    )
  }
})

test('every change is announced to the other nodes', async () => {
  const heard: string[] = []
  const { url } = await startInterceptor()
  const end = app.service.changes.watch({ changed: (topic) => heard.push(topic), missed: () => undefined })
  await patch({ ...complete, interceptor_url: url })
  await runTest()
  await runTest({ interceptor_name: 'others' })
  await clear()
  end()
  const topic = topics.governance(await app.organization('demo'))
  expect(heard).toEqual([topic, topic, topic])
})
