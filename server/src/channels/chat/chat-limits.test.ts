import { randomUUID } from 'node:crypto'
import { closeCodes } from '@inlay/protocol'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { addLongRuns } from '../../../test/long-runs.ts'
import type { Page } from '../../../test/page.ts'
import { findFreeRun } from '../../agent/loop/run-writes.ts'
import type { Database, Sql } from '../../kernel/stores/database.ts'
import { chatRates } from './chat-limits.ts'

/** What strangers with a public key, and users, can cost others by asking. */

let shop: AgentShop
let database: Database
beforeAll(async () => {
  shop = await startAgentShop(undefined, { INLAY_TRUSTED_PROXIES: '127.0.0.0/8, ::1/128' })
  database = shop.service.database
})
beforeEach(async () => {
  await allowVisitors(true)
  // All buckets are full again.
  shop.pass(150_000)
})
afterAll(() => shop.close())

const allowVisitors = (is_enabled: boolean) =>
  shop.request('PATCH', '/agent/config', { token: shop.admin, body: { anonymous: { is_enabled } } })

const decide = () => ({ type: 'chat/decide', call_id: randomUUID(), approved: true, always: false }) as const
const openVisitor = (visitor_secret: string = randomUUID(), address = '192.0.2.1') =>
  shop.page(undefined, { hello: { visitor_secret }, client: { headers: { 'x-forwarded-for': address } } })

/** A transaction that stays open until the test ends. `isOpen` says whether PostgreSQL has ended it before. */
async function holdOpen(
  begin: (work: (sql: Sql) => Promise<void>) => Promise<void>,
  first: (sql: Sql) => Promise<unknown>,
) {
  const [begun, over] = [Promise.withResolvers<Sql>(), Promise.withResolvers<void>()]
  const ended = begin(async (sql) => {
    await first(sql)
    begun.resolve(sql)
    await over.promise
  }).catch(() => undefined)
  onTestFinished(async () => {
    over.resolve()
    await ended
  })
  const { held } = await begun.promise.then((held) => ({ held }))
  return {
    isOpen: () =>
      held`select`.then(
        () => true,
        () => false,
      ),
  }
}

/** Another request of the user starts a run, and never gets to the end of it. */
const holdRunsOf = (user: string) =>
  holdOpen(
    (work) => database.asOrg(shop.demo, work),
    (sql) => sql`select pg_advisory_xact_lock(hashtextextended('runs:' || current_organization() || ${user}::text, 0))`,
  )

/** Visitors of the shop's organization use all connections that they may have. */
const holdVisitorsShare = () =>
  Promise.all(
    [1, 2].map(() =>
      holdOpen(
        (work) => database.asHolder({ organization_id: shop.demo }, work),
        (sql) => sql`select`,
      ),
    ),
  )

/** Sends requests without waiting for responses, 8 at a time. */
async function flood(page: Page, count: number, request: () => Parameters<ChatPage['refusal']>[0] = decide) {
  const chat = openChat(page)
  const errors: string[] = []
  for (let sent = 0; sent < count; sent += 8) {
    const refused = await Promise.all(Array.from({ length: 8 }, () => chat.refusal(request())))
    errors.push(...refused.map(({ code }) => code))
  }
  return errors
}

test('an answer to a question that isn’t the user’s waits for no lock', async () => {
  const page = await shop.page({ sub: 'impatient' })
  const lock = await holdRunsOf(page.ready.user.id)
  const refusal = openChat(page).refusal(decide())
  expect(await refusal).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  expect(await lock.isOpen()).toBe(true)
})

test('a request about another user’s thread waits for no lock', async () => {
  const owner = openChat(await shop.page({ sub: 'owner' }))
  await owner.rest(await owner.say('Hello'), 'succeeded')
  const lock = await holdOpen(
    (work) => database.asOrg(shop.demo, work),
    (sql) => sql`select from threads where id = ${owner.thread} for update`,
  )
  const other = openChat(await shop.page({ sub: 'other' }))
  for (const type of ['chat/abort', 'chat/delete-thread'] as const) {
    const refusal = other.refusal({ type, thread_id: owner.thread })
    expect(await refusal).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(await lock.isOpen()).toBe(true)
  }
  const message = { id: randomUUID(), text: 'Hello' }
  for (const sent of [{ trigger: 'regenerate-message' }, { message }]) {
    const refusal = other.refusal({ type: 'chat/send', thread_id: owner.thread, ...sent })
    expect(await refusal).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(await lock.isOpen()).toBe(true)
  }
})

