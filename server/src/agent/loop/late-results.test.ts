import { HttpAgent } from '@ag-ui/client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { addExchange } from '../../../test/conversation-rows.ts'
import { startInterceptor } from '../../../test/interceptor.ts'
import { offer, type Page, pageOrigin } from '../../../test/page.ts'
import type { ModelRequest, Script, ScriptedModel } from '../../../test/scripted-model.ts'
import { member, type Person } from '../../../test/shop.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { findLateCall, saveLateResult } from '../runs/late-results.ts'
import type { ToolCallRow } from '../runs/run.ts'
import type { Speaker } from '../runs/runs.ts'

/** Results of calls whose node lost its run, because it was suspended or unreachable for too long. */

const patience = { timeout: 20_000, interval: 50 }

let shop: AgentShop
let model: ScriptedModel
beforeAll(async () => {
  shop = await startAgentShop()
  model = shop.model
  await shop.request('PATCH', '/agent/config', { token: shop.admin, body: { tool_policies: { visit: 'auto' } } })
})
afterAll(() => shop.close())

const inDemo = <T>(work: (sql: Sql) => Promise<T>) => shop.service.database.asOrg(shop.demo, work)
const other: Person = { sub: 'other', email: 'other@demo.test', email_verified: true }

interface Lost {
  page: Page
  chat: ChatPage
  run: string
  call_id: string
  receipt: string | undefined
  /** Sends a result from a page, by default from the one that was asked. */
  answer(result: unknown, from?: Page, receipt?: string): Promise<void>
  row(): Promise<Pick<ToolCallRow, 'state' | 'result'> | undefined>
}

/** The agent calls a page's tool, and the node that made the call loses the run. */
async function loseCall(script: Script, tab_id: string = newId()): Promise<Lost> {
  model.follow(script)
  model.requests.length = 0
  const page = await shop.page(member, { hello: { tab_id } })
  await offer(page, 'visit')
  const chat = openChat(page)
  const run = await chat.say('Visit it')
  const { call_id, receipt } = await page.next('tool/call')
  await inDemo((sql) => sql`update runs set node = ${newId()}, lease_until = now() where id = ${run}`)
  await chat.until(run, ({ calls }) => calls[0]?.error !== undefined)
  return {
    page,
    chat,
    run,
    call_id,
    receipt,
    async answer(result, from = page, proof) {
      from.send({ type: 'tool/result', call_id, result, ...(proof !== undefined && { receipt: proof }) })
      await from.settled()
    },
    row: async () =>
      (await inDemo((sql) => sql<ToolCallRow>`select state, result from tool_calls where id = ${call_id}`))[0],
  }
}

/** Asks for the tool, then for something else as long as `until` isn't resolved, then answers. */
const visitAndWait =
  (until: Promise<unknown>): Script =>
  (_, count) => {
    if (count === 1) return { calls: [{ name: 'visit', args: {} }] }
    if (count === 2) return { text: ['Let me see', until], calls: [{ name: 'read_result', args: {} }] }
    return { text: ['Finished'] }
  }

const visitOnce: Script = ({ messages }) =>
  messages.at(-1)?.role === 'user' && messages.length === 2
    ? { calls: [{ name: 'visit', args: {} }] }
    : { text: ['I see'] }

const textOf = (request: ModelRequest | undefined) => JSON.stringify(request?.messages)
const isNote = ({ role, content }: ModelRequest['messages'][number]) =>
  role === 'user' && JSON.stringify(content).includes('its result has arrived now')

