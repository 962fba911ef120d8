import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { testSecret } from '../../../test/engines/engines.ts'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { resealColumns } from '../../console/operator/reseal.ts'
import { createSecrets } from '../../kernel/lib/secrets.ts'

let app: TestService
let token: string
let other: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  other = await app.tokenFor('admin@other.test', 'other')
})
afterAll(() => app.close())
afterEach(async () => {
  await app.service.database.asOrg(await app.organization('demo'), async (sql) => {
    await sql`delete from agent_settings`
    await sql`delete from conversation_retention`
  })
})

const path = '/agent/config'
const get = async () => (await app.request('GET', path, { token })).body
const patch = (body: unknown) => app.request('PATCH', path, { token, body })
const readRows = async () =>
  app.service.database.asOrg(await app.organization('demo'), (sql) => sql`select * from agent_settings`)

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const key = 'canary-key-of-the-model-5678'
const small = { provider: 'openai_compatible', url: 'https://models.example.com/v1', name: 'small' }
const claude = { provider: 'anthropic', url: 'https://api.anthropic.com/v1', name: 'claude' }
const texts = {
  name: 'Penny',
  greeting: 'Hi!\nHow can I help?',
  starter_prompts: ['Where is my order?', 'Which ink fits my pen?'],
  instructions: '# Tone\n\n\t- Be brief.\n  - Be kind 👨‍👩‍👧.',
}
const rules = {
  tool_policies: { 'crm.search': 'auto', add_to_cart: 'ask', 'https://shop.example.com add_to_cart': 'never' },
  origin_groups: [['https://shop.example.com', 'https://crm.example.com:8443']],
  anonymous: { is_enabled: true, runs_per_minute: 60 },
  are_contents_visible: true,
  retention_days: 3650,
}
const invalidField = (field: string, details: unknown = expect.stringMatching(/\S/)) => ({
  defined: true,
  code: 'BAD_REQUEST',
  status: 400,
  message: 'Invalid request data',
  data: { code: 'VALIDATION_ERROR', field, details },
})
const installed = () => {
  const { model } = app.service.models.installation()
  const reason = expect.stringMatching(/^The operator .*\.$/)
  return { source: model?.source ?? 'none', provider: model?.provider ?? null, name: model?.name ?? null, reason }
}
const defaults = () => ({
  name: 'Assistant',
  greeting: '',
  starter_prompts: [],
  instructions: '',
  model: null,
  fallback_models: [],
  effective_model: installed(),
  tool_policies: {},
  origin_groups: [],
  anonymous: { is_enabled: false, runs_per_minute: 6 },
  are_contents_visible: false,
  retention_days: null,
  updated_at: null,
})