test('a message to another user’s thread doesn’t wait for the sender’s other requests', async () => {
  const owner = openChat(await shop.page({ sub: 'owner' }))
  await owner.rest(await owner.say('Hello'), 'succeeded')
  const page = await shop.page({ sub: 'impatient' })
  const lock = await holdRunsOf(page.ready.user.id)
  const message = { id: randomUUID(), text: 'Hello' }
  for (const sent of [{ trigger: 'regenerate-message' }, { message }]) {
    const refusal = openChat(page).refusal({ type: 'chat/send', thread_id: owner.thread, ...sent })
    expect(await refusal).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(await lock.isOpen()).toBe(true)
  }
})

test('the runs of a visitor are counted by an index, and not by reading all threads', async () => {
  const holder = { organization_id: shop.demo, publishable_key_id: '', origin: undefined, site_id: undefined }
  const speaker = { holder: { ...holder, end_user: undefined }, visitor: 'v', address: '', is_own_frame: true }
  const plans: unknown[] = []
  await database.asHolder(speaker.holder, async (sql) => {
    // The tables of a test are so small that reading all of them would be the cheapest.
    await sql`set local enable_seqscan = off`
    const explain = async <Row>(strings: TemplateStringsArray, ...values: unknown[]) => {
      const [first = '', ...rest] = strings
      const texts = Object.assign([`explain ${first}`, ...rest], { raw: strings.raw })
      plans.push(...(await sql(texts, ...values)))
      return sql<Row>(strings, ...values)
    }
    await findFreeRun(Object.assign(explain, { auditKey: sql.auditKey }), speaker)
  })
  const lines = JSON.stringify(plans, null, 2)
  expect(lines).toMatch(/ threads_of_visitor /)
  expect(lines).toMatch(/Index Cond: .*visitor_fingerprint = /)
})

test('visitors whose organization doesn’t allow them are refused before the database', async () => {
  await allowVisitors(false)
  const chat = openChat(await openVisitor())
  const [held] = await holdVisitorsShare()
  const requests = [
    decide(),
    { type: 'chat/messages', thread_id: randomUUID() } as const,
    { type: 'chat/threads', offset: 0 } as const,
    { type: 'chat/resume', thread_id: randomUUID() } as const,
  ]
  for (const request of requests) {
    expect(await chat.refusal(request)).toMatchObject({ code: 'SIGN_IN_NEEDED' })
    expect(await held?.isOpen()).toBe(true)
  }
})

test('while requests of visitors wait for connections, other organizations and the same one’s users and members don’t', async () => {
  const [one, two, user] = [await openVisitor(), await openVisitor(), await shop.page({ sub: 'patient' })]
  const [held] = await holdVisitorsShare()
  for (const page of [one, two]) {
    for (let sent = 0; sent < 8; sent += 1) page.send({ ...decide(), request_id: `${sent}` })
    await page.settled()
  }
  const other = await shop.tokenFor('admin@other.test', 'other')
  const refusal = openChat(user).refusal(decide())
  expect(await refusal).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  expect(await held?.isOpen()).toBe(true)
  for (const token of [shop.admin, other]) {
    const members = shop.request('GET', '/organizations/current/members', { token })
    expect(await members).toMatchObject({ status: 200 })
    expect(await held?.isOpen()).toBe(true)
  }
  expect((await fetch(`${shop.local}/readyz`)).status).toBe(200)
  expect([...one.unread('chat/error'), ...two.unread('chat/error')], 'they still wait').toEqual([])
})

test('a visitor who asks too often is told to wait, and costs neither other visitors nor users anything', async () => {
  const secret = randomUUID()
  const errors = await flood(await openVisitor(secret), chatRates.visitor.atOnce + 80)
  expect(errors.filter((code) => code === 'RESOURCE_NOT_FOUND')).toHaveLength(chatRates.visitor.atOnce)
  const again = openChat(await openVisitor(secret))
  expect(await again.refusal(decide()), 'on another socket').toMatchObject({
    code: 'TOO_MANY_REQUESTS',
    retry_after_ms: 1_000,
  })
  expect(await openChat(await openVisitor()).refusal(decide())).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  expect(await openChat(await shop.page({ sub: 'calm' })).refusal(decide())).toMatchObject({
    code: 'RESOURCE_NOT_FOUND',
  })
  shop.pass(1_000)
  expect(await again.refusal(decide()), 'after a second').toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
})

