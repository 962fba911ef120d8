import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import { offer } from '../../../test/page.ts'
import { member } from '../../../test/shop.ts'
import type { RunStatus } from '../runs/run.ts'
import type { Speaker } from '../runs/runs.ts'
import { runLimits } from './work.ts'

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
})
afterAll(() => shop.close())
const none = { day_tokens: null, month_tokens: null, day_cost_micro_usd: null, month_cost_micro_usd: null }
afterEach(() => change('/budgets', { organization: none, end_user_default: none, anonymous: none }))

async function change(path: string, body: object): Promise<void> {
  const { status, body: answer } = await shop.request('PATCH', path, { token: shop.admin, body })
  expect(status, JSON.stringify(answer)).toBe(200)
}

/** Runs of one person in several threads at the same time, and how they ended. */
async function converseAtOnce(
  count: number,
  person = { sub: randomUUID(), email: `${randomUUID()}@demo.test` },
  onFailed = () => {},
) {
  const pages = await Promise.all(Array.from({ length: count }, () => shop.page(person)))
  return Promise.all(
    pages.map(async (page) => {
      const chat = openChat(page)
      const { end } = await chat.rest(await chat.say('Hi'))
      if (end?.status === 'failed') onFailed()
      return end
    }),
  )
}

describe('a budget', () => {
  test('at its edge lets exactly one of two runs through, and says when it resets', async () => {
    // Room for one request: its prompt, and the longest answer that it may get.
    await change('/budgets', { end_user_default: { ...none, day_tokens: Math.round(1.5 * runLimits.outputTokens) } })
    shop.model.requests.length = 0
    // The first run ends after the second one was refused, so that both are there at the same time.
    const { promise: refusal, resolve: onFailed } = Promise.withResolvers<void>()
    shop.model.follow(() => ({ text: ['Hello', refusal] }))
    onTestFinished(() => shop.model.follow(() => ({ text: ['Hello'] })))
    const ends = await converseAtOnce(2, undefined, onFailed)
    expect(ends.map((end) => end?.status).sort()).toEqual(['failed', 'succeeded'])
    const [refused] = ends.filter((end) => end?.status === 'failed')
    expect(refused?.error).toMatchObject({ code: 'BUDGET_REACHED', message: expect.stringMatching(/00:00|UTC|reset/i) })
    expect(shop.model.requests).toHaveLength(1)
  })

  test('is charged with what was used, and not with what was reserved', async () => {
    await change('/budgets', { end_user_default: { ...none, day_tokens: Math.round(1.5 * runLimits.outputTokens) } })
    const person = { sub: randomUUID(), email: 'spender@demo.test' }
    for (let n = 0; n < 3; n += 1) {
      const [end] = await converseAtOnce(1, person)
      expect(end).toMatchObject({ status: 'succeeded', error: null })
    }
  })

  test('of which 80 % are used warns the user once', async () => {
    await change('/budgets', { end_user_default: { ...none, day_tokens: 2 * runLimits.outputTokens } })
    const usage = { prompt_tokens: Math.round(1.7 * runLimits.outputTokens), completion_tokens: 5 }
    shop.model.follow(() => ({ text: ['Hello'], usage }))
    const page = await shop.page({ sub: randomUUID(), email: 'warned@demo.test' })
    const chat = openChat(page)
    await chat.rest(await chat.say('Hi'))
    shop.model.follow(() => ({ text: ['Hello'] }))
    const notices = page
      .unread('chat/chunk')
      .flatMap(({ chunks }) => chunks.filter(({ type }) => type === 'data-notice'))
    expect(notices).toMatchObject([{ data: { text: 'You have used 80 % of your budget for this day.' } }])
  })

  test('in money refuses a model without a price', async () => {
    await change('/budgets', { organization: { ...none, month_cost_micro_usd: 1_000_000 } })
    const [end] = await converseAtOnce(1)
    expect(end?.error).toMatchObject({ code: 'NOT_CONFIGURED', message: expect.stringMatching(/price/) })
  })

  test('that is used up doesn’t make the agent forget the message that it refused', async () => {
    await change('/budgets', { end_user_default: { ...none, day_tokens: 10 } })
    const chat = openChat(await shop.page({ sub: randomUUID(), email: 'patient@demo.test' }))
    const refused = await chat.rest(await chat.say('My order is 1041, please cancel it'))
    expect(refused.end?.error?.code).toBe('BUDGET_REACHED')
    await change('/budgets', { end_user_default: none })
    shop.model.requests.length = 0
    await chat.rest(await chat.say('Try again'))
    const [request] = shop.model.requests
    expect(request?.messages.map(({ role }) => role)).toEqual(['system', 'user', 'user'])
    expect(JSON.stringify(request?.messages[1])).toContain('My order is 1041')
  })

  test('releases what a failed request had reserved', async () => {
    await change('/budgets', { end_user_default: { ...none, day_tokens: Math.round(1.5 * runLimits.outputTokens) } })
    const person = { sub: randomUUID(), email: 'unlucky@demo.test' }
    shop.model.follow(() => ({ status: 400, error: 'No' }))
    const [failed] = await converseAtOnce(1, person)
    expect(failed?.error?.code).toBe('MODEL_FAILED')
    shop.model.follow(() => ({ text: ['Hello'] }))
    const [end] = await converseAtOnce(1, person)
    expect(end?.status).toBe('succeeded')
  })
})

