import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import type { Email } from '../../../test/harness.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { startTestProvider } from '../../../test/oidc-provider.ts'
import { openPage } from '../../../test/page.ts'
import { asOrg } from '../../../test/sample-helpers.ts'
import { endSession } from '../../accounts/access/access.ts'
import { newId } from '../../kernel/lib/ids.ts'

const minute = 60_000
const allowed = 'https://shop.example.com'

let app: HttpService
let admin: string
let member: string
beforeAll(async () => {
  app = await startHttpService()
  admin = await app.tokenFor('admin@demo.test', 'demo')
  member = await app.tokenFor('member@demo.test', 'demo')
})
afterAll(() => app.close())

interface Key {
  id: string
  key: string
}

const makeKey = async (token = admin, allowed_origins = [allowed]): Promise<Key> =>
  (await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop', allowed_origins } })).body
const startPreview = async ({ id }: Key, token = member) =>
  (await app.request('POST', `/publishable-keys/${id}/preview`, { token })).body
const exchange = (
  { key }: Pick<Key, 'key'>,
  id_token: string,
  { origin = app.url, embedding_origin = app.url }: { origin?: string; embedding_origin?: string } = {},
) =>
  app.request('POST', '/auth/pk-ticket', {
    headers: { origin },
    body: { publishable_key: key, id_token, embedding_origin },
  })
const codeOf = async (exchanging: ReturnType<typeof exchange>) => (await exchanging).body.code

/** A preview's socket. */
async function connect(key: Key, token: string) {
  const { status, body } = await exchange(key, token)
  expect(status, JSON.stringify(body)).toBe(200)
  return openPage(app.local, body.ticket, { origin: app.url })
}

describe('a member', () => {
  test('talks to the agent as an end user who belongs to them, at an origin that the key doesn’t allow', async () => {
    const key = await makeKey()
    const used = async () => (await app.request('GET', '/plan-tiers/usage', { token: admin })).body.end_users
    const before = await used()
    const preview = await startPreview(key)
    expect(preview).toEqual({
      token: expect.stringMatching(/^inlay_preview_/),
      expires_at: new Date(app.clock.now + 15 * minute).toISOString(),
      publishable_key: key.key,
      end_user_id: expect.any(String),
      model: { source: 'demo', name: 'demo' },
    })
    expect((await startPreview(key)).end_user_id, 'the same every time').toBe(preview.end_user_id)
    expect((await startPreview(key, admin)).end_user_id, 'another member').not.toBe(preview.end_user_id)
    const page = await connect(key, preview.token)
    expect(page.ready.user.id).toBe(preview.end_user_id)
    const profile = await app.request('GET', `/end-users/${preview.end_user_id}`, { token: admin })
    expect(profile.body).toMatchObject({ is_preview: true, email: 'member@demo.test' })
    expect(await used(), 'members don’t count as end users of the plan').toBe(before)

    await app.service.activity.flush()
    const { keys } = (await app.request('GET', '/publishable-keys', { token: admin })).body
    expect(keys.find(({ id }: Key) => id === key.id).last_used_at, 'isn’t a use of the key').toBeNull()
    const events = await asOrg(
      app,
      'demo',
      (sql) => sql`select action, actor from audit_events where target = ${preview.end_user_id}`,
    )
    expect(events).toEqual([{ action: 'end_user.created', actor: 'member@demo.test' }])
  })

  test('reads and exports their own preview without an audit event, which nobody else can read', async () => {
    const key = await makeKey()
    const { token, end_user_id } = await startPreview(key)
    const chat = openChat(await connect(key, token))
    await chat.rest(await chat.say('What can you do?'), 'succeeded')
    const { threads } = (await app.request('GET', `/end-users/${end_user_id}/threads`, { token: member })).body
    const [{ id }] = threads
    expect(threads).toMatchObject([{ is_preview: true, end_user_name: 'member@demo.test', site_id: null }])
    const read = async (reader: string) => (await app.request('GET', `/threads/${id}/messages`, { token: reader })).body
    const own = await read(member)
    expect(own).toMatchObject({ contents_visible: true, messages: [{ text: 'What can you do?' }, {}] })
    expect(await read(admin)).toMatchObject({ contents_visible: false, messages: [{ text: null }, { text: null }] })
    const download = (reader: string) => app.request('GET', `/threads/${id}/export`, { token: reader })
    expect((await download(member)).body).toMatchObject({ messages: [{ text: 'What can you do?' }, {}] })
    expect((await download(admin)).body).toMatchObject({ data: { code: 'CONTENTS_NOT_VISIBLE' } })
    const events = await asOrg(
      app,
      'demo',
      (sql) => sql`select from audit_events where action = 'thread.contents_read'`,
    )
    expect(events).toEqual([])
    await app.request('DELETE', `/end-users/${end_user_id}`, { token: admin })
    expect((await app.request('GET', `/threads/${id}`, { token: member })).status).toBe(404)
    expect((await startPreview(key)).end_user_id, 'starts again after the erasure').not.toBe(end_user_id)
  })
})

test('the trace of a call says what the governance provider decided', async () => {
  const verdicts = { request: 'success', response: 'success' }
  const interceptor = await startInterceptor(({ params, ...request }, response) =>
    answerWith({ status: verdicts[params.phase as 'request'], violations: [] })({ params, ...request }, response),
  )
  const setGovernance = (is_enabled: boolean) =>
    app.request('PATCH', '/governance/providers/config', {
      token: admin,
      body: { interceptor_url: interceptor.url, interceptor_name: 'policy', api_key: 'key-of-the-policy', is_enabled },
    })
  const key = await makeKey()
  const { token, end_user_id } = await startPreview(key)
  const page = await connect(key, token)
  const annotations = { readOnlyHint: true }
  page.send({ type: 'tools/list', tools: [{ name: 'read_page', description: 'Reads the page', annotations }] })
  await page.next('tools/accepted')
  page.answer(() => 'Willow Books')
  const chat = openChat(page)
  const decide = async (request: string, response: string) => {
    Object.assign(verdicts, { request, response })
    await chat.rest(await chat.say('read_page'), 'succeeded')
  }
  await decide('success', 'success')
  expect((await setGovernance(true)).status).toBe(200)
  await decide('success', 'success')
  await decide('failure', 'success')
  await decide('success', 'failure')
  await setGovernance(false)

  const { threads } = (await app.request('GET', `/end-users/${end_user_id}/threads`, { token: admin })).body
  const { id } = threads.find((thread: { id: string }) => thread.id === chat.thread)
  interface Traced {
    tool_calls: { governance: string }[]
  }
  const { messages } = (await app.request('GET', `/threads/${id}/messages`, { token: member })).body
  const { runs } = (await app.request('GET', `/threads/${id}/runs`, { token: admin })).body
  const expected = ['none', 'allowed', 'refused', 'result_refused']
  expect(messages.flatMap(({ tool_calls }: Traced) => tool_calls.map(({ governance }) => governance))).toEqual(expected)
  const traced = runs.flatMap(({ steps }: { steps: Traced[] }) => steps.flatMap(({ tool_calls }) => tool_calls))
  expect(traced.map(({ governance }: { governance: string }) => governance)).toEqual(expected)
})

describe('a stolen token is refused', () => {
  test.each<[string, Parameters<typeof exchange>[2]]>([
    ['from another origin', { origin: 'https://evil.example' }],
    ['from an origin that the key allows', { origin: allowed }],
    ['from a frame in another page', { embedding_origin: 'https://evil.example' }],
    ['from a frame in a page that the key allows', { embedding_origin: allowed }],
  ])('%s', async (_, origins) => {
    const key = await makeKey()
    expect(await codeOf(exchange(key, (await startPreview(key)).token, origins))).toBe('ORIGIN_NOT_ALLOWED')
  })

  test('without an origin', async () => {
    const key = await makeKey()
    const body = { publishable_key: key.key, id_token: (await startPreview(key)).token }
    expect((await app.request('POST', '/auth/pk-ticket', { body })).body.code).toBe('ORIGIN_NOT_ALLOWED')
  })

  test('for another key, of this or another organization', async () => {
    const other = await makeKey(await app.tokenFor('admin@other.test', 'other'))
    const { token } = await startPreview(await makeKey())
    expect(await codeOf(exchange(await makeKey(), token))).toBe('INVALID_TOKEN')
    expect(await codeOf(exchange(other, token))).toBe('INVALID_TOKEN')
  })

  test('after 15 minutes, or changed', async () => {
    const key = await makeKey()
    const { token } = await startPreview(key)
    const [head, , signature] = token.split('.')
    const forged = Buffer.from(JSON.stringify({ organization_id: newId(), publishable_key_id: key.id })).toString(
      'base64url',
    )
    for (const changed of [`${token}A`, token.slice(0, -2), `${head}.${forged}.${signature}`, 'inlay_preview_'])
      expect(await codeOf(exchange(key, changed)), changed).toBe('INVALID_TOKEN')
    app.clock.now += 15 * minute
    expect(await codeOf(exchange(key, token))).toBe('TOKEN_EXPIRED')
  })

  test('as soon as the session that it comes from has ended', async () => {
    const key = await makeKey()
    const { end_user_id } = await startPreview(key)
    const [user] = await asOrg(
      app,
      'demo',
      (sql) => sql<{ id: string }>`
      select preview_user_id as id from end_users where id = ${end_user_id}`,
    )
    const end_user = { id: end_user_id, verified_email: undefined, provider: 'preview' }
    const issue = (previewer: { grant_id?: string; sign_in?: { session: string; generation: number } }) =>
      app.service.previewTokens.issue({
        organization_id: '',
        publishable_key_id: key.id,
        end_user: { ...end_user, previewer: { user_id: user?.id ?? '', ...previewer } },
      }).token
    expect(await codeOf(exchange(key, issue({ grant_id: newId() }))), 'the grant is gone').toBe('INVALID_TOKEN')
    expect(await codeOf(exchange(key, issue({ sign_in: { session: 'x', generation: 7 } })))).toBe('INVALID_TOKEN')
    const page = await connect(key, issue({ sign_in: { session: 'session-1', generation: 0 } }))
    await endSession(app.service, 'session-1')
    expect(await page.next('bye')).toMatchObject({ code: 'user_removed' })
  })
})

describe('a preview ends', () => {
  test('when its key is revoked', async () => {
    const key = await makeKey()
    const { token } = await startPreview(key)
    const page = await connect(key, token)
    await app.request('DELETE', `/publishable-keys/${key.id}`, { token: admin })
    expect(await page.next('bye')).toMatchObject({ code: 'key_revoked' })
    expect(await codeOf(exchange(key, token))).toBe('INVALID_KEY')
    const again = await app.request('POST', `/publishable-keys/${key.id}/preview`, { token: member })
    expect(again.status).toBe(404)
  })

  test('when its end user is erased', async () => {
    const key = await makeKey()
    const { token, end_user_id } = await startPreview(key)
    const page = await connect(key, token)
    await app.request('DELETE', `/end-users/${end_user_id}`, { token: admin })
    expect(await page.next('bye')).toMatchObject({ code: 'user_removed' })
    expect(await codeOf(exchange(key, token))).toBe('INVALID_TOKEN')
  })

  test('when the member leaves, but not when their role changes', async () => {
    const key = await makeKey()
    const email: Email = 'member@demo.test'
    const { token } = await startPreview(key)
    const page = await connect(key, token)
    const members = (await app.request('GET', '/organizations/current/members', { token: admin })).body
    const { id } = members.find(({ user }: { user: { email: string } }) => user.email === email)
    const path = `/organizations/current/members/${id}`
    await app.request('PATCH', path, { token: admin, body: { role: 'admin' } })
    await page.settled()
    expect((await exchange(key, token)).status).toBe(200)
    await app.request('DELETE', path, { token: admin })
    expect(await page.next('bye')).toMatchObject({ code: 'user_removed', reason: 'The member’s access has ended' })
    expect(await codeOf(exchange(key, token))).toBe('INVALID_TOKEN')
    expect((await app.request('POST', `/publishable-keys/${key.id}/preview`, { token: member })).status).toBe(403)
  })
})

test('an identity provider can’t issue an ID token for a preview’s end user', async () => {
  const provider = await startTestProvider()
  const key = await makeKey()
  await app.request('PATCH', '/identity-providers/config', {
    token: admin,
    body: { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] },
  })
  app.clock.now = Date.now()
  const id_token = await provider.idToken({ sub: `inlay-preview:${newId()}` })
  const headers = { origin: allowed }
  const answer = await app.request('POST', '/auth/pk-ticket', { headers, body: { publishable_key: key.key, id_token } })
  provider.stop()
  expect(answer.body.code).toBe('INVALID_TOKEN')
})
