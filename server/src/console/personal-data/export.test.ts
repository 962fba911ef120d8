import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addExchange, addMessage, startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { addEndUser, usageRecord } from '../../../test/usage-records.ts'
import { recordUsage } from '../../plans/usage/record.ts'

let app: TestService
let organizationId: string
let admin: string
beforeAll(async () => {
  app = await startTestService()
  organizationId = await app.organization('demo')
  admin = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

interface Line {
  kind: string
  data: Record<string, unknown>
}

const exportOf = async (id: string): Promise<Line[]> => {
  const { status, body } = await app.request('GET', `/end-users/${id}/export`, { token: admin })
  expect(status).toBe(200)
  return body
}

/** An end user with a row in every table that refers to end users, with a word of their own in each text. */
async function addBusyUser(word: string): Promise<string> {
  const { database } = app.service
  const id = await addEndUser(app, organizationId)
  const connector = randomUUID()
  await database.asOrg(organizationId, async (sql) => {
    const thread = await startThread(sql, { endUserId: id, siteId: null })
    await sql`update threads set title = ${`${word} title`}, allowed_tools = '{hash}' where id = ${thread}`
    await addMessage(sql, thread, { text: `${word} question` })
    const calls = [{ args: { id: word }, result: `${word} result` }]
    const { runId } = await addExchange(
      sql,
      thread,
      {},
      { steps: [{ text: `${word} answer`, calls }], modelCalls: [{}] },
    )
    await sql`
      insert into feedback (organization_id, run_id, thread_id, rating, comment)
      values (current_organization(), ${runId}, ${thread}, 'up', ${`${word} comment`})`
    await sql`insert into end_user_budgets (organization_id, end_user_id, day_tokens) values (current_organization(), ${id}, 7)`
    await sql`
      insert into budget_periods (organization_id, scope, subject, period, starts_on, tokens)
      values (current_organization(), 'end_user', ${id}, 'day', current_date, 3)`
    await sql`
      insert into connectors (organization_id, id, name, kind, server_url, scopes, audience_mode, status)
      values (current_organization(), ${connector}, ${word}, 'oauth', 'https://tools.example/mcp', '{}', 'resource', 'active')`
    await sql`
      insert into end_user_consents (organization_id, connector_id, end_user_id)
      values (current_organization(), ${connector}, ${id})`
    await sql`
      insert into tool_call_contents (organization_id, call_id, end_user_id, user_id, arguments, result, at, expires_at)
      select current_organization(), gen_random_uuid(), id, id, ${`"${word} arguments"`}, '1', now(), now() + interval '1 day'
      from end_users where id = ${id}`
  })
  const usage = Array.from({ length: 3 }, () => usageRecord(organizationId, { end_user_id: id }))
  await recordUsage(app.service, usage)
  const user = { organizationId, id, email: `${id}@example.com`, client_id: null, client_name: null }
  await app.service.toolCalls.follow(user as never, { tool_name: `${word}_tool`, args: {} }, async () => 1)
  return id
}

test('the export has everything of the end user, nothing of another one, and no secrets', async () => {
  const [ann] = [await addBusyUser('ann'), await addBusyUser('bob')]
  const lines = await exportOf(ann)
  const kinds = new Set(lines.map(({ kind }) => kind))
  expect([...kinds].toSorted()).toEqual([
    'budget',
    'budget_period',
    'connected_account',
    'feedback',
    'message',
    'profile',
    'thread',
    'tool_call',
    'tool_call_contents',
    'usage_event',
    'usage_totals',
  ])
  expect(lines.filter(({ kind }) => kind === 'usage_event')).toHaveLength(3)
  const text = JSON.stringify(lines)
  for (const part of ['title', 'question', 'answer', 'result', 'comment', 'arguments'])
    expect(text).toContain(`ann ${part}`)
  expect(text).toContain('ann_tool')
  expect(text).toContain('"allowed_tools":["hash"]')
  expect(text).not.toMatch(/bob|sealed|secret|fingerprint/)
})

test('a long history is read page by page, and nothing is left out or repeated', async () => {
  const id = await addEndUser(app, organizationId)
  await app.service.database.asOrg(organizationId, async (sql) => {
    await sql`
      insert into usage_events (organization_id, id, end_user_id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
      select current_organization(), gen_random_uuid(), ${id}, 1, 1, 'm', 'stop', now() from generate_series(1, 1001)`
    await sql`
      insert into threads (organization_id, id, end_user_id)
      select current_organization(), gen_random_uuid(), ${id} from generate_series(1, 205)`
    const thread = await startThread(sql, { endUserId: id, siteId: null })
    for (let n = 0; n < 25; n += 1) await addMessage(sql, thread)
  })
  const lines = await exportOf(id)
  const idsOf = (kind: string) => lines.filter((line) => line.kind === kind).map(({ data }) => data.id)
  for (const [kind, count] of [
    ['usage_event', 1001],
    ['thread', 206],
    ['message', 25],
  ] as const) {
    expect([idsOf(kind).length, new Set(idsOf(kind)).size], kind).toEqual([count, count])
  }
})

test('each export is an audit event', async () => {
  const id = await addEndUser(app, organizationId)
  await exportOf(id)
  const events = await app.service.database.asOrg(
    organizationId,
    (sql) => sql`select actor, action from audit_events where target = ${id}`,
  )
  expect(events).toContainEqual({ actor: 'admin@demo.test', action: 'end_user.exported' })
})

/** Tables that the export reads. */
const exported = [
  'budget_periods',
  'confirmed_browsers',
  'end_user_budgets',
  'end_user_consents',
  'end_users',
  'feedback',
  'messages',
  'runs',
  'step_texts',
  'steps',
  'threads',
  'tool_call_contents',
  'tool_call_records',
  'tool_calls',
  'usage_end_users',
  'usage_events',
]

/** Tables that refer to end users or to members, and why the export leaves them out. */
const reasons = {
  directory_group_members: 'the users of a directory, who aren’t end users',
  frame_keys: 'hashes of keys that only the browser has',
  members: 'members aren’t end users',
  model_calls: 'the usage events have the same',
  former_members: 'members aren’t end users',
  directory_former_addresses: 'the directory is another source',
  usage_end_user_spans: 'sums of the usage events',
  usage_ranked_end_users: 'sums of the usage events',
}

test('every table that refers to end users is exported, or has a reason why not', async () => {
  const columns = ['end_user_id', 'user_id', 'person_id', 'thread_id', 'run_id', 'subject']
  const rows = await app.service.database.asService(
    (sql) => sql<{ name: string }>`
      with recursive related as (
        select 'end_users'::regclass::oid as id
        union
        select c.oid from pg_class c join pg_attribute a on a.attrelid = c.oid
        join pg_attribute o on o.attrelid = c.oid and o.attname = 'organization_id'
        where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and a.attname = any(${columns})
        union
        select f.conrelid from pg_constraint f join related on f.confrelid = related.id
        where f.contype = 'f' and f.conparentid = 0
      )
      select id::regclass::text as name from related
      order by 1`,
  )
  expect(rows.map(({ name }) => name)).toEqual([...exported, ...Object.keys(reasons)].toSorted())
})
