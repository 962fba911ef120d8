import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { Browser } from '../../../test/browser.ts'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { startHttpService } from '../../../test/http-server.ts'
import { offer, pageOrigin } from '../../../test/page.ts'
import { connectDirectory, proveDomains } from '../../../test/scim.ts'
import { listTenantTables } from '../../../test/tenant-tables.ts'

const sub = 'subject-of-zoe-4711'
const email = 'zoe.erased@demo.test'
const zoe = { sub, email, email_verified: true, name: 'Zoe Erased', nickname: 'zoe.nick-4711' }
const traces = [email, sub, zoe.name, zoe.nickname]

/** What may name the person after the erasure, as docs/deleting-data.md says. */
const documented = ['audit_events', 'directory_users', 'directory_leavers']

/** Returns the tables whose text contains something that identifies the person, with one row of each. */
async function search(shop: AgentShop): Promise<Record<string, string>> {
  const owner = new pg.Client(shop.stores.owner)
  await owner.connect()
  try {
    const { rows: tables } = await owner.query<{ name: string }>(
      `select relname as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`,
    )
    const found: Record<string, string> = {}
    // Binary columns appear in hexadecimal.
    const wanted = traces.flatMap((trace) => [trace, Buffer.from(trace).toString('hex')])
    for (const { name } of tables) {
      await owner.query(`alter table ${pg.escapeIdentifier(name)} no force row level security`)
      const { rows } = await owner.query<{ line: string }>(
        `select line from (select t::text as line from ${pg.escapeIdentifier(name)} t) lines
         where exists (select from unnest($1::text[]) as trace where strpos(lower(line), lower(trace)) > 0) limit 1`,
        [wanted],
      )
      if (rows[0]) found[name] = rows[0].line
    }
    return found
  } finally {
    await owner.end()
  }
}

/** The tenant tables in which the organization has rows. */
async function filledTables(shop: AgentShop): Promise<string[]> {
  const owner = new pg.Client(shop.stores.owner)
  await owner.connect()
  const names: string[] = []
  for (const { name, key } of await listTenantTables(shop)) {
    const { rowCount } = await owner.query(`select from ${pg.escapeIdentifier(name)} where ${key} = $1 limit 1`, [
      shop.demo,
    ])
    if (rowCount) names.push(name)
  }
  await owner.end()
  return names
}

test('after an erasure, no table of the database names the end user, except those that the documentation lists', async () => {
  const shop = await startAgentShop()
  onTestFinished(() => shop.close())
  const third = await startHttpService()
  onTestFinished(() => third.close())
  shop.clock.now = third.clock.now = Date.now()
  const asAdmin = async (method: string, path: string, body?: unknown) => {
    const answer = await shop.request(method, path, { token: shop.admin, body })
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    return answer.body
  }
  await asAdmin('PATCH', '/tool-calls/settings', { contents_days: 30 })
  await asAdmin('PATCH', '/agent/config', { origin_groups: [[pageOrigin, new URL(third.url).origin]] })
  await asAdmin('POST', '/connectors', { name: 'third', kind: 'oauth', server_url: `${third.url}/mcp` })

  const page = await shop.page(zoe)
  const chat = openChat(page)
  const endUserId = page.ready.user.id
  await offer(page, 'add')
  page.answer(() => `done for ${email}`)

  // A conversation with a page's tool, a rating with a comment, and a connected account.
  const run = await say(shop, chat, [{ name: 'add', args: { email } }], `I am ${zoe.name}, ${email}`)
  const { threads } = await asAdmin('GET', `/end-users/${endUserId}/threads`)
  expect(threads).toHaveLength(1)
  await chat.request(
    { type: 'chat/feedback', message_id: run.run, rating: 'down', comment: `Wrong, ${zoe.name}` },
    'chat/done',
  )
  const connecting = await say(shop, chat, [{ name: 'connect_third', args: {} }], 'Connect')
  const chunks = page.unread('chat/chunk').flatMap((message) => message.chunks)
  const links = chunks.flatMap(({ type, data }) => (type === 'data-connect' ? [data as { path: string }] : []))
  expect(connecting.shown.end?.status).toBe('succeeded')
  const ours = await new Browser(shop.url).open(links.at(-1)?.path ?? '')
  await ours.press('Connect')
  await ours.follow(`Continue to ${new URL(third.url).host}`)
  const theirs = await new Browser(third.url).open(ours.left?.href ?? '')
  await theirs.press('admin@other.test')
  await theirs.press('Allow')
  await ours.open(theirs.left?.href ?? '')
  const back = new URL(ours.page?.headers.get('refresh')?.replace('0; url=', '') ?? 'about:blank')
  await chat.request({ type: 'chat/connect', code: back.searchParams.get('inlay_connect') ?? '' }, 'chat/connected')

  // What administrators do about them.
  await asAdmin('PATCH', `/end-users/${endUserId}/budget`, { day_tokens: 1_000_000 })
  await asAdmin('GET', `/end-users/${endUserId}`)
  expect((await shop.request('GET', `/end-users/${endUserId}/export`, { token: shop.admin })).status).toBe(200)

  // Their directory deactivates them, so their next ticket is refused.
  await proveDomains(shop, shop.demo, 'demo.test')
  const directory = await connectDirectory(shop)
  await directory.deactivate(await directory.addUser(email))
  await expect(shop.exchange({ ...zoe, sub })).rejects.toThrow()
  await shop.service.activity.flush()
  await shop.service.toolCalls.flush()

  const { tool_calls } = await asAdmin('GET', `/tool-calls?user_id=${endUserId}`)
  expect(tool_calls.map(({ user_email }: { user_email: string }) => user_email)).toContain(email)
  const before = Object.keys(await search(shop))
  const filled = await filledTables(shop)
  expect(before, 'the test would find what stays').toEqual(
    expect.arrayContaining(['end_users', 'feedback', 'messages', 'refusals', 'tool_call_contents', 'tool_calls']),
  )
  expect(filled).toEqual(
    expect.arrayContaining([
      ...['end_user_budgets', 'end_user_consents', 'tool_call_records', 'usage_events', 'usage_end_users', 'steps'],
    ]),
  )

  await asAdmin('DELETE', `/end-users/${endUserId}`)
  await shop.service.activity.flush()
  await shop.service.toolCalls.flush()
  const after = await search(shop)
  expect(Object.entries(after).filter(([table]) => !documented.includes(table))).toEqual([])
  const records = await asAdmin('GET', `/tool-calls?user_id=${endUserId}`)
  expect(records.tool_calls.map(({ user_email }: { user_email: string }) => user_email)).toEqual(
    tool_calls.map(() => ''),
  )
  for (const path of [
    '/tool-calls',
    '/threads',
    '/feedback',
    '/end-users',
    '/diagnostics/refusals',
    '/usage/end-users',
  ]) {
    const { body } = await shop.request('GET', path, { token: shop.admin })
    for (const trace of traces) expect(JSON.stringify(body), path).not.toContain(trace)
  }
})

async function say(shop: AgentShop, chat: ChatPage, calls: { name: string; args: object }[], text: string) {
  const left = [...calls]
  shop.model.follow(() => {
    const call = left.shift()
    return call ? { calls: [call] } : { text: [`Done for ${email}.`] }
  })
  const run = await chat.say(text, { id: randomUUID() })
  for (;;) {
    const shown = await chat.rest(run)
    if (shown.end?.status !== 'waiting') return { run, shown }
    shown.end = undefined
    for (const { id, answer } of shown.calls)
      if (answer === undefined) await chat.request({ type: 'chat/decide', call_id: id, approved: true }, 'chat/done')
  }
}
