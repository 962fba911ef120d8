import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { offer, type Page, pageOrigin } from '../../../test/page.ts'
import { member, type Shop, startShop } from '../../../test/shop.ts'
import { ownerOf, type ToolUser } from '../../kernel/foundation/tool-user.ts'
import { newId } from '../../kernel/lib/ids.ts'

/** Calls that were approved before they reach the hub: the agent's. */

let shop: Shop
beforeAll(async () => {
  shop = await startShop()
})
afterAll(() => shop.close())
afterEach(() => shop.closePages())

const failure = (code: string) => expect.objectContaining({ envelope: expect.objectContaining({ code }) })

async function agentOf({ ready }: Page, verified_email?: string): Promise<ToolUser> {
  const organizationId = await shop.organization('demo')
  const { id, is_anonymous } = ready.user
  const endUserId = is_anonymous ? undefined : id
  return {
    organizationId,
    owner: ownerOf(organizationId, { verified_email, end_user_id: endUserId, session: ready.session }),
    id,
    email: verified_email ?? '',
    email_verified: verified_email !== undefined,
    client_id: undefined,
    client_name: 'Agent',
    member: undefined,
    endUserId,
  }
}

/** The hash of a page's tool, as its server has it. */
async function hashOf({ owner }: ToolUser, { ready }: Page, name: string): Promise<string> {
  const found = await shop.service.hub.switchboard.find(owner, 'tools')
  const tools = found.find(({ source }) => source.sourceId === ready.session)?.tools
  return tools?.find((tool) => tool.name === name)?.hash ?? ''
}

async function callApproved(user: ToolUser, page: Page, changes: { definition_hash?: string; origin?: string } = {}) {
  const approved = {
    id: newId(),
    approval: { id: 'approval-1', how: 'allowed' as const },
    definition_hash: await hashOf(user, page, 'add'),
    origin: pageOrigin,
    ...changes,
  }
  const wanted = { tool_name: 'add', args: { sku: 7 }, source_id: page.ready.session, approved }
  const call = { signal: new AbortController().signal, progress: () => undefined }
  const answered = shop.service.hub.callTool(user, wanted, call)
  answered.catch(() => undefined)
  return { id: approved.id, answered }
}

const records = async () =>
  (await shop.request('GET', '/tool-calls?limit=1', { token: await shop.tokenFor('admin@demo.test', 'demo') })).body
    .tool_calls

test.each([
  ['an end user with a verified address', member, 'member@demo.test'],
  ['an end user without one', { sub: 'bob' }, undefined],
  ['a visitor', undefined, undefined],
])('reach the page of %s with the approval, and are recorded under their own id', async (_, person, email) => {
  const page = await shop.page(person)
  await offer(page, 'add')
  const user = await agentOf(page, email)
  const { id, answered } = await callApproved(user, page)
  expect(await page.next('tool/call')).toMatchObject({ call_id: id, approval_id: 'approval-1', client_name: 'Agent' })
  page.send({ type: 'tool/result', call_id: id, result: 'done' })
  expect(await answered).toMatchObject({ content: [{ text: 'done' }], isError: false })
  expect(await records()).toMatchObject([
    { id, user_id: user.id, user_email: email ?? '', client_name: 'Agent', approval: 'allowed', outcome: 'succeeded' },
  ])
})

test('of members’ clients carry no approval', async () => {
  const page = await shop.page(member)
  await offer(page, 'add')
  void (await shop.caller('member@demo.test')).call('add').catch(() => undefined)
  expect(await page.next('tool/call')).not.toHaveProperty('approval_id')
})

test('record that the user declined, if the page asked again', async () => {
  const page = await shop.page(member)
  await offer(page, 'add')
  const { id, answered } = await callApproved(await agentOf(page, 'member@demo.test'), page)
  await page.next('tool/call')
  page.send({ type: 'tool/result', call_id: id, error: { code: 'declined', message: '' } })
  expect(await answered).toMatchObject({ isError: true })
  expect(await records()).toMatchObject([{ id, approval: 'declined', outcome: 'refused' }])
})

test.each([
  ['the definition has changed', { definition_hash: 'another' }, 'TOOL_CHANGED'],
  ['another origin was approved', { origin: 'https://elsewhere.example' }, 'NOT_FOUND'],
])('fail if %s', async (_, changes, code) => {
  const page = await shop.page(member)
  await offer(page, 'add')
  const { answered } = await callApproved(await agentOf(page, 'member@demo.test'), page, changes)
  await expect(answered).rejects.toEqual(failure(code))
  await page.settled()
  expect(page.unread('tool/call')).toEqual([])
  expect(await records()).toMatchObject([{ approval: 'allowed', outcome: 'failed' }])
})

test('prefer the page that offered the tool, and otherwise the one that the user saw last', async () => {
  const pages = []
  for (const tab_id of ['a', 'b', 'c']) {
    const page = await shop.page(member, { hello: { tab_id, visible: true } })
    await offer(page, 'add')
    page.send({ type: 'page', url: `${pageOrigin}/`, title: '', visible: tab_id === 'b' })
    await page.settled()
    pages.push(page)
  }
  const [first, second, third] = pages as [Page, Page, Page]
  const user = await agentOf(first, 'member@demo.test')
  await callApproved(user, first)
  await first.next('tool/call')
  const definition_hash = await hashOf(user, first, 'add')
  first.send({ type: 'bye' })
  await first.closed
  await callApproved(user, first, { definition_hash })
  await second.next('tool/call')
  expect([second, third].flatMap((page) => page.unread('tool/call'))).toEqual([])
})

test('fail if their page has changed the tool, even if another page still has it', async () => {
  const [page, other] = [await shop.page(member), await shop.page(member, { hello: { tab_id: 'tab-2' } })]
  await offer(page, 'add')
  await offer(other, 'add')
  const user = await agentOf(page, 'member@demo.test')
  const definition_hash = await hashOf(user, page, 'add')
  page.send({ type: 'tools/list', tools: [{ name: 'add', description: 'Something else' }] })
  await page.next('tools/accepted')
  const { answered } = await callApproved(user, page, { definition_hash })
  await expect(answered).rejects.toEqual(failure('TOOL_CHANGED'))
})

test('can’t reach another user’s page', async () => {
  const page = await shop.page(member)
  await offer(page, 'add')
  const definition_hash = await hashOf(await agentOf(page, 'member@demo.test'), page, 'add')
  const visitor = await agentOf(await shop.page(undefined))
  const { answered } = await callApproved(visitor, page, { definition_hash })
  await expect(answered).rejects.toEqual(failure('NOT_FOUND'))
  await page.settled()
  expect(page.unread('tool/call')).toEqual([])
})

test('store contents for users with and without an address, who can be erased with them', async () => {
  const token = await shop.tokenFor('admin@demo.test', 'demo')
  await shop.request('PATCH', '/tool-calls/settings', { token, body: { contents_days: 30 } })
  const statuses = []
  for (const [person, email] of [
    [member, 'member@demo.test'],
    [{ sub: 'bob' }, undefined],
  ] as const) {
    const page = await shop.page(person)
    await offer(page, 'add')
    page.answer(() => 'done')
    const { id, answered } = await callApproved(await agentOf(page, email), page)
    await answered
    statuses.push((await shop.request('GET', `/tool-calls/${id}/contents`, { token })).status)
  }
  expect(statuses).toEqual([200, 200])
})
