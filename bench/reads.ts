// Measures everything that the dashboard asks for, in an organization with millions of rows.
//
//   node bench/reads.ts [--rounds=7] [--scale=1]
//
// The server is started as in load.ts. SQL fills an organization with 1 000 000 end users, 400 000 threads, 5 000 000
// usage events of 90 days, 100 000 tool calls and 20 000 audit events, or with less at a smaller --scale. The sums are
// made from the events. Rankings of end users are kept before they're measured. Each request is sent once, and then
// `rounds` times, one after the other. Its median is printed at once, and at the end the table with the slowest first,
// and what misses the goal of 50 ms or failed. A list is also read at its end, with the cursor that leads there.

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { options, quantile, startInlay, stopAll } from './load.ts'

const rounds = Number(options.rounds)
const scale = Number(options.scale)
const sizes = {
  endUsers: 1_000_000 * scale,
  threads: 400_000 * scale,
  events: 5_000_000 * scale,
  toolCalls: 100_000 * scale,
  auditEvents: 20_000 * scale,
}
/** An end user's events of a day, as in a conversation. */
const eventsAtOnce = 5
const days = 90

const { port, dataDir, token } = await startInlay('reads')

const userId = (n: string) => `('00000000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`
const totals = 'count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint, sum(cost_micro_usd)::bigint'
const day = "(created_at at time zone 'UTC')::date"

const statements: [what: string, text: string][] = [
  [
    'sites',
    `insert into sites (organization_id, id, origin, name, is_allowed)
     select $1, ${userId('n')}, 'https://site-' || n || '.example.com', 'Site ' || n, true from generate_series(1, 20) n`,
  ],
  [
    'end users',
    `insert into end_users (organization_id, id, external_id, email, issuer, created_at)
     select $1, ${userId('n')}, 'auth0|' || n, 'user-' || n || '@example.com', 'https://idp.example.com',
            now() - interval '90 days' + n * interval '5 seconds' / ${scale}
     from generate_series(1, ${sizes.endUsers}) n`,
  ],
  [
    'threads',
    `insert into threads (organization_id, id, end_user_id, site_id, title, status, message_count, total_tokens,
                          created_at, last_message_at)
     select $1, ${userId('n')}, ${userId('n')}, ${userId('1 + n % 20')}, 'Order ' || n,
            case when n % 50 = 0 then 'deleted' when n % 10 = 0 then 'archived' else 'regular' end, 4, 900,
            now() - interval '90 days', now() - interval '90 days' + n * interval '15 seconds' / ${scale}
     from generate_series(1, ${sizes.threads}) n`,
  ],
  [
    'usage events',
    `insert into usage_events (organization_id, id, end_user_id, site_id, prompt_tokens, completion_tokens, is_estimated,
                               cost_micro_usd, model, finish_reason, created_at)
     select $1, ${userId(`session * ${eventsAtOnce} + n`)}, ${userId(`1 + session % ${sizes.endUsers}`)},
            ${userId('1 + session % 20')}, 1 + (random() * 2000)::int, 1 + (random() * 500)::int, false,
            1 + (random() * 10000)::int, 'model-' || session % 4, 'stop',
            date_trunc('day', now()) - (session * 7 % ${days}) * interval '1 day' + n * interval '1 minute'
     from generate_series(1, ${sizes.events / eventsAtOnce}) session, generate_series(1, ${eventsAtOnce}) n`,
  ],
  [
    'usage per site',
    `insert into usage_site_days (organization_id, day, site_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
     select $1, ${day}, site_id, ${totals} from usage_events where organization_id = $1 group by 2, 3
     on conflict do nothing`,
  ],
  [
    'usage per model',
    `insert into usage_model_days (organization_id, day, model, requests, prompt_tokens, completion_tokens, cost_micro_usd)
     select $1, ${day}, model, ${totals} from usage_events where organization_id = $1 group by 2, 3
     on conflict do nothing`,
  ],
  [
    'usage per end user and span',
    `insert into usage_end_user_spans
       (organization_id, days, day, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
     select $1, days, usage_span_start(${day}, days), end_user_id, ${totals}
     from usage_events cross join unnest('{1,8}'::int[]) days
     where organization_id = $1 and end_user_id is not null group by 2, 3, 4
     on conflict do nothing`,
  ],
  [
    'usage per end user',
    `insert into usage_end_users (organization_id, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
     select $1, end_user_id, ${totals} from usage_events
     where organization_id = $1 and end_user_id is not null group by 2
     on conflict do nothing`,
  ],
  [
    'tool calls',
    `insert into tool_call_records (organization_id, at, id, user_id, source_type, source, tool, arguments_hash, approval,
                                    governance, outcome, duration_ms)
     select $1, now() - n * interval '1 minute', ${userId('n')}, ${userId(`1 + n % ${sizes.endUsers}`)}, 'page',
            'https://site-1.example.com', 'tool-' || n % 30, '', 'allowed', 'none',
            case when n % 40 = 0 then 'failed' else 'succeeded' end, 20
     from generate_series(1, ${sizes.toolCalls}) n`,
  ],
  // Without a valid hash: the verification in the background reports that, which takes no part in the reads.
  [
    'audit events',
    `insert into audit_events (organization_id, id, sequence, actor, action, target, data, created_at, hash, key_id)
     select $1, ${userId('n')}, 1000 + n, 'admin@demo.test', 'skill.updated', 'target-' || n % 100, '{}',
            now() - n * interval '1 minute', sha256(n::text::bytea), 'sha256'
     from generate_series(1, ${sizes.auditEvents}) n`,
  ],
  ['totals of before', 'delete from list_totals where organization_id = $1'],
  [
    'totals of threads',
    `insert into list_totals (organization_id, list, items, messages, tokens)
     select $1, 'threads/' || status, count(*), sum(message_count), sum(total_tokens)
     from threads where organization_id = $1 group by status`,
  ],
  [
    'totals of end users',
    `insert into list_totals (organization_id, list, items)
     select $1, 'end_users', count(*) from end_users where organization_id = $1 and merged_into is null`,
  ],
  [
    'totals of issuers',
    `insert into list_totals (organization_id, list, items)
     select $1, 'end_users/' || issuer, count(*) from end_users
     where organization_id = $1 and merged_into is null and preview_user_id is null group by issuer`,
  ],
]

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ host: join(dataDir, 'postgres/socket'), user: 'inlay', database: 'inlay' })
  await client.connect()
  return client
}