describe('the settings', () => {
  test('have defaults, and use the installation’s model', async () => {
    expect(await get()).toEqual(defaults())
  })

  test('save every field, and only return the last four characters of keys', async () => {
    const { body } = await patch({
      ...texts,
      ...rules,
      model: { ...small, url: 'https://MODELS.example.com:443/v1/', key },
      fallback_models: [{ ...claude, key: 'another-key-0000' }],
    })
    expect(body).toEqual({
      ...texts,
      ...rules,
      model: { ...small, key_last4: '5678' },
      fallback_models: [{ ...claude, key_last4: '0000' }],
      effective_model: {
        source: 'organization',
        provider: 'openai_compatible',
        name: 'small',
        reason: 'The organization brought its own model.',
      },
      updated_at: timestamp,
    })
    expect(await get()).toEqual(body)
  })

  test.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ['name', { name: ' Pen  Pal ' }, { name: 'Pen Pal' }],
    ['greeting', { greeting: 'One\r\ntwo\rthree' }, { greeting: 'One\ntwo\nthree' }],
    ['greeting, to none', { greeting: '' }, { greeting: '' }],
    ['starter_prompts', { starter_prompts: ['Hello'] }, { starter_prompts: ['Hello'] }],
    ['starter_prompts, to none', { starter_prompts: [] }, { starter_prompts: [] }],
    ['instructions', { instructions: 'Be brief.' }, { instructions: 'Be brief.' }],
    ['the model’s key', { model: { ...small, key: 'another-key-0000' } }, { model: { ...small, key_last4: '0000' } }],
    ['fallback_models, to none', { fallback_models: [] }, { fallback_models: [] }],
    ['tool_policies', { tool_policies: { 'crm.search': 'never' } }, { tool_policies: { 'crm.search': 'never' } }],
    [
      'tool_policies, with origins in canonical form',
      { tool_policies: { 'HTTPS://Shop.Example.com:443 add to cart': 'ask' } },
      { tool_policies: { 'https://shop.example.com add to cart': 'ask' } },
    ],
    ['tool_policies, to none', { tool_policies: {} }, { tool_policies: {} }],
    [
      'origin_groups, in canonical form',
      { origin_groups: [['https://A.example.com:443', 'http://localhost:3000', 'https://a.example.com']] },
      { origin_groups: [['https://a.example.com', 'http://localhost:3000']] },
    ],
    ['origin_groups, to none', { origin_groups: [] }, { origin_groups: [] }],
    [
      'whether visitors can talk to the agent',
      { anonymous: { is_enabled: false } },
      { anonymous: { ...rules.anonymous, is_enabled: false } },
    ],
    [
      'how often visitors can write',
      { anonymous: { runs_per_minute: 1 } },
      { anonymous: { ...rules.anonymous, runs_per_minute: 1 } },
    ],
    ['are_contents_visible', { are_contents_visible: false }, { are_contents_visible: false }],
    ['retention_days', { retention_days: 1 }, { retention_days: 1 }],
    ['retention_days, to forever', { retention_days: null }, { retention_days: null }],
  ])('change %s and nothing else', async (_, changes, expected) => {
    const before = (
      await patch({ ...texts, ...rules, model: { ...small, key }, fallback_models: [{ ...claude, key }] })
    ).body
    const { body } = await patch(changes)
    expect(body).toEqual({ ...before, ...expected, updated_at: timestamp })
    expect(await get()).toEqual(body)
  })

  test('stay as they are if nothing changes, without an audit event', async () => {
    expect((await patch({})).body).toEqual(defaults())
    expect((await patch({ name: 'Assistant', fallback_models: [] })).body).toEqual(defaults())
    const before = (await patch({ ...texts, ...rules, model: { ...small, key } })).body
    const events = await auditEvents()
    expect((await patch({ ...texts, ...rules, anonymous: {}, model: small })).body).toEqual(before)
    expect(await auditEvents()).toEqual(events)
  })

  test('keep all concurrent changes to different fields, including the first change', async () => {
    const changes = { ...texts, ...rules, model: { ...small, key } }
    const fields = Object.entries(changes).map(([field, value]) => ({ [field]: value }))
    const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => patch(fields[n % fields.length])))
    expect(answers.map(({ status }) => status)).toEqual(Array(30).fill(200))
    expect(await get()).toMatchObject({ ...texts, ...rules, model: { ...small, key_last4: '5678' } })
  })

  test('belong to one organization, and only its administrators can read them', async () => {
    await patch({ ...texts, model: { ...small, key } })
    expect((await app.request('GET', path, { token: other })).body).toEqual(defaults())
    expect((await app.request('PATCH', path, { token: other, body: { model: small } })).body).toEqual(
      invalidField('model.key'),
    )
    const member = await app.tokenFor('member@demo.test', 'demo')
    for (const [method, at] of [
      ['GET', path],
      ['PATCH', path],
      ['POST', `${path}/test`],
    ] as const) {
      const { status } = await app.request(method, at, { token: member, ...(method !== 'GET' && { body: {} }) })
      expect(status).toBe(403)
    }
  })

  test('are deleted with the organization', async () => {
    await patch({ model: { ...small, key } })
    const owner = new pg.Client(app.stores.owner)
    await owner.connect()
    try {
      await owner.query('begin')
      await owner.query("select set_config('inlay.organization_id', $1, true)", [await app.organization('demo')])
      const count = async () => (await owner.query('select from agent_settings')).rowCount
      expect(await count()).toBe(1)
      await owner.query('delete from organizations')
      expect(await count()).toBe(0)
    } finally {
      await owner.query('rollback')
      await owner.end()
    }
  })
})

