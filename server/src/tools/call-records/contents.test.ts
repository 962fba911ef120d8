import { describe, expect, test } from 'vitest'
import { runJob } from '../../../test/harness.ts'
import { offer } from '../../../test/page.ts'
import { member, type Shop, useShop } from '../../../test/shop.ts'
import { memberAsToolUser } from '../../kernel/foundation/tool-user.ts'
import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import type { Database } from '../../kernel/stores/database.ts'
import { contentsExpiry, createContentsDays } from './contents.ts'
import { createToolCallRecorder } from './recorder.ts'

const asAdmin = async (shop: Shop) => ({ token: await shop.tokenFor('admin@demo.test', 'demo') })

const keepFor = async (shop: Shop, contents_days: number) => {
  const body = { contents_days }
  const answer = await shop.request('PATCH', '/tool-calls/settings', { ...(await asAdmin(shop)), body })
  expect(answer.body).toEqual(body)
}

/** Reads the latest call and its contents as an administrator. */
async function read(shop: Shop) {
  const { body } = await shop.request('GET', '/tool-calls?limit=1', await asAdmin(shop))
  const { id, at } = body.tool_calls[0]
  return { id, at, ...(await shop.request('GET', `/tool-calls/${id}/contents`, await asAdmin(shop))) }
}

const stored = async (shop: Shop) =>
  shop.service.database.asOrg(await shop.organization('demo'), (sql) => sql`select call_id from tool_call_contents`)

/** Starts a shop with a page whose tool returns its input. */
async function useCalls(contents_days: number) {
  const shop = await useShop()
  await keepFor(shop, contents_days)
  const page = await shop.page(member)
  await offer(page, 'add')
  page.answer(({ args }) => args.say ?? 'done')
  const { call } = await shop.caller('member@demo.test')
  return { shop, page, call: (args: Record<string, unknown> = {}) => call('add', args) }
}

test('contents aren’t stored by default', async () => {
  const { shop, call } = await useCalls(0)
  await call({ secret: 1 })
  expect((await read(shop)).body.data).toMatchObject({ code: 'RESOURCE_NOT_FOUND', resource: 'tool_call_contents' })
  expect(await stored(shop)).toEqual([])
})

test('contents are the arguments and result, stored for the configured number of days', async () => {
  const { shop, call } = await useCalls(30)
  await call({ say: 'a\0b', n: 1 })
  const { id, at, body } = await read(shop)
  expect(body).toEqual({
    id,
    arguments: '{"say":"a\\u0000b","n":1}',
    result: expect.stringContaining('"content":[{"type":"text","text":"a\\u0000b"}],"isError":false'),
    expires_at: new Date(Date.parse(at) + 30 * 24 * 60 * 60 * 1000).toISOString(),
  })
})

test('each reading of contents is in the audit trail', async () => {
  const { shop, call } = await useCalls(30)
  await call({ say: 'secret' })
  const [{ id }] = [await read(shop), await read(shop)]
  const { body } = await shop.request('GET', '/audit-events?action=tool_call.contents_read', await asAdmin(shop))
  const event = { actor: 'admin@demo.test', action: 'tool_call.contents_read', target: id, data: {} }
  expect(body.events).toMatchObject([event, event])
})

test('contents of a call without a result have only its arguments', async () => {
  const { shop, page, call } = await useCalls(30)
  const ended = call({ n: 1 }).catch(() => undefined)
  page.socket.terminate()
  shop.pass(60_000)
  await ended
  expect((await read(shop)).body).toMatchObject({ arguments: '{"n":1}', result: null })
})

test('contents are truncated at the limit', async () => {
  const { shop, call } = await useCalls(30)
  await call({ say: '😀'.repeat(20_000) })
  const { body } = await read(shop)
  expect([body.arguments.length, body.result.length]).toEqual([16_384, 16_384])
})

test('contents of callers who aren’t end users aren’t stored, because no deletion would reach them', async () => {
  const { shop } = await useCalls(30)
  const { call } = await shop.caller('admin@demo.test')
  await call('nothing').catch(() => undefined)
  expect((await read(shop)).status).toBe(404)
})

