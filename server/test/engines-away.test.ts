import pg from 'pg'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { startAgentShop } from './agent-shop.ts'
import { openChat } from './chat.ts'
import { startEngineProxy } from './engine-proxy.ts'
import { makeConfig, useTestService } from './harness.ts'
import { member } from './shop.ts'

const { redisUrl } = inject('engines')

test('while Redis is unavailable, every surface returns a 503 with Retry-After, and recovers when Redis returns', async () => {
  const redis = await startEngineProxy(redisUrl as string)
  const app = await useTestService({ REDIS_URL: redis.url })
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { key } = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop' } })).body
  const fresh = await app.tokenFor('member@demo.test', 'demo')
  const post = (path: string, type: string, body: string) =>
    app.fetch(path, { method: 'POST', headers: { 'content-type': type }, body })
  const register = () =>
    post('/oauth/register', 'application/json', JSON.stringify({ redirect_uris: ['https://app.example/done'] }))
  const surfaces = {
    'a token that this node has not seen': () =>
      app.fetch('/api/users/me', { headers: { authorization: `Bearer ${fresh}` } }),
    registration: register,
    'token endpoint': () =>
      post('/oauth/token', 'application/x-www-form-urlencoded', 'grant_type=refresh_token&refresh_token=x&client_id=x'),
  }
  const exchange = () => post('/api/auth/pk-ticket', 'application/json', JSON.stringify({ publishable_key: key }))
  const ask = async () => {
    const answers: Record<string, { status: number; retryAfter: string | null }> = {}
    for (const [name, request] of Object.entries(surfaces)) {
      const { status, headers } = await request()
      answers[name] = { status, retryAfter: headers.get('retry-after') }
    }
    return answers
  }
  redis.cut()
  onTestFinished(() => redis.restore())
  const away = { status: 503, retryAfter: '5' }
  expect(await ask()).toEqual(Object.fromEntries(Object.keys(surfaces).map((name) => [name, away])))
  const { ticket } = (await (await exchange()).json()) as { ticket: string }
  await expect(app.service.tickets.redeem(ticket), 'its use can’t be recorded').rejects.toMatchObject({
    envelope: { status: 503 },
  })
  expect((await app.fetch('/readyz')).status).toBe(503)
  expect((await app.request('GET', '/publishable-keys', { token })).status, 'cached tokens still work').toBe(200)

  redis.restore()
  await vi.waitFor(async () => expect((await app.fetch('/readyz')).status).toBe(200))
  expect(await ask()).toMatchObject({
    'a token that this node has not seen': { status: 200 },
    registration: { status: 201 },
    'token endpoint': { status: 401 },
  })
  expect(await app.service.tickets.redeem(ticket)).toMatchObject({ organization_id: await app.organization('demo') })
})

test('while PostgreSQL is unavailable, every surface that needs it returns a 503 with Retry-After, and recovers', async () => {
  const { config, remove } = await makeConfig({}, 'demo')
  onTestFinished(remove)
  const direct = new URL(config.databaseUrl ?? '')
  const proxy = await startEngineProxy(`unix:${direct.searchParams.get('host')}/.s.PGSQL.${direct.port || 5432}`)
  const app = await useTestService({
    DATABASE_URL: `postgres://${direct.username}@${proxy.host}${direct.pathname}`,
  })
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { key } = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop' } })).body
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const post = (path: string, body: object) => app.fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
  const surfaces = {
    'a read': () => app.fetch('/api/publishable-keys', { headers }),
    'a write': () => post('/api/publishable-keys', { name: 'Another' }),
    'a ticket': () => post('/api/auth/pk-ticket', { publishable_key: key }),
  }
  const ask = async () => {
    const answers: Record<string, unknown> = {}
    for (const [name, request] of Object.entries(surfaces)) {
      const response = await request()
      answers[name] = { status: response.status, retryAfter: response.headers.get('retry-after') }
    }
    return answers
  }
  proxy.cut()
  onTestFinished(() => proxy.restore())
  const away = { status: 503, retryAfter: '5' }
  expect(await ask()).toEqual({ 'a read': away, 'a write': away, 'a ticket': away })
  expect((await app.fetch('/readyz')).status).toBe(503)
  expect((await app.fetch('/healthz')).status, 'the process itself is healthy').toBe(200)

  proxy.restore()
  await vi.waitFor(async () => expect((await app.fetch('/readyz')).status).toBe(200))
  const fine = { status: 200, retryAfter: null }
  expect(await ask()).toEqual({ 'a read': fine, 'a write': fine, 'a ticket': fine })
  const { body } = await app.request('GET', '/publishable-keys', { token })
  expect(body.keys, 'the failed write left nothing behind').toHaveLength(2)
})

