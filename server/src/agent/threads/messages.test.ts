import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { addExchange, addMessage, addRun, startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { saveFeedback } from './feedback.ts'

let app: TestService
let demo: string
let token: string
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  token = await app.tokenFor('member@demo.test', 'demo')
})
afterAll(() => app.close())
afterEach(() => show(false))

const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
const read = async (path: string) => (await app.request('GET', path, { token })).body
const show = async (are_contents_visible: boolean) => {
  const admin = await app.tokenFor('admin@demo.test', 'demo')
  const body = { are_contents_visible }
  expect((await app.request('PATCH', '/agent/config', { token: admin, body })).status).toBe(200)
}
const contentsRead = (id: string) =>
  asDemo((sql) => sql`select actor, action, data from audit_events where target = ${id} order by sequence`)
const start = (write?: (sql: Sql, id: string) => Promise<unknown>) =>
  asDemo(async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await write?.(sql, id)
    return id
  })

const at = (second: number) => `2026-03-10T12:00:0${second}.000Z`
const page = {
  kind: 'page',
  name: 'add_to_cart',
  origin: 'https://shop.example.com',
  source_id: 'x',
  title: '',
} as const
const connector = {
  kind: 'connector',
  name: 'crm.search',
  origin: 'https://crm.example.com',
  connector: 'crm',
} as const