describe('anonymous visitors', () => {
  const secret = () => randomUUID() + randomUUID()
  const visit = async (visitor_secret: string) => openChat(await shop.page(undefined, { hello: { visitor_secret } }))
  const message = () => ({ id: randomUUID(), text: 'Hi' })
  const speak = (visitor: string, address: string): Speaker => ({
    holder: {
      organization_id: shop.demo,
      publishable_key_id: shop.keyId,
      origin: 'https://shop.example',
      site_id: undefined,
      end_user: undefined,
    },
    visitor,
    address,
    is_own_frame: false,
  })

  test('cannot talk to the agent by default', async () => {
    const chat = await visit(secret())
    const refused = await chat.refusal({ type: 'chat/send', thread_id: chat.thread, message: message() })
    expect(refused).toMatchObject({ code: 'SIGN_IN_NEEDED', message: expect.stringMatching(/Sign in/) })
  })

  test('can where the organization allows it, and their threads belong to their secret', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 6 } })
    const mine = secret()
    const chat = await visit(mine)
    expect(await chat.rest(await chat.say('Hi'))).toMatchObject({ texts: ['Hello'], end: { status: 'succeeded' } })
    const again = await visit(mine)
    const { threads } = await again.request({ type: 'chat/threads' }, 'chat/thread-list')
    expect(threads.map(({ id }) => id)).toEqual([chat.thread])
    const other = await visit(secret())
    expect((await other.request({ type: 'chat/threads' }, 'chat/thread-list')).threads).toEqual([])
    const read = { type: 'chat/messages' as const, thread_id: chat.thread }
    expect(await other.refusal(read)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    const signedIn = openChat(await shop.page(member))
    expect(await signedIn.refusal(read)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  test('cannot continue a run once the organization no longer allows it', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 6 } })
    const page = await shop.page(undefined, { hello: { visitor_secret: secret() } })
    await offer(page, 'pay')
    shop.model.follow(() => ({ calls: [{ name: 'pay', args: {} }] }))
    onTestFinished(() => shop.model.follow(() => ({ text: ['Hello'] })))
    const chat = openChat(page)
    const run = await chat.say('Pay')
    const { calls } = await chat.rest(run, 'waiting')
    await change('/agent/config', { anonymous: { is_enabled: false } })
    const asked = shop.model.requests.length
    const decision = chat.request({ type: 'chat/decide', call_id: calls[0]?.id, approved: true }, 'chat/done')
    await expect(decision).rejects.toThrow('SIGN_IN_NEEDED')
    expect(shop.model.requests).toHaveLength(asked)
    await page.settled()
    expect(page.unread('tool/call'), 'nor is the call made').toEqual([])
  })

  test('who sign in can keep the conversation, without its questions and permissions', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 6 } })
    const visitor_secret = secret()
    const chat = await visit(visitor_secret)
    await chat.rest(await chat.say('Hi'))
    const permissions = { allowed_tools: '{hash}', allowed_choices: '[{"from": [], "tools": ["hash"]}]' }
    await shop.service.database.asOrg(
      shop.demo,
      (sql) => sql`
        update threads set allowed_tools = ${permissions.allowed_tools}, allowed_choices = ${permissions.allowed_choices}
        where id = ${chat.thread}`,
    )
    const signedIn = openChat(await shop.page(member), chat.thread)
    const adopt = { type: 'chat/adopt' as const, thread_id: chat.thread }
    expect(await signedIn.refusal({ ...adopt, visitor_secret: secret() })).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    await signedIn.request({ ...adopt, visitor_secret }, 'chat/done')
    const read = { type: 'chat/messages' as const, thread_id: chat.thread }
    expect((await signedIn.request(read, 'chat/message-list')).messages).toHaveLength(2)
    expect(await chat.refusal(read)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    const [thread] = await shop.service.database.asOrg(
      shop.demo,
      (sql) =>
        sql`select origins, allowed_tools, allowed_choices, visitor_fingerprint from threads where id = ${chat.thread}`,
    )
    expect(thread).toEqual({
      origins: ['https://shop.example'],
      allowed_tools: [],
      allowed_choices: [],
      visitor_fingerprint: null,
    })
  })

  test('can give a conversation to one user only', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 6 } })
    const visitor_secret = secret()
    const chat = await visit(visitor_secret)
    await chat.rest(await chat.say('Hi'))
    const users = await Promise.all(['one', 'two'].map(async (sub) => openChat(await shop.page({ sub }))))
    const adopt = { type: 'chat/adopt' as const, thread_id: chat.thread, visitor_secret }
    const { asOrg } = shop.service.database
    // Each in a transaction of its own, because PostgreSQL keeps what a transaction has read of this view.
    const waiting = () =>
      asOrg(
        shop.demo,
        (sql) => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
    // Both ask before either can have the thread.
    const adopting = await asOrg(shop.demo, async (sql) => {
      await sql`select from threads where id = ${chat.thread} for no key update`
      const requests = users.map((user) => user.request(adopt, 'chat/done'))
      await expect.poll(waiting).toHaveLength(2)
      return { results: Promise.allSettled(requests) }
    })
    const results = await adopting.results
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { message: expect.stringMatching(/^RESOURCE_NOT_FOUND/) },
    })
  })

  test('need a secret', async () => {
    const chat = openChat(await shop.page(undefined))
    const refused = await chat.refusal({ type: 'chat/send', thread_id: chat.thread, message: message() })
    expect(refused).toMatchObject({ code: 'VISITOR_SECRET_NEEDED' })
  })

  test('who write too often are asked to wait', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 1 } })
    const chat = await visit(secret())
    await chat.rest(await chat.say('Hi'))
    const refused = await chat.refusal({ type: 'chat/send', thread_id: chat.thread, message: message() })
    expect(refused).toMatchObject({ code: 'TOO_MANY_REQUESTS', retry_after_ms: 60_000 })
  })

  test('of one key, a hundred at a time, cannot spend more than its cap', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 60 } })
    // Room for two requests: their prompts, and the longest answers that they may get.
    const cap = 3 * runLimits.outputTokens
    await change('/budgets', { anonymous: { ...none, day_tokens: cap } })
    // The answers end after all others were refused, so that all hundred are there at the same time.
    const { promise: refusals, resolve: onAllRefused } = Promise.withResolvers<void>()
    shop.model.follow(() => ({ text: ['Hello', refusals] }))
    onTestFinished(() => shop.model.follow(() => ({ text: ['Hello'] })))
    const before = await spent()
    let refused = 0

    async function converse(n: number): Promise<{ end: Promise<RunStatus> }> {
      const speaker = speak(`visitor ${n}`, `192.0.2.${n}`)
      const thread_id = randomUUID()
      await shop.service.runs.send(speaker, { ...message(), thread_id, page: null, client: null })
      const { promise, resolve } = Promise.withResolvers<RunStatus>()
      const viewer = { chunks: () => undefined, rested: ({ status }: { status: RunStatus }) => resolve(status) }
      const { end } = await shop.service.runs.watch(speaker, thread_id, viewer)
      return {
        end: promise.then((status) => {
          end()
          if (status === 'failed') refused += 1
          if (refused === 98) onAllRefused()
          return status
        }),
      }
    }

    const numbers = Array.from({ length: 100 }, (_, n) => n).values()
    const runs: Promise<RunStatus>[] = []
    const speakInTurn = async () => {
      for (const n of numbers) runs.push((await converse(n)).end)
    }
    // As many as there are connections to the database. On a slow machine, more would wait too long for one.
    await Promise.all(Array.from({ length: 10 }, speakInTurn))
    expect(Object.groupBy(await Promise.all(runs), (status) => status)).toMatchObject({
      succeeded: { length: 2 },
      failed: { length: 98 },
    })
    expect((await spent()) - before).toBeLessThanOrEqual(cap)
  })

  test('from one address cannot use up what others may spend, whatever secrets they invent', async () => {
    await change('/agent/config', { anonymous: { is_enabled: true, runs_per_minute: 60 } })
    // Room for one request at a time.
    const share = Math.round(1.5 * runLimits.outputTokens)
    const shares = { day_tokens_per_address: share, day_tokens_per_visitor: null, day_tokens_per_key: null }
    await change('/budgets', { anonymous_shares: shares })
    onTestFinished(() => change('/budgets', { anonymous_shares: { ...shares, day_tokens_per_address: null } }))
    const usage = { prompt_tokens: share - 5, completion_tokens: 5 }
    shop.model.follow(() => ({ text: ['Hello'], usage }))
    onTestFinished(() => shop.model.follow(() => ({ text: ['Hello'] })))

    /** How a run of a new visitor ends. */
    async function converseFrom(address: string) {
      const speaker = speak(secret(), address)
      const thread_id = randomUUID()
      await shop.service.runs.send(speaker, { ...message(), thread_id, page: null, client: null })
      const { promise, resolve } = Promise.withResolvers<unknown>()
      const { end } = await shop.service.runs.watch(speaker, thread_id, { chunks: () => undefined, rested: resolve })
      return promise.finally(end)
    }

    expect(await converseFrom('198.51.100.1')).toMatchObject({ status: 'succeeded' })
    expect(await converseFrom('198.51.100.1')).toMatchObject({
      status: 'failed',
      error: { code: 'BUDGET_REACHED', message: expect.stringMatching(/^Visitors from your network .* UTC\.$/) },
    })
    expect(await converseFrom('198.51.100.2')).toMatchObject({ status: 'succeeded' })
  })

  const spent = async () => {
    const [sum] = await shop.service.database.asOrg(
      shop.demo,
      (sql) => sql<{ tokens: number }>`
        select coalesce(sum(prompt_tokens + completion_tokens), 0) as tokens from usage_events
        where end_user_id is null`,
    )
    return sum?.tokens ?? 0
  }
})

test('a request that was interrupted is never charged as more than was asked for', async () => {
  // Each character is several tokens.
  const text = '𒀀𒁀'.repeat(runLimits.outputTokens)
  shop.model.follow(() => ({ text: [text], ending: 'stall' }))
  const chat = openChat(await shop.page(member))
  const run = await chat.say('Hi')
  const { database } = shop.service
  const saved = () => database.asOrg(shop.demo, (sql) => sql`select from step_texts where run_id = ${run}`)
  await expect.poll(saved).not.toEqual([])
  const [call] = await database.asOrg(
    shop.demo,
    (sql) => sql<{ id: string }>`select id from model_calls where run_id = ${run}`,
  )
  await chat.request({ type: 'chat/delete-thread', thread_id: chat.thread }, 'chat/done')
  const charged = await database.asOrg(
    shop.demo,
    (sql) => sql`select finish_reason, completion_tokens from usage_events where id = ${call?.id}`,
  )
  expect(charged).toEqual([{ finish_reason: 'interrupted', completion_tokens: runLimits.outputTokens }])
})
