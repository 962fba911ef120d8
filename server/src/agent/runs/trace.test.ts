import { afterAll, beforeAll, expect, test } from 'vitest'
import { addExchange, addRun, startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { asOrg } from '../../../test/sample-helpers.ts'
import type { Sql } from '../../kernel/stores/database.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const start = (write: (sql: Sql, id: string) => Promise<unknown>) =>
  asOrg(app, 'demo', async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await write(sql, id)
    return id
  })
const read = async (path: string) => (await app.request('GET', path, { token })).body

const at = (second: number) => `2026-03-10T12:00:0${second}.000Z`
const shop = { kind: 'page', name: 'add_to_cart', origin: 'https://shop.example', source_id: 'x', title: '' } as const

test('a run has its steps, with model calls and tool calls, and no contents', async () => {
  const id = await start(async (sql, thread) => {
    const { runId } = await addExchange(
      sql,
      thread,
      { text: 'canary question' },
      {
        at: at(0),
        steps: [
          {
            text: 'canary text',
            calls: [{ tool: shop, args: { canary: 1 }, result: 'canary', decision: 'not_needed' }],
          },
          {
            calls: [
              { name: 'gone', state: 'refused' },
              { tool: shop, edited_args: { canary: 2 } },
            ],
          },
        ],
        modelCalls: [{ cost_micro_usd: 40 }],
      },
    )
    await sql`
      update tool_calls set asked_at = ${at(1)}, decided_at = ${at(2)}, decision = 'allowed', governance = 'allowed', reason = 'It may change something.',
        dispatched_at = ${at(3)}, ended_at = ${at(4)}
      where run_id = ${runId} and step = 1 and position = 1`
    // A step that was interrupted has no row.
    await sql`
      insert into model_calls (organization_id, id, run_id, step, purpose, model, reserved_tokens, estimated_prompt_tokens,
                               started_at)
      values (current_organization(), gen_random_uuid(), ${runId}, 2, 'step', 'demo-small', 10, 10, ${at(5)})`
  })
  const body = await read(`/threads/${id}/runs`)
  expect(JSON.stringify(body)).not.toContain('canary')
  const call = { id: expect.any(String), is_edited: false, is_late: false, asked_at: null, decided_at: null }
  const untouched = { ...call, started_at: null, ended_at: null }
  expect(body).toEqual({
    runs: [
      {
        id: expect.any(String),
        status: 'succeeded',
        error_code: null,
        error_message: null,
        worked_ms: 0,
        created_at: at(0),
        ended_at: at(0),
        replaced_at: null,
        steps: [
          {
            step: 0,
            finish_reason: 'stop',
            model_calls: [
              {
                id: expect.any(String),
                purpose: 'step',
                model: 'demo-large',
                prompt_tokens: 100,
                completion_tokens: 20,
                is_estimated: false,
                cost_micro_usd: 40,
                finish_reason: null,
                started_at: at(0),
                ended_at: at(0),
              },
            ],
            tool_calls: [
              {
                ...untouched,
                name: 'add_to_cart',
                source_type: 'page',
                source: 'https://shop.example',
                verdict: 'run',
                reason: null,
                decision: 'not_needed',
                governance: null,
                state: 'succeeded',
              },
            ],
          },
          {
            step: 1,
            finish_reason: 'stop',
            model_calls: [],
            tool_calls: [
              {
                ...untouched,
                name: 'gone',
                source_type: null,
                source: null,
                verdict: 'refuse',
                reason: null,
                decision: null,
                governance: null,
                state: 'refused',
              },
              {
                ...call,
                name: 'add_to_cart',
                source_type: 'page',
                source: 'https://shop.example',
                verdict: 'ask',
                reason: 'It may change something.',
                decision: 'allowed',
                governance: 'allowed',
                state: 'succeeded',
                is_edited: true,
                asked_at: at(1),
                decided_at: at(2),
                started_at: at(3),
                ended_at: at(4),
              },
            ],
          },
          {
            step: 2,
            finish_reason: null,
            model_calls: [
              expect.objectContaining({ model: 'demo-small', prompt_tokens: null, is_estimated: null, ended_at: null }),
            ],
            tool_calls: [],
          },
        ],
      },
    ],
    next_cursor: null,
  })
})

test('a failed run says why', async () => {
  const error = { code: 'MODEL_FAILED', message: 'The model didn’t answer.' }
  const id = await start((sql, thread) => addRun(sql, thread, { status: 'failed', error }))
  const { runs } = await read(`/threads/${id}/runs`)
  expect(runs).toMatchObject([
    { status: 'failed', error_code: 'MODEL_FAILED', error_message: 'The model didn’t answer.' },
  ])
})

test('replaced runs are only listed on request', async () => {
  const id = await start(async (sql, thread) => {
    await addRun(sql, thread, { replacedAt: at(1) })
    await addRun(sql, thread)
  })
  const replaced = async (query: string) =>
    (await read(`/threads/${id}/runs${query}`)).runs.map((run: { replaced_at: string | null }) => run.replaced_at)
  expect(await replaced('')).toEqual([null])
  expect(await replaced('?include_replaced=true')).toEqual([at(1), null])
})

test('pages follow each other, also from a cursor of the messages', async () => {
  const id = await start(async (sql, thread) => {
    for (let n = 0; n < 3; n += 1) await addExchange(sql, thread)
  })
  const { runs: all } = await read(`/threads/${id}/runs`)
  const first = await read(`/threads/${id}/runs?limit=2`)
  const second = await read(`/threads/${id}/runs?limit=2&cursor=${first.next_cursor}`)
  expect([...first.runs, ...second.runs]).toEqual(all)
  expect(second.next_cursor).toBeNull()
  const { next_cursor } = await read(`/threads/${id}/messages?limit=3`)
  expect((await read(`/threads/${id}/runs?cursor=${next_cursor}`)).runs).toEqual(all.slice(1))
  expect((await app.request('GET', `/threads/${id}/runs?cursor=x`, { token })).status).toBe(400)
})