/** An agent whose database can fail, in the middle of an answer. */
async function startAnswer() {
  const { config, remove } = await makeConfig({}, 'demo')
  onTestFinished(remove)
  const direct = new URL(config.databaseUrl ?? '')
  const proxy = await startEngineProxy(`unix:${direct.searchParams.get('host')}/.s.PGSQL.${direct.port || 5432}`)
  const rest = Promise.withResolvers<void>()
  const shop = await startAgentShop(
    (_, count) => ({ text: count === 1 ? ['One ', rest.promise, 'two'] : ['One ', 'two ', 'three'] }),
    { DATABASE_URL: `postgres://${direct.username}@${proxy.host}${direct.pathname}` },
  )
  onTestFinished(() => shop.close())
  onTestFinished(() => proxy.restore())
  const page = await shop.page(member)
  const chat = openChat(page)
  const run = await chat.say('Count')
  await chat.until(run, ({ texts }) => texts[0] === 'One ')
  const owner = new pg.Client({ connectionString: config.databaseUrl })
  await owner.connect()
  onTestFinished(() => owner.end())
  await owner.query("select set_config('inlay.organization_id', $1, false)", [shop.demo])
  return { shop, page, chat, run, proxy, owner, release: () => rest.resolve() }
}

/** The run was continued once, and both requests to the model are charged. */
async function expectWholeAnswer({ shop, chat, run, owner }: Awaited<ReturnType<typeof startAnswer>>) {
  expect(await chat.rest(run)).toMatchObject({ texts: ['One two three'], end: { status: 'succeeded' } })
  const { rows: steps } = await owner.query('select text, finish_reason from steps')
  expect(steps).toEqual([{ text: 'One two three', finish_reason: 'stop' }])
  const { rows: charges } = await owner.query(
    'select u.finish_reason, u.is_estimated from usage_events u join model_calls m on m.id = u.id order by m.id',
  )
  expect(charges).toEqual([
    { finish_reason: 'interrupted', is_estimated: true },
    { finish_reason: 'stop', is_estimated: false },
  ])
  expect((await owner.query('select from step_texts')).rows).toEqual([])
  expect((await owner.query('select from budget_periods where reserved_tokens <> 0')).rows).toEqual([])
  expect(shop.model.requests).toHaveLength(2)
}

test('an answer during which PostgreSQL goes away is given again once it is back, on the same socket', async () => {
  const answer = await startAnswer()
  const { shop, page, chat, run, proxy, release } = answer
  proxy.cut()
  release()
  const text = await chat.until(run, ({ texts }) => texts[0] === 'One two')
  expect(text.end, 'nothing is said to be stored that isn’t').toBeUndefined()
  await vi.waitFor(() => expect(shop.logged()).toContain('Could not end a run'))
  expect(page.socket.readyState, 'the user stays connected').toBe(1)
  proxy.restore()
  await expectWholeAnswer(answer)
})

test('an answer during which PostgreSQL’s disk is full is given again once it has room', async () => {
  const answer = await startAnswer()
  const { shop, chat, run, owner, release } = answer
  await owner.query(`
    create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
    create trigger full_disk before insert or update on steps execute function refuse();
    create trigger full_disk before insert or update on step_texts execute function refuse()`)
  release()
  expect((await chat.until(run, ({ texts }) => texts[0] === 'One two')).end).toBeUndefined()
  await vi.waitFor(() => expect(shop.logged()).toContain('Could not end a run'))
  await owner.query('drop trigger full_disk on steps; drop trigger full_disk on step_texts')
  await expectWholeAnswer(answer)
})