describe('limits', () => {
  const names = (count: number) => Array.from({ length: count }, (_, n) => `n${n}`)
  const longOrigin = (n: number) =>
    `https://${`${'a'.repeat(60)}.`.repeat(3)}${String(n).padStart(3, '0')}.example.com:8443`

  test.each<[string, Record<string, unknown>]>([
    ['a name of 1 character', { name: 'x' }],
    ['a name of 60 characters', { name: 'ü'.repeat(60) }],
    ['a greeting of 500 characters', { greeting: 'x'.repeat(500) }],
    ['six starter prompts of 120 characters', { starter_prompts: Array(6).fill('x'.repeat(120)) }],
    ['20 000 characters of instructions', { instructions: '語'.repeat(20_000) }],
    ['a model with a long name', { model: { ...small, name: 'x'.repeat(200), key } }],
    ['a key of 8 characters', { model: { ...small, key: '12345678' } }],
    ['a key of 2000 characters', { model: { ...small, key: '~'.repeat(2000) } }],
    ['a URL of 2000 characters', { model: { ...small, url: `https://a.example.com/${'x'.repeat(1975)}/v1`, key } }],
    ['plain http in development', { model: { ...small, url: 'http://127.0.0.1:9000/v1', key } }],
    ['a path before /v1', { model: { ...claude, url: 'https://gateway.example.com/anthropic/v1', key } }],
    ['500 policies', { tool_policies: Object.fromEntries(names(500).map((name) => [name, 'ask'])) }],
    ['a tool of 200 characters', { tool_policies: { ['x'.repeat(200)]: 'auto' } }],
    ['a tool named like a method', { tool_policies: { toString: 'never' } }],
    [
      '20 groups of 20 origins',
      { origin_groups: Array(20).fill(names(20).map((name) => `https://${name}.example.com`)) },
    ],
    ['three fallback models', { model: { ...small, key }, fallback_models: Array(3).fill({ ...claude, key }) }],
  ])('allow %s', async (_, body) => {
    expect((await patch(body)).body).toMatchObject(
      'model' in body ? { effective_model: { source: 'organization' } } : body,
    )
  })

  test('leave room for every field at its limit, even if characters are escaped', async () => {
    const model = { ...small, name: 'ü'.repeat(200), url: `https://a.example.com/${'x'.repeat(1975)}/v1` }
    const body = {
      name: 'ü'.repeat(60),
      greeting: 'ü'.repeat(500),
      starter_prompts: Array(6).fill('ü'.repeat(120)),
      instructions: 'ü'.repeat(20_000),
      model: { ...model, key: 'k'.repeat(2000) },
      fallback_models: Array(3).fill({ ...model, key: 'k'.repeat(2000) }),
      tool_policies: Object.fromEntries(names(500).map((_, n) => [`${longOrigin(n)} ${'t'.repeat(200)}`, 'never'])),
      origin_groups: Array(20).fill(names(20).map((_, n) => longOrigin(n))),
    }
    const escaped = JSON.stringify(body).replaceAll('ü', '\\u00fc')
    expect((await patch(escaped)).body).toMatchObject({ instructions: body.instructions })
  })

  const withModel = (changes: Record<string, unknown>) => ({ model: { ...small, key, ...changes } })
  test.each<[unknown, string]>([
    [null, ''],
    [[], ''],
    [{ unknown: 1 }, 'unknown'],
    [{ effective_model: {} }, 'effective_model'],
    [{ updated_at: null }, 'updated_at'],
    ...[null, 1, '', ' ', 'x'.repeat(61), 'a\u0007b', 'a\u200bb', 'a\nb'].map((name): [unknown, string] => [
      { name },
      'name',
    ]),
    ...[null, 1, 'x'.repeat(501), 'a\u0007b', 'a\u200bb', 'a\u202eb'].map((greeting): [unknown, string] => [
      { greeting },
      'greeting',
    ]),
    [{ starter_prompts: null }, 'starter_prompts'],
    [{ starter_prompts: Array(7).fill('x') }, 'starter_prompts'],
    [{ starter_prompts: ['Hello', ''] }, 'starter_prompts.1'],
    [{ starter_prompts: ['x'.repeat(121)] }, 'starter_prompts.0'],
    [{ starter_prompts: ['a\u2066b'] }, 'starter_prompts.0'],
    ...[null, 1, 'x'.repeat(20_001), 'a\u001bb', 'a\u{e0041}b', '\ufeffa'].map((instructions): [unknown, string] => [
      { instructions },
      'instructions',
    ]),
    [{ model: 'small' }, 'model'],
    [{ model: { ...small, key, key_last4: '5678' } }, 'model.key_last4'],
    ...(['provider', 'url', 'name'] as const).map((field): [unknown, string] => [
      withModel({ [field]: undefined }),
      `model.${field}`,
    ]),
    [withModel({ provider: 'demo' }), 'model.provider'],
    [withModel({ name: '' }), 'model.name'],
    [withModel({ name: 'x'.repeat(201) }), 'model.name'],
    [withModel({ name: 'a\u200bb' }), 'model.name'],
    ...[null, 1, '', '1234567', 'x'.repeat(2001), 'with space', 'line\nbreak', 'schlüssel'].map(
      (sent): [unknown, string] => [withModel({ key: sent }), 'model.key'],
    ),
    ...[
      null,
      '',
      'models.example.com/v1',
      'ftp://models.example.com/v1',
      'javascript:alert(1)',
      'https://user@models.example.com/v1',
      'https://user:pass@models.example.com/v1',
      'https://models.example.com/v1#fragment',
      'https://models.example.com/v1?key=1',
      'https://models.example.com/',
      'https://models.example.com/v1/chat/completions',
      `https://a.example.com/${'x'.repeat(1976)}/v1`,
    ].map((url): [unknown, string] => [withModel({ url }), 'model.url']),
    [{ model: { ...claude, url: 'https://api.anthropic.com', key } }, 'model.url'],
    [{ tool_policies: null }, 'tool_policies'],
    [{ tool_policies: [] }, 'tool_policies'],
    [{ tool_policies: { search: 'always' } }, 'tool_policies.search'],
    [{ tool_policies: { search: null } }, 'tool_policies.search'],
    [{ tool_policies: { '': 'ask' } }, 'tool_policies.'],
    [{ tool_policies: { ['x'.repeat(201)]: 'ask' } }, `tool_policies.${'x'.repeat(63)}…`],
    [{ tool_policies: { 'a\u0007b': 'ask' } }, 'tool_policies.a\u0007b'],
    [{ tool_policies: { 'http://shop.example.com x': 'ask' } }, 'tool_policies.http://shop.example.com x'],
    [{ tool_policies: { 'https://*.example.com x': 'ask' } }, 'tool_policies.https://*.example.com x'],
    [{ tool_policies: { 'https://shop.example.com/ x': 'ask' } }, 'tool_policies.https://shop.example.com/ x'],
    [
      { tool_policies: { 'https://shop.example.com x': 'ask', 'https://shop.example.com:443 x': 'auto' } },
      'tool_policies.https://shop.example.com:443 x',
    ],
    [{ tool_policies: Object.fromEntries(names(501).map((name) => [name, 'ask'])) }, 'tool_policies'],
    [{ origin_groups: null }, 'origin_groups'],
    [{ origin_groups: ['https://a.example.com'] }, 'origin_groups.0'],
    [{ origin_groups: [['https://a.example.com']] }, 'origin_groups.0'],
    [{ origin_groups: [['https://a.example.com', 'https://A.example.com']] }, 'origin_groups.0'],
    [{ origin_groups: [['https://a.example.com', 'https://*.example.com']] }, 'origin_groups.0.1'],
    [{ origin_groups: [['https://a.example.com', 'https://b.example.com/path']] }, 'origin_groups.0.1'],
    [{ origin_groups: [['https://a.example.com', `https://${'b'.repeat(300)}`]] }, 'origin_groups.0.1'],
    [{ origin_groups: [names(21).map((name) => `https://${name}.example.com`)] }, 'origin_groups.0'],
    [{ origin_groups: Array(21).fill(['https://a.example.com', 'https://b.example.com']) }, 'origin_groups'],
    [{ anonymous: null }, 'anonymous'],
    [{ anonymous: { is_enabled: 'yes' } }, 'anonymous.is_enabled'],
    [{ anonymous: { tokens: 1 } }, 'anonymous.tokens'],
    ...[0, 61, 1.5, '5', null].map((runs_per_minute): [unknown, string] => [
      { anonymous: { runs_per_minute } },
      'anonymous.runs_per_minute',
    ]),
    ...[null, 1, 'true'].map((are_contents_visible): [unknown, string] => [
      { are_contents_visible },
      'are_contents_visible',
    ]),
    ...[0, 3651, 1.5, '30'].map((retention_days): [unknown, string] => [{ retention_days }, 'retention_days']),
    [{ fallback_models: null }, 'fallback_models'],
    [{ ...withModel({}), fallback_models: Array(4).fill({ ...claude, key }) }, 'fallback_models'],
    [{ ...withModel({}), fallback_models: [{ ...small, url: 'x', key }] }, 'fallback_models.0.url'],
    [{ fallback_models: [{ ...claude, key }] }, 'fallback_models'],
    [{ model: null, fallback_models: [{ ...claude, key }] }, 'fallback_models'],
  ])('reject %j', async (body, field) => {
    expect((await patch(body)).body).toEqual(invalidField(field))
    expect(await readRows(), 'nothing was saved').toEqual([])
  })

  test.each(['"\\u0000"', '"\\ud800"'])('reject the text %s, which the database cannot store', async (text) => {
    for (const body of [`{"instructions":${text}}`, `{"greeting":${text}}`, `{"starter_prompts":[${text}]}`]) {
      expect((await patch(body)).status).toBe(400)
    }
    expect(await readRows()).toEqual([])
  })

  test('name the character that makes instructions invalid, and its position', async () => {
    expect((await patch({ instructions: 'Be\n\u200bbrief' })).body).toEqual(
      invalidField('instructions', 'Contains U+200B (zero width space) at position 4'),
    )
  })

  test.each([
    [{ retention_days: 0 }, 'retention_days', 'Must be at least 1'],
    [{ retention_days: 3651 }, 'retention_days', 'Must be at most 3650'],
    [{ retention_days: 1.5 }, 'retention_days', 'Must be a whole number'],
    [{ greeting: 'x'.repeat(501) }, 'greeting', 'Must have at most 500 characters'],
    [{ name: '' }, 'name', 'Must have at least 1 character'],
    [{ starter_prompts: names(7) }, 'starter_prompts', 'Must have at most 6 items'],
    [
      { origin_groups: [['https://a.example.com', 'https://*.example.com']] },
      'origin_groups.0.1',
      'Wildcards aren’t allowed here. List each origin',
    ],
    [
      { tool_policies: { 'https://*.example.com x': 'ask' } },
      'tool_policies.https://*.example.com x',
      'Wildcards aren’t allowed here. List each origin',
    ],
  ])('say what is wrong with %j', async (body, field, details) => {
    expect((await patch(body)).body).toEqual(invalidField(field, details))
  })

  test('only allow https in production, where there may be no model', async () => {
    const production = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    const admin = await production.tokenFor('admin@demo.test', 'demo')
    expect((await production.request('GET', path, { token: admin })).body.effective_model).toEqual({
      source: 'none',
      provider: null,
      name: null,
      reason: expect.stringMatching(/\S/),
    })
    const plain = { ...small, url: 'http://models.example.com/v1', key }
    for (const [method, at, body, field] of [
      ['PATCH', path, { model: plain }, 'model.url'],
      ['PATCH', path, { model: { ...small, key }, fallback_models: [plain] }, 'fallback_models.0.url'],
      ['POST', `${path}/test`, { model: plain }, 'model.url'],
    ] as const) {
      const { body: refusal } = await production.request(method, at, { token: admin, body })
      expect(refusal).toEqual(invalidField(field, 'Must start with https://'))
    }
    const saved = await production.request('PATCH', path, { token: admin, body: { model: { ...small, key } } })
    expect(saved.status).toBe(200)
  })
})

