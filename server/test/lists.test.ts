import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { api } from '../src/api.ts'
import { recordUsage } from '../src/plans/usage/record.ts'
import { addExchange, addMessage, startThread } from './conversation-rows.ts'
import { startTestService, type TestService } from './harness.ts'
import { longText, post } from './sample-helpers.ts'
import { addEndUser, addSite, usageRecord } from './usage-records.ts'

/** Enough for several pages of two items. */
const count = 5

let app: TestService
let token = ''
let params: Record<string, string> = {}

/** Writes all rows of a list at the same time, so that only their IDs decide on their order. */
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  const demo = await app.organization('demo')
  const [user, site] = [await addEndUser(app, demo), await addSite(app, demo)]
  const { id: directory } = await post(app, 'demo', '/directories', {
    name: 'Lists',
    type: 'okta',
    domain: 'lists.example',
  })
  const content = (name: string, text: string) => `---\nname: ${name}\ndescription: ${text}\n---\n`
  const { id: skill } = await post(app, 'demo', '/organization-skills', { content: content('skill-0', 'first') })
  params = { directory, user, skill }
  await app.service.database.asOrg(demo, async (sql) => {
    const thread = await startThread(sql, { endUserId: user, siteId: site })
    params.thread = thread
    for (let n = 0; n < count; n += 1) {
      await startThread(sql, { endUserId: user, siteId: site })
      await addExchange(sql, thread, {}, { steps: [{ text: 'Hello' }] })
      await addMessage(sql, thread)
      await sql`
        insert into end_users (organization_id, id, external_id, email)
        values (current_organization(), ${randomUUID()}, ${`listed-${n}`}, '')`
      const [account] = await sql<{ id: string }>`
        insert into users (id, issuer, subject, email, name)
        values (gen_random_uuid(), 'lists', ${`member-${n}`}, ${`member-${n}@lists.example`}, 'Member') returning id`
      await sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${randomUUID()}, ${account?.id}, 'member')`
      await sql`
        insert into directory_users (organization_id, directory_id, id, user_name)
        values (current_organization(), ${directory}, ${randomUUID()}, ${`user-${n}`})`
      await sql`
        insert into directory_groups (organization_id, directory_id, id, display_name)
        values (current_organization(), ${directory}, ${randomUUID()}, ${`Group ${n}`})`
      await sql`
        insert into refusals (organization_id, id, fingerprint, surface, step, code, message, count, first_at, last_at)
        values (current_organization(), ${randomUUID()}, ${`refusal-${n}`}, 'ticket', 'key', 'X', 'x', 1, now(), now())`
    }
    await sql`
      insert into feedback (organization_id, run_id, thread_id, rating)
      select organization_id, id, thread_id, 'up' from runs where thread_id = ${thread}`
  })
  for (let n = 1; n <= count; n += 1) {
    await post(app, 'demo', '/publishable-keys', { name: `Key ${n}` })
    await post(app, 'demo', '/service-accounts', { name: `Account ${n}`, role: 'member', expires_at: null })
    await post(app, 'demo', '/organizations/current/invitations', { email: `invited-${n}@demo.test`, role: 'member' })
    await post(app, 'demo', '/organization-skills', { content: content(`skill-${n}`, 'another') })
    await app.request('PATCH', `/organization-skills/${skill}`, { token, body: { domains: [`${n}.example.com`] } })
    const end_user_id = await addEndUser(app, demo)
    await recordUsage(app.service, [
      usageRecord(demo, { end_user_id: user, created_at: new Date().toISOString() }),
      usageRecord(demo, {
        end_user_id,
        site_id: await addSite(app, demo),
        model: `model-${n}`,
        created_at: new Date().toISOString(),
      }),
    ])
  }
})

interface Page {
  items: unknown[]
  total: number | undefined
  next: string | null
  status: number
  body: Record<string, unknown>
}

/** Lists whose cursors are only in the header. */
interface List {
  path: string
  /** Its name in the body. Without one, the list is the body of a POST. */
  list?: string
}

/** The list is the whole body. */
const whole = ''

const lists: Record<string, () => List> = {
  listThreads: () => ({ path: '/threads', list: 'threads' }),
  'listThreads, one status': () => ({ path: '/threads?status=regular', list: 'threads' }),
  listEndUserThreads: () => ({ path: `/end-users/${params.user}/threads`, list: 'threads' }),
  listEndUsers: () => ({ path: '/end-users', list: 'users' }),
  'listEndUsers, searching': () => ({ path: '/end-users?search=listed', list: 'users' }),
  listSiteUsage: () => ({ path: '/usage/sites', list: 'sites' }),
  listEndUserUsage: () => ({ path: '/usage/end-users', list: 'users' }),
  listModelUsage: () => ({ path: '/usage/models', list: 'models' }),
  listEndUserUsageHistory: () => ({ path: `/usage/end-users/${params.user}/history`, list: 'events' }),
  listDirectoryUsers: () => ({ path: `/directories/${params.directory}/users`, list: 'users' }),
  listDirectoryGroups: () => ({ path: `/directories/${params.directory}/groups`, list: 'groups' }),
  listRefusals: () => ({ path: '/diagnostics/refusals', list: 'refusals' }),
  listSkillVersions: () => ({ path: `/organization-skills/${params.skill}/versions`, list: 'versions' }),
  listSkills: () => ({ path: '/organization-skills/list' }),
  listSites: () => ({ path: '/sites', list: whole }),
  listPublishableKeys: () => ({ path: '/publishable-keys', list: 'keys' }),
  listMembers: () => ({ path: '/organizations/current/members', list: whole }),
  listInvitations: () => ({ path: '/organizations/current/invitations', list: whole }),
  listServiceAccounts: () => ({ path: '/service-accounts', list: 'service_accounts' }),
}

async function get(name: string, page: Record<string, unknown>): Promise<Page> {
  const { path, list } = (lists[name] as () => List)()
  const query = new URLSearchParams(Object.entries(page).map(([key, value]) => [key, String(value)]))
  const answer =
    list !== undefined
      ? await app.request('GET', `${path}${path.includes('?') ? '&' : '?'}${query}`, { token })
      : await app.request('POST', path, { token, body: page })
  const { status, body, headers } = answer
  return { items: list ? body[list] : body, total: body.total, next: headers.get('next-cursor'), status, body }
}

/** The items of all pages, from a cursor to the end. */
async function follow(name: string, cursor: string | null): Promise<unknown[]> {
  const items: unknown[] = []
  for (let next = cursor; next !== null; ) {
    const page = await get(name, { limit: 2, cursor: next })
    expect(page.items.length, 'no page is empty').toBeGreaterThan(0)
    items.push(...page.items)
    next = page.next
  }
  return items
}

test('every operation with a cursor in the header is tested here', () => {
  const paged = api.flatMap(({ operation }) => (operation.pages ? [operation.id] : []))
  expect(new Set(Object.keys(lists).map((name) => name.split(',')[0]))).toEqual(new Set(paged))
})

describe.each(Object.keys(lists))('%s', (name) => {
  test('following cursors returns every item once, in the order of the list', async () => {
    const whole = await get(name, { limit: 100 })
    expect(whole.items.length).toBeGreaterThanOrEqual(count)
    expect(whole.next, 'the only page has no next one').toBeNull()
    const first = await get(name, { limit: 2 })
    expect([...first.items, ...(await follow(name, first.next))]).toEqual(whole.items)
    expect(first.total).toBe(whole.total)
  })

  test('an offset counts from the cursor, and is empty past the end', async () => {
    const { items } = await get(name, { limit: 100 })
    const { next } = await get(name, { limit: 2 })
    expect((await get(name, { limit: 2, offset: 1, cursor: next })).items).toEqual(items.slice(3, 5))
    expect(await get(name, { limit: 2, offset: 9007199254740991 })).toMatchObject({ items: [], next: null })
  })

  test.each([
    ['empty', ''],
    ['no JSON', 'x'],
    ['no position', Buffer.from('{}').toString('base64url')],
    ['of another list', Buffer.from('[1,2,3]').toString('base64url')],
    [
      'a time that doesn’t exist',
      Buffer.from(JSON.stringify(['0000-01-01T00:00:00.000Z', randomUUID()])).toString('base64url'),
    ],
    ['text with NUL', Buffer.from(JSON.stringify([1, 'a\0b'])).toString('base64url')],
    ['a fraction', Buffer.from('[1.5]').toString('base64url')],
    ['too long', longText(1_001)],
  ])('a cursor that is %s is a validation error', async (_, cursor) => {
    expect((await get(name, { cursor })).body).toMatchObject({
      status: 400,
      data: { code: 'VALIDATION_ERROR', field: 'cursor' },
    })
  })
})

test.each(['listSites', 'listPublishableKeys', 'listMembers', 'listInvitations', 'listServiceAccounts'])(
  '%s returns the whole list to clients that don’t ask for a page',
  async (name) => {
    const demo = await app.organization('demo')
    await app.service.database.asOrg(
      demo,
      (sql) => sql`
        insert into sites (organization_id, id, origin, name)
        select current_organization(), gen_random_uuid(), 'https://more-' || gen_random_uuid() || '.example.com', 'Site'
        from generate_series(1, 101)`,
    )
    const { items, next } = await get(name, {})
    const first = await get(name, { limit: 2 })
    expect(items).toEqual([...first.items, ...(await follow(name, first.next))])
    expect(next).toBeNull()
    if (name === 'listSites') expect(items.length).toBeGreaterThan(100)
  },
)

test('a new item doesn’t move the pages after it', async () => {
  const rest = async (cursor: string | null) =>
    (await follow('listThreads', cursor)).map((item) => (item as { id: string }).id)
  const { next } = await get('listThreads', { limit: 2 })
  const before = await rest(next)
  await app.service.database.asOrg(await app.organization('demo'), (sql) =>
    startThread(sql, { endUserId: null, siteId: null }),
  )
  expect(await rest(next)).toEqual(before)
})

test.each([['/audit-events'], ['/feedback'], ['/threads/{thread}/messages'], ['/threads/{thread}/runs']])(
  'the next_cursor of %s is in the header too',
  async (path) => {
    const list = (limit: number) =>
      app.request('GET', `${path.replace('{thread}', params.thread ?? '')}?limit=${limit}`, { token })
    const { body, headers } = await list(2)
    expect(body.next_cursor).toEqual(expect.any(String))
    expect(headers.get('next-cursor')).toBe(body.next_cursor)
    expect((await list(100)).headers.get('next-cursor')).toBeNull()
  },
)
