import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request as sendRequest } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { type AgentShop, allowVisitors, startAgentShop } from '../../../test/agent-shop.ts'
import { type EngineProxy, startEngineProxy } from '../../../test/engine-proxy.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { pageOrigin } from '../../../test/page.ts'
import { connectDirectory } from '../../../test/scim.ts'
import type { Person } from '../../../test/shop.ts'
import { newId } from '../../kernel/lib/ids.ts'

const { redisUrl } = inject('engines')

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
  await allowVisitors(shop, 'demo')
})
afterAll(() => shop.close())

/** The model writes a word, and then waits for as long as the test runs. */
beforeEach(() => {
  shop.model.follow(() => ({ text: ['One'], ending: 'stall' }))
})

const asAdmin = (method: string, path: string, body?: object) =>
  shop.request(method, path, { token: shop.admin, ...(body && { body }) })

interface Key {
  id: string
  key: string
}

const makeKey = async (): Promise<Key> =>
  (await asAdmin('POST', '/publishable-keys', { name: 'Shop', allowed_origins: [pageOrigin] })).body

const someone = (): NonNullable<Person> => ({ sub: randomUUID() })

async function sessionFor(ticket: string): Promise<string> {
  const { status, body } = await shop.request('POST', '/agent/session', { body: { ticket } })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.token
}

async function signIn(key: Key, person: Person): Promise<string> {
  return sessionFor((await shop.exchange(person, key.key)).ticket)
}

/** A response that is being streamed. */
interface Open {
  thread: string
  /** The last event, once the server has ended the stream. */
  last: Promise<Record<string, unknown>>
}

/** Resolves when the first text has arrived. */
async function stream(
  token: string,
  { to = shop.local, thread = newId() as string, message = randomUUID() as string } = {},
): Promise<Open> {
  const response = await fetch(`${to}/ag-ui`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      threadId: thread,
      runId: 'run-1',
      messages: [{ id: message, role: 'user', content: 'Hi' }],
      tools: [],
      context: [],
    }),
  })
  const texts = response.body?.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
  let seen = ''
  const read = async (until: string | undefined) => {
    while (until === undefined || !seen.includes(until)) {
      const next = await texts?.next()
      if (!next || next.done) break
      seen += next.value
    }
  }
  await read('TEXT_MESSAGE_CONTENT')
  expect(seen).toContain('TEXT_MESSAGE_CONTENT')
  const last = read(undefined).then(() => JSON.parse(seen.trim().split('\n\n').at(-1)?.replace('data: ', '') ?? ''))
  return { thread, last }
}

const read = <Row>(
  query: (sql: Parameters<Parameters<AgentShop['service']['database']['asOrg']>[1]>[0]) => Promise<Row[]>,
) => shop.service.database.asOrg(shop.demo, query)

/** The thread's run, its model call, and what is still reserved for it. */
async function recordOf(thread: string) {
  const [record] = await read(
    (sql) => sql<Record<string, unknown>>`
      select runs.status, runs.error->>'code' as code, steps.text, model_calls.settled_at is not null as is_settled,
        (select count(*)::int from usage_events where usage_events.id = model_calls.id) as charged
      from runs join steps on steps.run_id = runs.id join model_calls on model_calls.run_id = runs.id
      where thread_id = ${thread}`,
  )
  return record
}

const savedOf = ({ thread }: Open) =>
  read(
    (sql) => sql`
      select step_texts.text from step_texts join runs on step_texts.run_id = runs.id where thread_id = ${thread}`,
  )

const ended = { type: 'RUN_ERROR', code: 'ACCESS_ENDED' }
const endedRun = { status: 'failed', code: 'ACCESS_ENDED', text: 'One', is_settled: true, charged: 1 }

async function expectEnded({ thread, last }: Open): Promise<void> {
  expect(await last).toMatchObject(ended)
  await vi.waitFor(async () => expect(await recordOf(thread)).toEqual(endedRun))
}

/** Prepares a user, and returns their session and the change that ends it. */
type Change = (key: Key) => Promise<{ token: string; change: () => Promise<unknown>; isErased?: boolean }>

