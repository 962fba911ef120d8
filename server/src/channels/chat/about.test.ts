import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { member, type Person, type Shop, startShop } from '../../../test/shop.ts'

let shop: Shop
let token = ''
beforeAll(async () => {
  shop = await startShop()
  token = await shop.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => shop.close())

const configure = (body: unknown) => shop.request('PATCH', '/agent/config', { token, body })

async function ask(person: Person) {
  const chat = openChat(await shop.page(person, { hello: { visitor_secret: randomUUID() } }))
  return chat.request({ type: 'chat/about' }, 'chat/agent')
}

const signInNeeded = { code: 'SIGN_IN_NEEDED', message: 'Sign in to talk to the assistant.' }

test('the panel learns the agent’s name, greeting, starter prompts, skills and number of connectors', async () => {
  await configure({ name: 'Ink', greeting: 'Hello!', starter_prompts: ['Do you have blue ink?'] })
  const add = async (path: string, body: unknown) => {
    const response = await shop.request('POST', path, { token, body })
    expect(response.status, JSON.stringify(response.body)).toBe(200)
    return response.body
  }
  const skill = (name: string) => ({ content: `---\nname: ${name}\ndescription: Knows ${name}\n---\nHelp.` })
  const domains = { returns: 'shop.example', elsewhere: 'other.example' }
  for (const [name, domain] of Object.entries(domains)) {
    const { id } = await add('/organization-skills', skill(name))
    await shop.request('PATCH', `/organization-skills/${id}`, { token, body: { domains: [domain] } })
  }
  const server_url = 'http://127.0.0.1:9/mcp'
  const connector = { kind: 'id_jag', server_url, client_id: 'hub', client_secret: 'a-long-secret' }
  await add('/connectors', { ...connector, name: 'crm' })
  const old = await add('/connectors', { ...connector, name: 'old' })
  await shop.request('PATCH', `/connectors/${old.id}`, { token, body: { status: 'disabled' } })

  const agent = await ask(member)
  expect(agent).toMatchObject({
    name: 'Ink',
    greeting: 'Hello!',
    starter_prompts: ['Do you have blue ink?'],
    connector_count: 1,
    problem: null,
  })
  expect(agent.skills).toContainEqual({ name: 'returns', description: 'Knows returns' })
  expect(agent.skills.map(({ name }) => name)).not.toContain('elsewhere')
})

test('a visitor is asked to sign in where visitors aren’t allowed, and has no connectors where they are', async () => {
  await configure({ anonymous: { is_enabled: false } })
  expect(await ask(undefined)).toMatchObject({ skills: [], connector_count: 0, problem: signInNeeded })
  await configure({ anonymous: { is_enabled: true } })
  const agent = await ask(undefined)
  expect(agent).toMatchObject({ connector_count: 0, problem: null })
  expect(agent.skills.map(({ name }) => name)).toContain('returns')
})

test('without a model that can be used, the panel says that the agent isn’t configured', async () => {
  const model = { provider: 'anthropic', url: 'https://api.anthropic.com/v1', name: 'claude', key: 'sk-12345678' }
  await configure({ model })
  expect(await ask(member)).toMatchObject({ problem: null })
  const demo = await shop.organization('demo')
  await shop.service.database.asOrg(
    demo,
    (sql) => sql`update agent_settings set model_keys_sealed = 'v1.00000000.AAAAAAAAAAAAAAAA.AAAA'`,
  )
  await configure({ name: 'Changed' })
  expect(await ask(member)).toMatchObject({
    name: 'Changed',
    problem: { code: 'NOT_CONFIGURED', message: expect.stringMatching(/administrator/) },
  })
})