describe('the messages of a thread', () => {
  /** A thread with everything that a message can have. */
  const startFull = async () => {
    const ids: Record<string, string> = {}
    const visitor = 'fingerprint'
    const id = await start(async (sql, thread) => {
      await sql`
        update threads set visitor_fingerprint = ${visitor}, visitor_expires_at = now() + interval '1 day'
        where id = ${thread}`
      const { messageId, runId } = await addExchange(
        sql,
        thread,
        { text: 'canary question', at: at(1) },
        {
          at: at(2),
          steps: [
            {
              text: 'canary first',
              calls: [
                {
                  name: 'crm_search',
                  tool: connector,
                  args: { canary: 'args' },
                  decision: 'not_needed',
                  dispatched_at: at(3),
                  result: 'canary result',
                  ended_at: at(4),
                },
                {
                  name: 'add_to_cart',
                  tool: page,
                  args: { canary: 'args' },
                  edited_args: { canary: 'edited' },
                  state: 'running',
                  decision: 'allowed',
                  dispatched_at: at(3),
                },
              ],
            },
            { text: '' },
            {
              text: 'canary last',
              calls: [
                { name: 'made_up', state: 'refused', result: 'canary', ended_at: at(5) },
                { tool: { kind: 'built_in', name: 'find_tools' }, state: 'cancelled' },
              ],
            },
          ],
          modelCalls: [
            { purpose: 'summary', model: 'summarizer', started_at: at(5), cost_micro_usd: 5 },
            { model: 'small', prompt_tokens: 1, completion_tokens: 2, cost_micro_usd: 7, started_at: at(2) },
            { model: 'large', prompt_tokens: 10, completion_tokens: 20, cost_micro_usd: null, started_at: at(3) },
            { model: 'small', prompt_tokens: null, completion_tokens: null, started_at: at(2) },
          ],
        },
      )
      await saveFeedback(sql, { runId, endUserId: null, visitor, rating: 'down', comment: 'canary comment' })
      const queued = await addMessage(sql, thread, { text: 'canary queued', at: at(6) })
      const error = { code: 'MODEL_FAILED', message: 'canary' }
      const failed = await addRun(sql, thread, { status: 'failed', error, at: at(7), steps: [] })
      Object.assign(ids, { messageId, runId, queued, failed })
    })
    return { id, ...ids }
  }
  const userMessage = {
    role: 'user',
    replaced_at: null,
    error_code: null,
    tool_calls: [],
    prompt_tokens: null,
    completion_tokens: null,
    cost_micro_usd: null,
    model: null,
    feedback: null,
  }
  const call = {
    id: expect.any(String),
    source_type: null,
    source: null,
    decision: null,
    governance: null,
    is_edited: false,
    started_at: null,
    ended_at: null,
  }
  const describeAll = ({ messageId, runId, queued, failed }: Record<string, string>, isVisible: boolean) => {
    const shown = <T>(value: T) => (isVisible ? value : null)
    return [
      { ...userMessage, id: messageId, created_at: at(1), status: 'sent', text: shown('canary question') },
      {
        id: runId,
        role: 'assistant',
        created_at: at(2),
        replaced_at: null,
        status: 'succeeded',
        error_code: null,
        text: shown('canary first\n\ncanary last'),
        tool_calls: [
          {
            ...call,
            name: 'crm.search',
            source_type: 'connector',
            source: 'crm',
            state: 'succeeded',
            decision: 'not_needed',
            governance: null,
            args: shown({ canary: 'args' }),
            result: shown('canary result'),
            started_at: at(3),
            ended_at: at(4),
          },
          {
            ...call,
            name: 'add_to_cart',
            source_type: 'page',
            source: 'https://shop.example.com',
            state: 'running',
            decision: 'allowed',
            governance: null,
            args: shown({ canary: 'edited' }),
            is_edited: true,
            result: null,
            started_at: at(3),
          },
          {
            ...call,
            name: 'made_up',
            state: 'refused',
            args: shown({}),
            result: shown('canary'),
            ended_at: at(5),
          },
          {
            ...call,
            name: 'find_tools',
            source_type: 'built_in',
            state: 'cancelled',
            args: shown({}),
            result: null,
          },
        ],
        prompt_tokens: 111,
        completion_tokens: 42,
        cost_micro_usd: 12,
        model: 'large',
        feedback: { rating: 'down', comment: shown('canary comment'), updated_at: expect.any(String) },
      },
      { ...userMessage, id: queued, created_at: at(6), status: 'queued', text: shown('canary queued') },
      {
        ...userMessage,
        id: failed,
        role: 'assistant',
        created_at: at(7),
        status: 'failed',
        error_code: 'MODEL_FAILED',
        text: shown(''),
        prompt_tokens: 0,
        completion_tokens: 0,
      },
    ]
  }

  test('have no contents by default, and reading them isn’t an audit event', async () => {
    const { id, ...ids } = await startFull()
    const list = await read(`/threads/${id}/messages`)
    expect(list).toEqual({ messages: describeAll(ids, false), contents_visible: false, next_cursor: null })
    expect(JSON.stringify(list)).not.toContain('canary')
    expect(await contentsRead(id)).toEqual([])
  })

  test('have their contents once an administrator allows it, and each time they are read is an audit event', async () => {
    const { id, ...ids } = await startFull()
    await show(true)
    const list = await read(`/threads/${id}/messages`)
    expect(list).toEqual({ messages: describeAll(ids, true), contents_visible: true, next_cursor: null })
    await read(`/threads/${id}/messages?limit=1`)
    await read(`/threads/${id}/messages?cursor=1000`)
    expect(await contentsRead(id)).toEqual(
      [{ messages: 4 }, { messages: 1 }].map((data) => ({
        actor: 'member@demo.test',
        action: 'thread.contents_read',
        data,
      })),
    )
    await show(false)
    expect((await read(`/threads/${id}/messages`)).contents_visible).toBe(false)
  })

  test('are hidden again by another organization’s default', async () => {
    await show(true)
    const other = await app.organization('other')
    const id = await app.service.database.asOrg(other, async (sql) => {
      const id = await startThread(sql, { endUserId: null, siteId: null })
      await addExchange(sql, id)
      return id
    })
    const answer = await app.request('GET', `/threads/${id}/messages`, {
      token: await app.tokenFor('admin@other.test', 'other'),
    })
    expect(answer.body).toMatchObject({ contents_visible: false, messages: [{ text: null }, { text: null }] })
  })

  test('are paginated in order, without gaps or repetition', async () => {
    const id = await start(async (sql, thread) => {
      for (let n = 0; n < 3; n += 1) await addExchange(sql, thread)
      await addMessage(sql, thread)
    })
    const all = (await read(`/threads/${id}/messages`)).messages.map((message: { id: string }) => message.id)
    expect(all).toHaveLength(7)
    for (const limit of [1, 2, 3, 7, 100]) {
      const found: string[] = []
      let query = `?limit=${limit}`
      for (;;) {
        const { messages, next_cursor } = await read(`/threads/${id}/messages${query}`)
        found.push(...messages.map((message: { id: string }) => message.id))
        if (next_cursor === null) break
        expect(messages).toHaveLength(limit)
        query = `?limit=${limit}&cursor=${next_cursor}`
      }
      expect(found, `limit ${limit}`).toEqual(all)
    }
  })

  test('are left out if they were replaced, unless they are asked for', async () => {
    const replacedAt = at(9)
    const id = await start(async (sql, thread) => {
      await addExchange(sql, thread, { text: 'old', replacedAt }, { replacedAt })
      await addExchange(sql, thread, { text: 'new' }, { replacedAt })
      await addRun(sql, thread)
    })
    const times = async (query: string) =>
      (await read(`/threads/${id}/messages${query}`)).messages.map(
        (message: { role: string; replaced_at: string | null }) => [message.role, message.replaced_at],
      )
    const kept = [
      ['user', null],
      ['assistant', null],
    ]
    expect(await times('')).toEqual(kept)
    expect(await times('?include_replaced=false')).toEqual(kept)
    expect(await times('?include_replaced=true')).toEqual([
      ['user', replacedAt],
      ['assistant', replacedAt],
      ['user', null],
      ['assistant', replacedAt],
      ['assistant', null],
    ])
  })

  test('have results of at most 16,384 characters', async () => {
    const id = await start((sql, thread) =>
      addRun(sql, thread, { steps: [{ calls: [{ result: 'é'.repeat(20_000) }] }] }),
    )
    await show(true)
    const { messages } = await read(`/threads/${id}/messages`)
    expect(messages[0].tool_calls[0].result).toBe('é'.repeat(16_384))
  })

  test('are empty for a thread without messages', async () => {
    expect(await read(`/threads/${await start()}/messages`)).toEqual({
      messages: [],
      contents_visible: false,
      next_cursor: null,
    })
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['cursor=x', 'cursor'],
    ['cursor=-1', 'cursor'],
    ['cursor=99999999999', 'cursor'],
    ['include_replaced=yes', 'include_replaced'],
    ['search=x', 'search'],
  ])('can’t be read with %s', async (query, field) => {
    const { data } = await read(`/threads/${await start()}/messages?${query}`)
    expect(data).toEqual({ code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) })
  })
})
