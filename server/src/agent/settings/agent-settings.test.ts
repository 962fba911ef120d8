import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { recheckMs } from '../../kernel/stores/changes.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { createAgentSettings } from './agent-settings.ts'

let app: TestService
let demo: string
let token: string
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const patch = (body: unknown) => app.request('PATCH', '/agent/config', { token, body })
const model = {
  provider: 'openai_compatible',
  url: 'https://models.example.com/v1',
  name: 'small',
  key: 'key-of-small',
}
const rename = (name: string) =>
  app.service.database.asOrg(demo, (sql) => sql`update agent_settings set name = ${name}`)

test('organizations without settings have the defaults', async () => {
  const other = await app.organization('other')
  expect(await createAgentSettings(app.service).of(other)).toEqual({
    organization_id: other,
    organization_name: 'Other',
    name: 'Assistant',
    greeting: '',
    starter_prompts: [],
    instructions: '',
    own_models: [],
    tool_policies: {},
    origin_groups: [],
    anonymous: { is_enabled: false, runs_per_minute: 6 },
  })
})

test('the settings have opened keys, and follow changes at once', async () => {
  const settings = createAgentSettings(app.service)
  await settings.of(demo)
  const origins = ['https://a.example.com', 'https://b.example.com']
  await patch({
    name: 'Penny',
    greeting: 'Hi!',
    starter_prompts: ['Hello'],
    instructions: 'Be brief.',
    model,
    fallback_models: [{ ...model, name: 'large', key: 'key-of-large' }],
    tool_policies: { 'crm.search': 'auto', toString: 'never' },
    origin_groups: [origins],
    anonymous: { is_enabled: true, runs_per_minute: 10 },
  })
  expect(await settings.of(demo)).toEqual({
    organization_id: demo,
    organization_name: 'Demo',
    name: 'Penny',
    greeting: 'Hi!',
    starter_prompts: ['Hello'],
    instructions: 'Be brief.',
    own_models: [model, { ...model, name: 'large', key: 'key-of-large' }],
    tool_policies: { 'crm.search': 'auto', toString: 'never' },
    origin_groups: [origins],
    anonymous: { is_enabled: true, runs_per_minute: 10 },
  })
})

test('the settings are cached until they change or 30 seconds have passed', async () => {
  await patch({ name: 'first' })
  const settings = createAgentSettings(app.service)
  const nameOf = async () => (await settings.of(demo)).name
  expect(await nameOf()).toBe('first')
  await rename('second')
  expect(await nameOf()).toBe('first')
  app.service.changes.announce(topics.agentSettings(demo))
  expect(await nameOf()).toBe('second')
  await rename('third')
  app.clock.now += recheckMs
  expect(await nameOf()).toBe('third')
})

test('keys that can’t be decrypted are a problem that says what to do, not an error', async () => {
  await patch({ model })
  await app.service.database.asOrg(
    demo,
    (sql) => sql`update agent_settings set model_keys_sealed = 'v1.00000000.AAAAAAAAAAAAAAAA.AAAA'`,
  )
  const { name, own_models } = await createAgentSettings(app.service).of(demo)
  expect(name).toMatch(/\S/)
  expect(own_models).toEqual({ problem: expect.stringMatching(/can’t be decrypted.*Send each model again/) })
})