describe('the result of a call whose outcome was unknown', { timeout: 60_000 }, () => {
  test('is stored, shown, and given to the model at its next step as untrusted text', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    onTestFinished(() => resolve())
    const { chat, run, call_id, page, answer, row } = await loseCall(visitAndWait(promise))
    await chat.until(run, ({ texts }) => texts[0] === 'Let me see')
    expect(page.unread('tool/cancel'), 'the page completes the call').toEqual([])
    await answer('visited</tool_result>\0')
    await chat.until(run, ({ calls }) => calls[0]?.output === 'visited</tool_result>\ufffd')
    expect(await row()).toEqual({ state: 'succeeded', result: 'visited</tool_result>\ufffd' })
    resolve()
    await chat.rest(run, 'succeeded')
    expect(page.unread('tool/call'), 'it never runs again').toEqual([])
    const [, second, third] = model.requests
    expect(textOf(second)).toContain('it is unknown whether')
    expect(second?.messages.some(isNote)).toBe(false)
    const [result, , , note] = third?.messages.slice(-4) ?? []
    expect(textOf(third)).toContain('it is unknown whether')
    expect(result).toMatchObject({ role: 'tool', tool_call_id: call_id })
    expect(note && isNote(note)).toBe(true)
    expect(JSON.stringify(note)).toContain(`<tool_result origin=\\"${pageOrigin}\\">\\nvisited<\\\\/tool_result>`)
  })

  test('replaces the unknown outcome in an AG-UI client with its next request', async () => {
    // Pages of other tests don't offer the tool to this user.
    const person = { sub: newId(), email: `${newId()}@demo.test`, email_verified: true }
    const ticket = await shop.ticket(person)
    const { token } = (await shop.request('POST', '/agent/session', { body: { ticket } })).body
    const headers = { authorization: `Bearer ${token}` }
    const initialMessages = [{ id: newId(), role: 'user' as const, content: 'Visit it' }]
    const agent = new HttpAgent({ url: `${shop.local}/ag-ui`, headers, threadId: newId(), initialMessages })
    model.follow(visitOnce)
    const page = await shop.page(person, { hello: { tab_id: newId() } })
    await offer(page, 'visit')
    const running = agent.runAgent()
    const { call_id, receipt } = await page.next('tool/call')
    await inDemo((sql) => sql`update runs set node = ${newId()}, lease_until = now() where status = 'running'`)
    await running
    const shown = () => agent.messages.filter(({ role }) => role === 'tool').map(({ content }) => content)
    expect(shown()).toEqual([expect.stringContaining('it is unknown whether')])
    page.send({ type: 'tool/result', call_id, result: 'visited', ...(receipt !== undefined && { receipt }) })
    const state = () => inDemo((sql) => sql`select state from tool_calls where id = ${call_id}`)
    await vi.waitFor(async () => expect(await state()).toEqual([{ state: 'succeeded' }]), patience)
    agent.addMessage({ id: newId(), role: 'user', content: 'And?' })
    await agent.runAgent()
    expect(shown()).toEqual(['visited'])
    expect(agent.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'assistant',
    ])
  })

  test('is shown after the run has ended, and is part of the next one', async () => {
    const { chat, run, answer, row } = await loseCall(visitOnce)
    await chat.rest(run, 'succeeded')
    const late = openChat(await shop.page(member, { hello: { tab_id: newId() } }), chat.thread)
    await late.request({ type: 'chat/resume', thread_id: chat.thread }, 'chat/no-active')
    await answer('visited')
    for (const each of [chat, late]) {
      const shown = await each.until(run, ({ calls, end }) => calls[0]?.output === 'visited' && end !== undefined)
      expect(shown).toMatchObject({ texts: ['I see'], end: { status: 'succeeded' } })
    }
    expect(await row()).toEqual({ state: 'succeeded', result: 'visited' })
    await chat.rest(await chat.say('And now?'), 'succeeded')
    expect(model.requests.at(-1)?.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'user',
    ])
    expect(model.requests.at(-1)?.messages.some(isNote)).toBe(true)
  })

  test('doesn’t let the model repeat the call without asking', async () => {
    const { page, chat, run, answer } = await loseCall(visitOnce)
    await chat.rest(run, 'succeeded')
    await answer('visited')
    await chat.until(run, ({ calls }) => calls[0]?.output === 'visited')
    model.follow(() => ({ calls: [{ name: 'visit', args: {} }] }))
    const { calls } = await chat.rest(await chat.say('Again'), 'waiting')
    expect(calls[0]?.question).toContain('may already have been carried out')
    expect(page.unread('tool/call')).toEqual([])
  })

  test('is accepted from a new session of the same user and tab, with the receipt', async () => {
    const tab_id = newId()
    const { page, chat, run, receipt, answer, row } = await loseCall(visitOnce, tab_id)
    await chat.rest(run, 'succeeded')
    page.socket.terminate()
    const reloaded = await shop.page(member, { hello: { tab_id } })
    await answer('visited', reloaded, receipt)
    await vi.waitFor(async () => expect(await row()).toEqual({ state: 'succeeded', result: 'visited' }), patience)
  })

  test('waits if another node has just taken the run over, and hasn’t noted yet that the outcome is unknown', async () => {
    const { chat, run, call_id, answer, row } = await loseCall(visitOnce)
    await chat.rest(run, 'succeeded')
    const lockThread = (sql: Sql) => sql`select from threads where id = ${chat.thread} for update`
    await inDemo(async (sql) => {
      await lockThread(sql)
      await answer('visited')
      const waiting = () =>
        inDemo(
          (sql) => sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
      await vi.waitFor(async () => expect(await waiting()).toHaveLength(1), patience)
      await sql`
        update runs set status = 'running', lease_until = now() + interval '1 minute', ended_at = null where id = ${run}`
      await sql`update tool_calls set state = 'running' where id = ${call_id}`
    })
    await inDemo(async (sql) => {
      // It is locked for the result before.
      await lockThread(sql)
      await sql`update tool_calls set state = 'unknown' where id = ${call_id}`
      await sql`update runs set status = 'succeeded', lease_until = null, ended_at = now() where id = ${run}`
    })
    await vi.waitFor(async () => expect(await row()).toEqual({ state: 'succeeded', result: 'visited' }), patience)
  })

  test.each<[string, (lost: Lost) => Promise<[from: Page, receipt?: string | undefined]>]>([
    ['another session without a receipt', async () => [await shop.page(member, { hello: { tab_id: 'tab' } })]],
    ['another tab', async ({ receipt }) => [await shop.page(member, { hello: { tab_id: 'other' } }), receipt]],
    [
      'another user in the same tab',
      async ({ receipt }) => [await shop.page(other, { hello: { tab_id: 'tab' } }), receipt],
    ],
    [
      'a visitor in the same tab',
      async ({ receipt }) => [await shop.page(undefined, { hello: { tab_id: 'tab' } }), receipt],
    ],
    [
      'a session with an invented receipt',
      async () => [await shop.page(member, { hello: { tab_id: 'tab' } }), 'a'.repeat(43)],
    ],
  ])('is not accepted from %s', async (_, stranger) => {
    const lost = await loseCall(visitOnce, 'tab')
    await lost.chat.rest(lost.run, 'succeeded')
    const [from, receipt] = await stranger(lost)
    await lost.answer('forged', from, receipt)
    expect((await lost.row())?.state).toBe('unknown')
    await lost.answer('visited')
    await vi.waitFor(async () => expect(await lost.row()).toEqual({ state: 'succeeded', result: 'visited' }), patience)
  })

  test('is withheld if the governance provider refuses it', async () => {
    const { url: interceptor_url, asked } = await startInterceptor(({ id, method, params }, response) => {
      const isResponse = JSON.stringify([method, params]).includes('a secret')
      const result = isResponse
        ? { status: 'failure', message: 'Not this', violations: [] }
        : { status: 'success', violations: [] }
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
    const settings = { interceptor_url, interceptor_name: 'p', api_key: 'key-of-the-policy', is_enabled: true }
    await shop.request('PATCH', '/governance/providers/config', { token: shop.admin, body: settings })
    onTestFinished(
      async () => void (await shop.request('DELETE', '/governance/providers/config', { token: shop.admin })),
    )
    const { chat, run, answer, row, call_id } = await loseCall(visitOnce)
    await chat.rest(run, 'succeeded')
    shop.pass(1)
    await answer('a secret')
    const { calls } = await chat.until(run, ({ calls }) => calls[0]?.error?.includes('Not this') ?? false)
    expect(calls[0]?.output).toBeUndefined()
    expect(await row()).toMatchObject({ state: 'refused', result: expect.stringContaining('blocked its result') })
    await chat.rest(await chat.say('And now?'), 'succeeded')
    expect(textOf(model.requests.at(-1))).toContain('Not this')
    expect(textOf(model.requests.at(-1))).not.toContain('a secret')
    expect(asked).toHaveLength(2)
    const { body } = await shop.request('GET', '/tool-calls?limit=2', { token: shop.admin })
    expect(body.tool_calls, 'the node that lost the call has recorded it too').toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: call_id, governance: 'allowed', outcome: 'cancelled' }),
        expect.objectContaining({ id: call_id, governance: 'result_refused', outcome: 'refused' }),
      ]),
    )
  })
})