/** Without foreign keys and triggers, which the rows satisfy. */
async function fill(): Promise<void> {
  const client = await connect()
  const { rows } = await client.query("select id from organizations where slug = 'demo'")
  await client.query("set session_replication_role = replica; set synchronous_commit = off; set work_mem = '512MB'")
  for (const [what, text] of statements) {
    const start = performance.now()
    await client.query(text, [rows[0].id])
    console.error(`${what}: ${((performance.now() - start) / 1000).toFixed(1)} s`)
  }
  await client.query('vacuum analyze')
  await client.end()
}

interface Answer {
  ms: number
  next: string | null
  total: number
}

/** A response that isn't a 200, such as the 503 of a statement that timed out. */
class Refused extends Error {}

async function ask(path: string, body?: unknown): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const start = performance.now()
  const response = await fetch(`http://127.0.0.1:${port}/api${path}`, {
    headers,
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
  })
  const answer = (await response.json()) as { total?: number; next_cursor?: string | null }
  const ms = performance.now() - start
  if (!response.ok) throw new Refused(`${response.status} after ${Math.round(ms)} ms`)
  return { ms, next: response.headers.get('next-cursor'), total: answer.total ?? 0 }
}

const measured: [what: string, ms: number, most: number][] = []

const failed: string[] = []

/** Continues with the next one after a response that isn't a 200. */
async function surviving(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    failed.push(`${what}: ${error.message}`)
    console.error(failed.at(-1))
  }
}

const measure = (what: string, path: string, body?: unknown) =>
  surviving(what, async () => {
    await ask(path, body)
    const times: number[] = []
    for (let round = 0; round < rounds; round += 1) times.push((await ask(path, body)).ms)
    times.sort((a, b) => a - b)
    const median = quantile(times, 0.5)
    measured.push([what, median, times.at(-1) ?? 0])
    console.error(`${what}: ${median.toFixed(1)} ms`)
  })

const withQuery = (path: string, query: string) => `${path}${path.includes('?') ? '&' : '?'}${query}`

/** The first page of a list, the page after 20 of them, and the last one. */
const measureList = (path: string) => surviving(path, () => readList(path, 100))