const changes: [string, Change][] = [
  [
    'its key is revoked',
    async (key) => ({
      token: await signIn(key, someone()),
      change: () => asAdmin('DELETE', `/publishable-keys/${key.id}`),
    }),
  ],
  [
    'the key of a visitor is revoked',
    async (key) => ({
      token: await signIn(key, undefined),
      change: () => asAdmin('DELETE', `/publishable-keys/${key.id}`),
    }),
  ],
  [
    'its key allows other origins only',
    async (key) => ({
      token: await signIn(key, someone()),
      change: () => asAdmin('PATCH', `/publishable-keys/${key.id}`, { allowed_origins: ['https://other.example'] }),
    }),
  ],
  [
    'its end user is erased',
    async (key) => {
      const person = someone()
      const { ticket, userId } = await shop.exchange(person, key.key)
      const change = () => asAdmin('DELETE', `/end-users/${userId}`)
      return { token: await sessionFor(ticket), change, isErased: true }
    },
  ],
  [
    'a directory deactivates the user',
    async (key) => {
      const email = `${randomUUID()}@demo.test`
      const directory = await connectDirectory(shop)
      const id = await directory.addUser(email)
      const token = await signIn(key, { ...someone(), email, email_verified: true })
      return { token, change: () => directory.deactivate(id) }
    },
  ],
  [
    'its end user is merged with the one they were before',
    async (key) => {
      const [person, former] = [someone(), { issuer: 'https://former.example', subject: randomUUID() as string }]
      const token = await signIn(key, person)
      await read(
        (sql) => sql`
          insert into end_users (organization_id, id, issuer, external_id)
          values (current_organization(), ${newId()}, ${former.issuer}, ${former.subject})`,
      )
      const users = [{ from: former.subject, to: person.sub }]
      const body = { from_issuer: former.issuer, by: 'list', users, is_preview: false }
      return { token, change: () => asAdmin('POST', '/identity-providers/carry-over', body) }
    },
  ],
  [
    'the member who tries the agent in the dashboard is removed',
    async (key) => {
      const as = await shop.tokenFor('member@demo.test', 'demo')
      const { body: preview } = await shop.request('POST', `/publishable-keys/${key.id}/preview`, { token: as })
      const { body } = await shop.request('POST', '/auth/pk-ticket', {
        headers: { origin: shop.url },
        body: { publishable_key: key.key, id_token: preview.token, embedding_origin: shop.url },
      })
      const { body: members } = await asAdmin('GET', '/organizations/current/members')
      const { id } = members.find(({ role }: { role: string }) => role === 'member')
      return {
        token: await sessionFor(body.ticket),
        change: () => asAdmin('DELETE', `/organizations/current/members/${id}`),
      }
    },
  ],
  [
    'visitors may no longer talk to the agent',
    async (key) => {
      onTestFinished(() => allowVisitors(shop, 'demo').then(() => undefined))
      const change = () => asAdmin('PATCH', '/agent/config', { anonymous: { is_enabled: false } })
      return { token: await signIn(key, undefined), change }
    },
  ],
  [
    'another identity provider is trusted',
    async (key) => {
      const token = await signIn(key, someone())
      const change = (allowed_audiences: string[]) =>
        asAdmin('PATCH', '/identity-providers/config', { allowed_audiences })
      onTestFinished(() => change(['shop']).then(() => undefined))
      return { token, change: () => change(['elsewhere']) }
    },
  ],
]

describe('a stream and its run end at once, and what the model used is charged, when', () => {
  test.each(changes)('%s', async (_, prepare) => {
    const { token, change, isErased } = await prepare(await makeKey())
    const open = await stream(token)
    const aborted = shop.model.aborted()
    await change()
    if (isErased) {
      expect(await open.last).toMatchObject(ended)
      expect(await recordOf(open.thread)).toBeUndefined()
    } else await expectEnded(open)
    expect(shop.model.aborted()).toBe(aborted + 1)
  })
})

test('a stream and its run go on when another key, user or setting changes', async () => {
  const { promise: until, resolve: release } = Promise.withResolvers<void>()
  onTestFinished(() => release())
  shop.model.follow(() => ({ text: ['One', until, ' two'] }))
  const key = await makeKey()
  const streams = [await stream(await signIn(key, someone())), await stream(await signIn(key, undefined))]
  const other = await makeKey()
  const { userId } = await shop.exchange(someone(), other.key)
  await asAdmin('DELETE', `/publishable-keys/${other.id}`)
  await asAdmin('DELETE', `/end-users/${userId}`)
  await asAdmin('PATCH', `/publishable-keys/${key.id}`, { name: 'Renamed' })
  await asAdmin('PATCH', '/identity-providers/config', { allowed_domains: ['https://elsewhere.example'] })
  await asAdmin('PATCH', '/agent/config', { greeting: 'Hello' })
  shop.pass(30_000)
  release()
  for (const { last } of streams) expect(await last).toMatchObject({ type: 'RUN_FINISHED' })
})

test('a stream of a run that was started with another key ends alone', async () => {
  const [mine, other] = [await makeKey(), await makeKey()]
  const person = someone()
  const message = randomUUID()
  const started = await stream(await signIn(mine, person), { message })
  const attached = await stream(await signIn(other, person), { thread: started.thread, message })
  await asAdmin('DELETE', `/publishable-keys/${other.id}`)
  expect(await attached.last).toMatchObject(ended)
  expect(await recordOf(started.thread)).toMatchObject({ status: 'running' })
  await asAdmin('DELETE', `/publishable-keys/${mine.id}`)
  await expectEnded(started)
})

test('a stream and its run end within 30 seconds of a change that was never announced', async () => {
  const key = await makeKey()
  const open = await stream(await signIn(key, undefined))
  await read((sql) => sql`update publishable_keys set revoked_at = now() where id = ${key.id}`)
  shop.pass(30_000)
  await expectEnded(open)
})