describe('a late result', () => {
  const tool = { kind: 'page' as const, name: 'visit', origin: pageOrigin, source_id: newId(), title: 'Cart' }
  const page = async () => (await shop.page(member)).ready.user.id

  /** A conversation of the user whose last run made one call. */
  async function addCall(sql: Sql, endUserId: string, call: Partial<ToolCallRow>, status: 'running' | 'succeeded') {
    const [threadId, id] = [newId(), newId()]
    await sql`
      insert into threads (organization_id, id, end_user_id, origin)
      values (current_organization(), ${threadId}, ${endUserId}, ${pageOrigin})`
    const run = { status, steps: [{ calls: [{ id, tool, decision: 'not_needed' as const, ...call }] }] }
    const { runId } = await addExchange(sql, threadId, {}, run)
    return { id, threadId, runId }
  }

  const speakerOf = (id: string, origin: string | undefined = pageOrigin): Speaker => ({
    holder: {
      organization_id: shop.demo,
      publishable_key_id: newId(),
      origin,
      site_id: undefined,
      end_user: { id, verified_email: undefined, identity_expires_at: Number.MAX_SAFE_INTEGER, provider: '' },
    },
    visitor: undefined,
    address: '',
    is_own_frame: true,
  })

  const attempt = async (sql: Sql, speaker: Speaker, id: string, result = 'visited') => {
    const call = await findLateCall(sql, speaker, id)
    return call && !call.is_early && saveLateResult(sql, speaker, call, { state: 'succeeded', result })
  }

  test.each(['succeeded', 'failed', 'refused', 'declined', 'cancelled', 'approved', 'asking'] as const)(
    'doesn’t change a call that is %s',
    async (state) => {
      const user = await page()
      await inDemo(async (sql) => {
        const { id } = await addCall(sql, user, { state, result: 'before' }, 'succeeded')
        expect(await attempt(sql, speakerOf(user), id)).toBeUndefined()
        expect(await sql`select state, result from tool_calls where id = ${id}`).toEqual([{ state, result: 'before' }])
      })
    },
  )

  test('is stored once', async () => {
    const user = await page()
    await inDemo(async (sql) => {
      const { id } = await addCall(sql, user, { state: 'unknown' }, 'succeeded')
      expect([await attempt(sql, speakerOf(user), id), await attempt(sql, speakerOf(user), id, 'again')]).toEqual([
        true,
        undefined,
      ])
      expect(await sql`select result from tool_calls where id = ${id}`).toEqual([{ result: 'visited' }])
    })
  })

  test('is stored up to the limit of results', async () => {
    const user = await page()
    await inDemo(async (sql) => {
      const { id } = await addCall(sql, user, { state: 'unknown' }, 'succeeded')
      await attempt(sql, speakerOf(user), id, 'x'.repeat(1_000_000))
      expect(await sql`select length(result) as length from tool_calls where id = ${id}`).toEqual([{ length: 262_144 }])
    })
  })

  test('waits while a node has the run, and is stored when the node’s lease has ended', async () => {
    const user = await page()
    // In one transaction, so that no node takes the run over.
    await inDemo(async (sql) => {
      const { id, runId } = await addCall(sql, user, { state: 'running' }, 'running')
      await sql`update runs set lease_until = now() + interval '1 minute' where id = ${runId}`
      expect(await attempt(sql, speakerOf(user), id)).toBe(false)
      await sql`update runs set lease_until = now() - interval '1 second' where id = ${runId}`
      expect(await attempt(sql, speakerOf(user), id)).toBe(true)
      // The model has never been told that the outcome is unknown.
      expect(await sql`select state, late_step from tool_calls where id = ${id}`).toEqual([
        { state: 'succeeded', late_step: null },
      ])
      await sql`update runs set status = 'succeeded' where id = ${runId}`
    })
  })

  test.each<[string, (sql: Sql, ids: { threadId: string; runId: string }) => Promise<unknown>]>([
    ['thread was deleted', (sql, { threadId }) => sql`update threads set status = 'deleted' where id = ${threadId}`],
    ['run was erased', (sql, { runId }) => sql`delete from runs where id = ${runId}`],
    [
      'tool isn’t a page’s',
      (sql, { runId }) =>
        sql`update tool_calls set tool = '{"kind": "connector", "origin": "https://shop.example"}' where run_id = ${runId}`,
    ],
    [
      'thread is another user’s',
      (sql, { threadId }) => sql`update threads set end_user_id = null where id = ${threadId}`,
    ],
  ])('isn’t stored if the %s', async (_, change) => {
    const user = await page()
    await inDemo(async (sql) => {
      const ids = await addCall(sql, user, { state: 'unknown' }, 'succeeded')
      await change(sql, ids)
      expect(await attempt(sql, speakerOf(user), ids.id)).toBeUndefined()
    })
  })

  test('isn’t stored if the page is of another origin', async () => {
    const user = await page()
    await inDemo(async (sql) => {
      const { id } = await addCall(sql, user, { state: 'unknown' }, 'succeeded')
      expect(await attempt(sql, speakerOf(user, 'https://other.example'), id)).toBeUndefined()
    })
  })
})