test('visitors at one address share what it may ask', async () => {
  const { visitor, address } = chatRates
  for (let spent = 0; spent < address.atOnce; spent += visitor.atOnce) await flood(await openVisitor(), visitor.atOnce)
  expect(await openChat(await openVisitor()).refusal(decide())).toMatchObject({ code: 'TOO_MANY_REQUESTS' })
  expect(await openChat(await shop.page({ sub: 'near' })).refusal(decide())).toMatchObject({
    code: 'RESOURCE_NOT_FOUND',
  })
})

test.each([
  ['addresses', 1, (n: number) => `198.51.100.${n}`],
  ['networks of one site', 0.6, (n: number) => `2001:db8:0:${n}::1`],
])(
  'visitors at eight %s use up what a key may ask, and one who is elsewhere doesn’t notice',
  async (_, most, addressOf) => {
    const { visitor, address, key } = chatRates
    // Costs four.
    const read = () => ({ type: 'chat/messages', thread_id: randomUUID() }) as const
    let admitted = 0
    for (let n = 1; n <= key.atOnce / address.atOnce; n += 1) {
      for (let spent = 0; spent < address.atOnce; spent += visitor.atOnce) {
        const errors = await flood(await openVisitor(undefined, addressOf(n)), visitor.atOnce / 4, read)
        admitted += errors.filter((code) => code === 'RESOURCE_NOT_FOUND').length
      }
    }
    expect(4 * admitted).toBeGreaterThan(0.4 * key.atOnce)
    expect(4 * admitted, 'less than all of it').toBeLessThan(most * key.atOnce)
    const greedy = openChat(await openVisitor(undefined, addressOf(8)))
    expect(await greedy.refusal(read())).toMatchObject({ code: 'TOO_MANY_REQUESTS' })
    const quiet = openChat(await openVisitor(undefined, '203.0.113.9'))
    await quiet.rest(await quiet.say('Hello'), 'succeeded')
    for (let sent = 0; sent < 20; sent += 1) {
      expect(await quiet.refusal(read())).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    }
  },
)

test('a user who asks too often is told to wait', async () => {
  const { atOnce } = chatRates.user
  const errors = await flood(await shop.page({ sub: 'eager' }), atOnce + 8)
  expect(errors.slice(atOnce)).toEqual(Array(8).fill('TOO_MANY_REQUESTS'))
})

test.each([
  ['read', 'chat/messages', 'chat/message-list'],
  ['shown', 'chat/resume', 'chat/no-active'],
] as const)('a long conversation costs in proportion to its length when it’s %s', async (_, type, response) => {
  const sub = `reader of ${type}`
  const chat = openChat(await shop.page({ sub }))
  const thread_id = await addLongRuns(shop, { sub, runs: [{ steps: 19, calls: 16, resultLength: 16_000 }] })
  const isAnswered = () =>
    chat.request({ type, thread_id }, response).then(
      () => true,
      () => false,
    )
  let sent = 0
  while (sent < 20 && (await isAnswered())) sent += 1
  const parts = Math.floor((19 * 16 * 16_000) / (128 * 1024))
  expect(sent).toBeGreaterThan(5)
  expect(sent).toBeLessThanOrEqual(Math.ceil(chatRates.user.atOnce / parts))
  expect(await chat.refusal({ type, thread_id })).toMatchObject({ code: 'TOO_MANY_REQUESTS' })
})

test('the socket of a client that doesn’t stop asking is closed', async () => {
  const page = await openVisitor()
  // However slow the server is, it accepts few of these, and refuses the others.
  const closed = page.closed.then(() => true)
  const isClosed = () => Promise.race([closed, page.settled().then(() => false)])
  do for (let sent = 0; sent < 100; sent += 1) page.send({ ...decide(), request_id: `${sent}` })
  while (!(await isClosed()))
  expect(await page.closed).toEqual({ code: closeCodes.overLimit, reason: 'The client sends too many requests' })
})