test('deleting the end user deletes contents, including unwritten ones', async () => {
  const { shop, call } = await useCalls(30)
  const { token } = await asAdmin(shop)
  await call({ n: 1 })
  expect((await read(shop)).status).toBe(200)
  await call({ n: 2 })
  const { users } = (await shop.request('GET', '/end-users', { token })).body
  const { id } = users.find(({ email }: { email: string }) => email === 'member@demo.test')
  expect((await shop.request('DELETE', `/end-users/${id}`, { token })).status).toBe(200)
  expect((await read(shop)).status).toBe(404)
  await shop.service.toolCalls.flush()
  expect(await stored(shop)).toEqual([])
  const { tool_calls } = (await shop.request('GET', '/tool-calls', { token })).body
  expect(tool_calls, 'the records are kept, like the audit trail').toHaveLength(2)
})

describe('with an end user who states the address of a member', () => {
  const stranger = { sub: 'stranger', email: 'member@demo.test', email_verified: false }

  const contentsOf = async (shop: Shop, endUserId: string): Promise<string[]> => {
    const { body } = await shop.request('GET', `/end-users/${endUserId}/export`, await asAdmin(shop))
    const lines: { kind: string; data: { arguments: string } }[] = body
    return lines.flatMap(({ kind, data }) => (kind === 'tool_call_contents' ? data.arguments : []))
  }
  const erase = async (shop: Shop, id: string) =>
    expect((await shop.request('DELETE', `/end-users/${id}`, await asAdmin(shop))).status).toBe(200)

  /** Records a call that the agent made for an end user. */
  const callAs = (shop: Shop, organizationId: string, endUserId: string, args: Record<string, unknown>) =>
    shop.service.toolCalls.follow(
      {
        ...{ organizationId, id: endUserId, endUserId, email: '', email_verified: false, member: undefined },
        ...{ client_id: undefined, client_name: undefined, owner: { organization_id: organizationId, identity: '' } },
      },
      { tool_name: 'add', args },
      async () => 1,
    )

  test('the contents of the member’s calls are neither exported nor erased with that end user', async () => {
    const { shop, call } = await useCalls(30)
    const { userId } = await shop.exchange(stranger)
    await call({ mine: 1 })
    await shop.service.toolCalls.flush()
    expect(await contentsOf(shop, userId)).toEqual([])
    await erase(shop, userId)
    expect((await read(shop)).body).toMatchObject({ arguments: '{"mine":1}' })
  })

  test('they aren’t stored if that is the only end user with the address', async () => {
    const shop = await useShop()
    await keepFor(shop, 30)
    await shop.exchange(stranger)
    const { call } = await shop.caller('member@demo.test')
    await call('nothing').catch(() => undefined)
    expect((await read(shop)).status).toBe(404)
  })

  test('they are exported and erased with each end user whose verified address it is', async () => {
    const { shop, call } = await useCalls(30)
    const ids = [
      (await shop.exchange(member)).userId,
      (await shop.exchange({ sub: 'again', email: 'member@demo.test', email_verified: true })).userId,
    ]
    await call({ mine: 1 })
    await shop.service.toolCalls.flush()
    for (const id of ids) expect(await contentsOf(shop, id)).toEqual(['{"mine":1}'])
    await erase(shop, ids[0] as string)
    expect(await stored(shop)).toEqual([])
    const { call: callAgain } = await shop.caller('member@demo.test')
    await callAgain('nothing').catch(() => undefined)
    await shop.service.toolCalls.flush()
    expect(await stored(shop)).toHaveLength(1)
    await erase(shop, ids[1] as string)
    expect(await stored(shop)).toEqual([])
  })

  test('they are exported and erased with the end user of the member’s previews, whatever the address', async () => {
    const shop = await useShop()
    await keepFor(shop, 30)
    const token = await shop.tokenFor('member@demo.test', 'demo')
    const { body } = await shop.request('POST', `/publishable-keys/${shop.keyId}/preview`, { token })
    expect(body.end_user_id, JSON.stringify(body)).toBeTypeOf('string')
    await shop.exchange(stranger)
    const { call } = await shop.caller('member@demo.test')
    await call('nothing', { mine: 1 }).catch(() => undefined)
    await shop.service.toolCalls.flush()
    expect(await contentsOf(shop, body.end_user_id)).toEqual(['{"mine":1}'])
    await erase(shop, body.end_user_id)
    expect(await stored(shop)).toEqual([])
  })

  test('they are neither exported nor erased with an end user whose verified address the member merely states', async () => {
    const shop = await useShop()
    await keepFor(shop, 30)
    const token = await shop.tokenFor('member@demo.test', 'demo')
    await shop.request('POST', `/publishable-keys/${shop.keyId}/preview`, { token })
    await shop.service.database.asService(
      (sql) => sql`update users set email_verified = false where email = 'member@demo.test'`,
    )
    const { userId } = await shop.exchange(member)
    const { call } = await shop.caller('member@demo.test')
    await call('nothing', { mine: 1 }).catch(() => undefined)
    await shop.service.toolCalls.flush()
    expect(await contentsOf(shop, userId)).toEqual([])
    await erase(shop, userId)
    expect((await read(shop)).body).toMatchObject({ arguments: '{"mine":1}' })
  })

  test('end users with the same address have their own contents only', async () => {
    const shop = await useShop()
    await keepFor(shop, 30)
    const organizationId = await shop.organization('demo')
    const own = [
      (await shop.exchange(stranger)).userId,
      (await shop.exchange(member)).userId,
      (await shop.exchange({ sub: 'again', email: 'member@demo.test', email_verified: true })).userId,
    ]
    for (const [n, id] of own.entries()) await callAs(shop, organizationId, id, { n })
    await shop.service.toolCalls.flush()
    for (const [n, id] of own.entries()) expect(await contentsOf(shop, id)).toEqual([`{"n":${n}}`])
    for (const [n, id] of own.entries()) {
      await erase(shop, id)
      expect(await stored(shop)).toHaveLength(own.length - 1 - n)
    }
  })
})

