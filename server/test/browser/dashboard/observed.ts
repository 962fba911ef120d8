import { saveFeedback } from '../../../src/agent/threads/feedback.ts'
import { countMessage } from '../../../src/agent/threads/threads.ts'
import type { ToolUser } from '../../../src/kernel/foundation/tool-user.ts'
import { newId } from '../../../src/kernel/lib/ids.ts'
import type { StoredCall } from '../../../src/tools/call-records/records.ts'
import { addExchange, startThread } from '../../conversation-rows.ts'
import type { TestService } from '../../harness.ts'
import { asOrg } from '../../sample-helpers.ts'

/** What the pages of the group “Observe” show, written as rows. */

const shop = {
  kind: 'page',
  name: 'add_to_cart',
  origin: 'https://shop.demo.test',
  source_id: newId(),
  title: 'Shop',
} as const
const crm = { kind: 'connector', name: 'crm.find_order', origin: 'https://crm.demo.test', connector: 'crm' } as const

export const hostile = '<img src=x onerror="document.title=1">'

export async function showContents(app: TestService, are_contents_visible: boolean): Promise<void> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  await app.request('PATCH', '/agent/config', { token, body: { are_contents_visible } })
}

export const addUser = (app: TestService, email: string, externalId: string = email): Promise<string> =>
  asOrg(app, 'demo', async (sql) => {
    const id = newId()
    await sql`
      insert into end_users (organization_id, id, external_id, email, metadata)
      values (current_organization(), ${id}, ${externalId}, ${email}, '{"name":"Ada Example","groups":["staff"]}')`
    return id
  })

/** A thread with an answer that took two steps, and one that failed. */
export const addThread = (app: TestService, endUserId: string | null, title: string) =>
  asOrg(app, 'demo', async (sql) => {
    const now = Date.now()
    const at = (second: number) => new Date(now - 600_000 + second * 1_000).toISOString()
    const id = await startThread(sql, { endUserId, siteId: null })
    const { runId } = await addExchange(
      sql,
      id,
      { text: `Where is my order? ${hostile}`, at: at(0) },
      {
        at: at(1),
        steps: [
          {
            text: 'Let me look that up.',
            calls: [
              {
                name: 'crm_find_order',
                tool: crm,
                args: { order: 4711 },
                decision: 'not_needed',
                result: '{"status":"shipped"}',
                dispatched_at: at(3),
                ended_at: at(4),
              },
              {
                name: 'add_to_cart',
                tool: shop,
                args: { product: 'ink-blue' },
                edited_args: { product: 'ink-black' },
                decision: 'allowed',
                result: 'Added',
                dispatched_at: at(8),
                ended_at: at(9),
              },
            ],
          },
          { text: 'Your order 4711 arrives on Friday.' },
        ],
        modelCalls: [
          {
            model: 'demo-large',
            prompt_tokens: 1_240,
            completion_tokens: 80,
            cost_micro_usd: 4_680,
            started_at: at(1),
          },
        ],
      },
    )
    await sql`
      update model_calls set finish_reason = 'tool-calls', settled_at = ${at(3)}, is_estimated = true where run_id = ${runId}`
    await sql`
      update tool_calls set asked_at = ${at(4)}, decided_at = ${at(7)}, reason = 'This tool may change something.'
      where run_id = ${runId} and position = 1`
    await sql`update runs set worked_ms = 5400 where id = ${runId}`
    await addExchange(
      sql,
      id,
      { text: 'Cancel it', at: at(20) },
      {
        at: at(21),
        status: 'failed',
        error: { code: 'MODEL_FAILED', message: 'The model didn’t answer.' },
        steps: [{ text: '', calls: [{ name: 'cancel_order', tool: shop, state: 'refused' }] }],
      },
    )
    await sql`update threads set title = ${title} where id = ${id}`
    for (let n = 0; n < 4; n += 1) await countMessage(sql, id, { tokens: n === 0 ? 1_320 : 0, at: at(21) })
    return { id, runId }
  })

export async function rate(
  app: TestService,
  { runId, endUserId }: { runId: string; endUserId: string | null },
  rating: 'up' | 'down',
  comment: string | null,
): Promise<void> {
  await asOrg(app, 'demo', (sql) => saveFeedback(sql, { runId, endUserId, visitor: null, rating, comment }))
}

/** A call of the agent on behalf of an end user. */
export async function recordCall(
  app: TestService,
  {
    endUserId,
    email,
    tool,
    args = {},
    ...more
  }: {
    endUserId: string
    email: string
    tool: string
    args?: Record<string, unknown>
  } & Partial<StoredCall>,
): Promise<void> {
  const organizationId = await app.organization('demo')
  const user: ToolUser = {
    organizationId,
    owner: { organization_id: organizationId, identity: `user:${endUserId}` },
    id: endUserId,
    email,
    email_verified: true,
    client_id: undefined,
    client_name: 'Agent',
    member: undefined,
    endUserId,
  }
  await app.service.toolCalls.follow(user, { tool_name: tool, args }, async (record) => {
    Object.assign(record, { outcome: 'succeeded', source_type: 'page', source: 'https://shop.demo.test' }, more)
    return { content: [{ type: 'text', text: 'done' }] }
  })
}