test('what the model has written stays, also if those who clear up after a user come before the announcement', async () => {
  const key = await makeKey()
  const open = await stream(await signIn(key, someone()))
  await read((sql) => sql`update publishable_keys set revoked_at = now() where id = ${key.id}`)
  await shop.service.runs.endAccess(shop.demo)
  expect(await recordOf(open.thread)).toEqual(endedRun)
})

test('a run whose key is revoked while the run is stored ends before the model is asked', async () => {
  const key = await makeKey()
  const token = await signIn(key, someone())
  const thread = newId()
  const { database, heldAccess } = shop.service
  const { asHolder } = database
  const storing = vi.spyOn(database, 'asHolder').mockImplementation(async (holder, work) => {
    const result = await asHolder(holder, work)
    const [stored] = await read((sql) => sql`select from runs where thread_id = ${thread}`)
    if (!stored) return result
    storing.mockRestore()
    const before = heldAccess.changeCount()
    const looking = vi.spyOn(database, 'asOrg')
    await asAdmin('DELETE', `/publishable-keys/${key.id}`)
    await vi.waitFor(() => expect(heldAccess.changeCount()).toBeGreaterThan(before))
    // Until what was held by then has been looked up, and ended.
    await Promise.allSettled(looking.mock.results.map(({ value }) => value))
    looking.mockRestore()
    return result
  })
  onTestFinished(() => storing.mockRestore())
  const asked = shop.model.requests.length
  const response = await fetch(`${shop.local}/ag-ui`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      threadId: thread,
      runId: 'run-1',
      messages: [{ id: randomUUID(), role: 'user', content: 'Hi' }],
      tools: [],
      context: [],
    }),
  })
  expect(response.status).toBe(401)
  const ended = () =>
    read((sql) => sql`select from runs where thread_id = ${thread} and error->>'code' = 'ACCESS_ENDED'`)
  await vi.waitFor(async () => expect((await ended()).length + shop.model.requests.length).toBeGreaterThan(asked))
  expect(shop.model.requests).toHaveLength(asked)
})

test('a request whose key is revoked while its body is still being sent is refused, and the model isn’t asked', async () => {
  const key = await makeKey()
  const token = await signIn(key, undefined)
  const thread = newId()
  const body = JSON.stringify({
    threadId: thread,
    runId: 'run-1',
    messages: [{ id: randomUUID(), role: 'user', content: 'Hi' }],
    tools: [],
    context: [],
  })
  const sending = sendRequest(`${shop.local}/ag-ui`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'content-length': body.length },
  })
  const answered = once(sending, 'response')
  const asked = shop.model.requests.length
  const opening = vi.spyOn(shop.service.agentSessions, 'open')
  onTestFinished(() => opening.mockRestore())
  sending.write(body.slice(0, 10))
  await vi.waitFor(() => expect(opening).toHaveBeenCalled())
  await asAdmin('DELETE', `/publishable-keys/${key.id}`)
  sending.end(body.slice(10))
  const [response] = await answered
  expect(response.statusCode).toBe(401)
  expect(shop.model.requests).toHaveLength(asked)
})

describe.skipIf(!redisUrl)('on another node, a stream and its run end', { timeout: 120_000 }, () => {
  async function startOther(): Promise<{ other: HttpService; proxy: EngineProxy }> {
    const proxy = await startEngineProxy(redisUrl ?? '')
    const other = await startHttpService({
      MODEL_URL: shop.model.url,
      MODEL_NAME: 'scripted',
      DATABASE_URL: shop.config.databaseUrl ?? '',
      REDIS_URL: proxy.url,
      INLAY_REDIS_PREFIX: shop.config.redisPrefix,
      INLAY_PUBLIC_URL: shop.url,
    })
    onTestFinished(async () => {
      proxy.restore()
      await other.close()
    })
    return { other, proxy }
  }

  test.each([
    ['of a user', someone()],
    ['of a visitor', undefined],
  ])('at once when the key %s is revoked here', async (_, person) => {
    const { other } = await startOther()
    const key = await makeKey()
    const open = await stream(await signIn(key, person), { to: other.local })
    await asAdmin('DELETE', `/publishable-keys/${key.id}`)
    await expectEnded(open)
  })

  test('once the node reconnects to Redis, if the message was lost', async () => {
    const { other, proxy } = await startOther()
    const key = await makeKey()
    const open = await stream(await signIn(key, someone()), { to: other.local })
    proxy.cut()
    await asAdmin('DELETE', `/publishable-keys/${key.id}`)
    proxy.restore()
    await expectEnded(open)
  })

  test.each(changes.filter(([what]) => /its key is revoked|a directory|is merged/.test(what)))(
    'within 30 seconds if the message was lost unnoticed when %s',
    async (_, prepare) => {
      const { other, proxy } = await startOther()
      const { token, change } = await prepare(await makeKey())
      const open = await stream(token, { to: other.local })
      // Another node may end the run, and knows only what is saved.
      await vi.waitFor(async () => expect(await savedOf(open)).toEqual([{ text: 'One' }]), { timeout: 10_000 })
      proxy.mute()
      await change()
      other.clock.now += 30_000
      other.service.runtime.sweep()
      await expectEnded(open)
    },
  )
})