describe('the saved keys', () => {
  const noneForHost =
    'Enter the API key, because none is saved for this host. A saved key is only sent to the host it was saved for.'
  const severalForHost = 'Enter the API key, because several are saved for this host.'

  test.each([
    'https://evil.test/v1',
    'https://models.example.com.evil.test/v1',
    'https://models.example.co/v1',
    'https://models.example.com:444/v1',
    'http://models.example.com/v1',
    'https://evil.test/https://models.example.com/v1',
  ])('must be entered again for %s', async (url) => {
    const before = (await patch({ model: { ...small, key } })).body
    const model = { ...small, url }
    expect((await patch({ name: 'new', model })).body).toEqual(invalidField('model.key', noneForHost))
    expect((await patch({ fallback_models: [model] })).body).toEqual(invalidField('fallback_models.0.key', noneForHost))
    expect((await app.request('POST', `${path}/test`, { token, body: { model } })).body).toEqual(
      invalidField('model.key', noneForHost),
    )
    expect(await get(), 'the settings are unchanged').toEqual(before)
    expect((await patch({ model: { ...model, key: 'key-of-the-new-host' } })).body.model).toEqual({
      ...model,
      key_last4: 'host',
    })
  })

  test('must be entered if no model is saved', async () => {
    expect((await patch({ model: small })).body).toEqual(invalidField('model.key', noneForHost))
    expect((await app.request('POST', `${path}/test`, { token, body: { model: small } })).body).toEqual(
      invalidField('model.key', noneForHost),
    )
  })

  test('are kept for models on the same host', async () => {
    await patch({ model: { ...small, key } })
    const large = { provider: 'anthropic', url: 'https://models.example.com/other/v1', name: 'large' }
    const { body } = await patch({ model: large, fallback_models: [small] })
    expect(body).toMatchObject({
      model: { ...large, key_last4: '5678' },
      fallback_models: [{ ...small, key_last4: '5678' }],
    })
    expect(await readKeys()).toEqual([key, key])
  })

  test('follow their models when the order changes, and are never mixed up', async () => {
    const large = { ...small, name: 'large' }
    await patch({
      model: { ...small, key },
      fallback_models: [
        { ...large, key: 'key-of-large' },
        { ...claude, key: 'key-of-claude' },
      ],
    })
    await patch({ model: claude, fallback_models: [large, small] })
    expect(await readKeys()).toEqual(['key-of-claude', 'key-of-large', key])
    const third = { ...small, name: 'third' }
    expect((await patch({ model: third })).body).toEqual(invalidField('model.key', severalForHost))
    await patch({ fallback_models: [large] })
    expect(await readKeys()).toEqual(['key-of-claude', 'key-of-large'])
    await patch({ fallback_models: [third] })
    expect(await readKeys()).toEqual(['key-of-claude', 'key-of-large'])
  })

  test('are deleted when the model is removed, which needs the fallback models to go too', async () => {
    await patch({ name: 'Penny', model: { ...small, key }, fallback_models: [{ ...claude, key }] })
    expect((await patch({ model: null })).body).toEqual(
      invalidField('model', 'Remove the fallback models too, with "fallback_models": []'),
    )
    const { body } = await patch({ model: null, fallback_models: [] })
    expect(body).toEqual({ ...defaults(), name: 'Penny', updated_at: timestamp })
    expect(await readRows()).toMatchObject([{ models: [], model_keys_sealed: null }])
    expect((await patch({ model: small })).body).toEqual(invalidField('model.key', noneForHost))
  })

  test('are sealed for their organization, and not in rows, audit events or logs', async () => {
    const answers = [await patch({ model: { ...small, key }, fallback_models: [{ ...claude, key }] }), await get()]
    const rows = await readRows()
    const [row] = rows as { model_keys_sealed: string }[]
    expect(row?.model_keys_sealed).toMatch(/^v1\./)
    const place = (id: string) => `agent_settings.model_keys_sealed:${id}`
    const elsewhere = await app.organization('other')
    expect(() => app.stores.secrets.open(row?.model_keys_sealed ?? '', place(elsewhere))).toThrow(/another place/)
    for (const seen of [JSON.stringify([answers, rows, await auditEvents()]), app.logged()])
      expect(seen).not.toContain(key)
  })

  test('can be replaced and removed after they became unreadable', async () => {
    const spoil = async () =>
      app.service.database.asOrg(
        await app.organization('demo'),
        (sql) => sql`update agent_settings set model_keys_sealed = 'v1.00000000.AAAAAAAAAAAAAAAA.AAAA'`,
      )
    await patch({ model: { ...small, key } })
    await spoil()
    const unusable = {
      source: 'none',
      provider: null,
      name: null,
      reason: expect.stringContaining('can’t be decrypted'),
    }
    expect((await get()).effective_model).toEqual(unusable)
    expect((await app.request('POST', `${path}/test`, { token })).body).toMatchObject({
      success: false,
      source: 'none',
      message: unusable.reason,
    })
    expect((await patch({ name: 'Penny' })).body).toMatchObject({ name: 'Penny', model: small })
    expect((await patch({ model: { ...small, key } })).status).toBe(200)
    expect(await readKeys()).toEqual([key])
    await spoil()
    expect((await patch({ model: null })).body.model).toBeNull()
  })

  test('are sealed again when the secret is rotated', async () => {
    await patch({ model: { ...small, key } })
    const both = createSecrets(['a-secret-that-came-later-0123456789', testSecret])
    const id = await app.organization('demo')
    await resealColumns({ ...app.stores, secrets: both }, [id])
    const [row] = (await readRows()) as { model_keys_sealed: string }[]
    expect(both.isCurrent(row?.model_keys_sealed ?? '')).toBe(true)
    expect(both.open(row?.model_keys_sealed ?? '', `agent_settings.model_keys_sealed:${id}`)).toBe(
      JSON.stringify([key]),
    )
  })

  async function readKeys(): Promise<string[]> {
    const id = await app.organization('demo')
    const [row] = (await readRows()) as { model_keys_sealed: string }[]
    return JSON.parse(app.stores.secrets.open(row?.model_keys_sealed ?? '', `agent_settings.model_keys_sealed:${id}`))
  }
})