test('a shorter period applies to stored contents; expired contents are hidden, then deleted', async () => {
  const { shop, call } = await useCalls(30)
  await call()
  await keepFor(shop, 60)
  const { at, body } = await read(shop)
  expect(Date.parse(body.expires_at) - Date.parse(at), 'a longer period doesn’t apply').toBe(30 * 24 * 60 * 60 * 1000)
  await keepFor(shop, 0)
  expect((await read(shop)).status).toBe(404)
  expect(await stored(shop)).toHaveLength(1)
  await runJob(shop, await shop.organization('demo'), contentsExpiry)
  expect(await stored(shop)).toEqual([])
  const { events } = (await shop.request('GET', '/audit-events?action=tool_call_settings.updated', await asAdmin(shop)))
    .body
  expect(events.map(({ data }: { data: object }) => data)).toEqual([
    { contents_days: 0, before: 60 },
    { contents_days: 60, before: 30 },
    { contents_days: 30, before: 0 },
  ])
})

test('the setting accepts 0 to 365 days', async () => {
  const shop = await useShop()
  const { token } = await asAdmin(shop)
  expect((await shop.request('GET', '/tool-calls/settings', { token })).body).toEqual({ contents_days: 0 })
  for (const contents_days of [-1, 366, 1.5, '7', null]) {
    const { body } = await shop.request('PATCH', '/tool-calls/settings', { token, body: { contents_days } })
    expect(body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'contents_days' })
  }
})

test('unwritten contents count toward the memory limit by their size', async () => {
  const { shop } = await useCalls(30)
  const away: Database['asOrg'] = () => Promise.reject(serviceUnavailable('The database is not reachable'))
  const needed = { ...shop.service, database: { ...shop.service.database, asOrg: away } }
  const recorder = createToolCallRecorder(needed, createContentsDays(shop.service), { organization: 50, node: 100 })
  const organization = { id: await shop.organization('demo'), name: '', slug: '' }
  const user = { id: organization.id, email: 'member@demo.test', name: '', avatar_url: '' }
  const token = { id: '', expires_at: 0, organization_id: organization.id, grant_id: undefined, client_id: undefined }
  const caller = {
    id: user.id,
    actor: user.email,
    organization,
    user,
    token,
    email_verified: true,
    role: 'member' as const,
  }
  const call = () =>
    recorder.follow(memberAsToolUser(caller), { tool_name: 'add', args: { text: 'x'.repeat(16_384) } }, async () => 1)
  await call()
  await expect(call()).rejects.toMatchObject({ envelope: { status: 503 } })
  await recorder.close()
})