async function readList(path: string, page: number): Promise<void> {
  await measure(path, withQuery(path, `limit=${page}`))
  let cursor: string | null | undefined
  let last = 0
  while (cursor !== null && last < 20) {
    const { next }: Answer = await ask(withQuery(path, `limit=${page}${cursor ? `&cursor=${cursor}` : ''}`))
    if (next === null) break
    cursor = next
    last += 1
  }
  if (cursor) await measure(`${path}, after ${last} pages`, withQuery(path, `limit=${page}&cursor=${cursor}`))
  const { total } = await ask(withQuery(path, 'limit=1'))
  if (total <= page) return
  const { next } = await ask(withQuery(path, `limit=1&offset=${total - page - 1}`))
  if (next) await measure(`${path}, last page`, withQuery(path, `limit=${page}&cursor=${next}`))
  await measure(`${path}, past the end`, withQuery(path, `limit=${page}&offset=${total}`))
}

/** Waits until the job has added up the rankings that a first request asks for. */
async function waitForRankings(ranges: readonly string[]): Promise<void> {
  // The first request can take too long, which doesn't matter.
  for (const range of ranges) await ask(`/usage/end-users?${range}`).catch(() => undefined)
  const client = await connect()
  for (let missing = ranges.length; missing > 0; ) {
    await sleep(1_000)
    const { rows } = await client.query('select count(*)::int as kept from usage_rankings where summed_at is not null')
    missing = ranges.length - rows[0].kept
  }
  await client.query('vacuum analyze usage_ranked_end_users')
  await client.end()
}

await fill()
const one = '00000000-0000-7000-8000-000000000042'
const dateBefore = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
const ranges = [7, 30, 90, 365].map((length) => `start_date=${dateBefore(length - 1)}&end_date=${dateBefore(0)}`)

await waitForRankings(ranges)
for (const range of ranges) {
  for (const path of ['/usage/daily', '/usage/stats']) await measure(`${path}?${range}`, `${path}?${range}`)
  for (const path of ['/usage/sites', '/usage/models']) await measureList(`${path}?${range}`)
  await measureList(`/usage/end-users?${range}`)
}
for (const path of [
  '/threads',
  '/threads?status=archived',
  '/threads?status=deleted',
  '/end-users',
  '/end-users?search=user-4242',
  '/end-users?search=user-42',
  '/end-users?search=user',
  '/diagnostics/refusals',
  '/tool-calls',
  '/tool-calls?tool=tool-7',
  '/tool-calls?outcome=failed',
  '/audit-events',
  '/audit-events?target=target-7',
  '/feedback',
  `/end-users/${one}/threads`,
  `/usage/end-users/${one}/history`,
  `/threads/${one}/messages`,
  `/threads/${one}/runs`,
])
  await measureList(path)
for (const path of [
  '/threads/analytics',
  '/threads?search=Order&limit=100',
  '/threads?search=Order%204242&limit=100',
  '/threads?search=unknown&limit=100',
  `/usage/end-users?start_date=${dateBefore(59)}&limit=100`,
  '/audit-events?actor=admin%40demo.test',
  '/audit-events?action=skill.updated',
  '/audit-events?actor=nobody',
  `/threads/${one}`,
  `/end-users/${one}`,
  `/end-users/${one}/budget`,
  `/end-users/${one}/confirmed-browsers`,
  `/usage/end-users/${one}/stats`,
  '/hub/open-tabs',
  '/hub/sources',
  '/diagnostics/warnings',
  '/publishable-keys',
  '/sites',
  '/organizations/current/members',
  '/organizations/current/invitations',
  '/service-accounts',
  '/budgets',
  '/connectors',
  '/directories',
  '/directories/status',
  '/identity-providers/config',
  '/identity-providers/issuers',
  '/plan-tiers/current',
  '/plan-tiers/usage',
  '/subscriptions/status',
  '/agent/config',
  '/tool-calls?limit=500',
])
  await measure(path, path)
await measure('/organization-skills/list', '/organization-skills/list', { limit: 100 })

measured.sort(([, a], [, b]) => b - a)
console.log('| read | median ms | slowest ms |\n| --- | ---: | ---: |')
for (const [what, ms, most] of measured) console.log(`| \`${what}\` | ${ms.toFixed(1)} | ${most.toFixed(1)} |`)
const goalMs = 50
const missed = measured.filter(([, ms]) => ms > goalMs).length
console.log(`\n${missed} of ${measured.length} take more than ${goalMs} ms; ${failed.length} failed.`)
for (const failure of failed) console.log(failure)
if (failed.length > 0) process.exitCode = 1
await stopAll()