test('every change writes an audit event with the changed fields and models, and a refused one writes none', async () => {
  const id = await app.organization('demo')
  const before = (await auditEvents()).length
  await patch({ name: 'Penny', greeting: '', instructions: 'Be brief.' })
  await patch({ model: { ...small, key } })
  await patch({ model: { ...small, url: 'https://evil.test/v1' } })
  await patch({ name: 'Penny', fallback_models: [{ ...small, name: 'large' }] })
  await patch({ model: null, fallback_models: [] })
  await patch(rules)
  await patch({ tool_policies: { 'crm.search': 'never', add_to_cart: 'ask' }, are_contents_visible: false })
  const large = { ...small, name: 'large' }
  expect((await auditEvents()).slice(before)).toEqual(
    [
      { changed: ['name', 'instructions'] },
      { changed: ['model'], models: [small], new_keys: ['model'] },
      { changed: ['fallback_models'], models: [small, large] },
      { changed: ['model', 'fallback_models'], models: [] },
      { changed: expect.arrayContaining(Object.keys(rules)), ...rules },
      {
        changed: expect.arrayContaining(['tool_policies', 'are_contents_visible']),
        are_contents_visible: false,
        tool_policies: { 'crm.search': 'never', 'https://shop.example.com add_to_cart': null },
      },
    ].map((data) => ({ actor: 'admin@demo.test', action: 'agent.config_updated', target: id, data })),
  )
})

async function auditEvents() {
  return app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`select actor, action, target, data from audit_events order by sequence`,
  )
}
