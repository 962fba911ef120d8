import { randomUUID } from 'node:crypto'
import * as oauth from 'openid-client'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { recheckMs } from '../src/kernel/stores/changes.ts'
import { parseTopic, topics } from '../src/kernel/stores/topics.ts'
import { Browser } from './browser.ts'
import { confirmFrame, createFrameKey } from './frames.ts'
import { type Pair, startPair } from './node-pair.ts'
import { allow, exchange, prepare, register } from './oauth-client.ts'
import { offer, openPage, type Page, pageOrigin } from './page.ts'
import { patience } from './processes.ts'
import { connectDirectory } from './scim.ts'
import { callerFor, member, type Person } from './shop.ts'

type Kind = ReturnType<typeof parseTopic>[0]

interface Prepared {
  /** What a client of the second node sees. */
  see(): Promise<unknown>
  /** A request to the first node. */
  change(): Promise<unknown>
  before: unknown
  after: unknown
  /** A page that stays open. */
  page?: Page
}

const asAdmin = ({ one, admin }: Pair, method: string, path: string, body?: object) =>
  one.request(method, path, { token: admin, ...(body && { body }) })

const statusAtTwo = async ({ two }: Pair, token: string, path = '/publishable-keys') =>
  (await two.request('GET', path, { token })).status

/** The member's page on the second node, and their end user. */
async function pageOf({ one, two }: Pair) {
  const { ticket, userId } = await one.exchange(member)
  const page = await openPage(two.local, ticket)
  return { page, userId, see: endOf(page) }
}

/** The code with which the page's socket was closed. */
function endOf({ closed }: Page) {
  let end: number | undefined
  void closed.then(({ code }) => {
    end = code
  })
  return async () => end
}

const closesPage = { before: undefined, after: 4403 }
const closesApi = { before: 200, after: 401 }

/** A client whose token belongs to a grant and to a session in a browser. */
async function signIn({ one }: Pair) {
  const [config, browser] = [await register(one.url), new Browser(one.url)]
  const attempt = await prepare(config, {}, browser)
  return { config, browser, tokens: await exchange(config, attempt, await allow(attempt, 'member@demo.test')) }
}

/** The member's calls of the tool `add` in their page on the second node. */
async function callOf(pair: Pair) {
  const { page } = await pageOf(pair)
  await offer(page, 'add')
  page.answer(() => 'added')
  const me = await callerFor(pair.two, 'member@demo.test', 'demo')
  const call = (name = 'add') =>
    me.call(name).then(
      () => 'answered',
      ({ envelope }) => envelope.code as string,
    )
  return { page, call }
}

const cases: [kind: Kind, what: string, prepare: (pair: Pair) => Promise<Prepared>][] = [
  [
    'user',
    'a member who was removed',
    async (pair) => {
      const token = await pair.one.tokenFor('member@demo.test', 'demo')
      const { body } = await asAdmin(pair, 'GET', '/organizations/current/members')
      const { id } = body.find(({ role }: { role: string }) => role === 'member')
      const change = () => asAdmin(pair, 'DELETE', `/organizations/current/members/${id}`)
      return { see: () => statusAtTwo(pair, token), change, before: 200, after: 403 }
    },
  ],
  [
    'user',
    'a member whom a directory deactivated',
    async (pair) => {
      const token = await pair.one.tokenFor('member@demo.test', 'demo')
      const directory = await connectDirectory(pair.one)
      const id = await directory.addUser('member@demo.test')
      const change = () => directory.deactivate(id)
      return { see: () => statusAtTwo(pair, token), change, before: 200, after: 403 }
    },
  ],
  [
    'token',
    'a token that was revoked',
    async (pair) => {
      const token = await pair.one.tokenFor('member@demo.test', 'demo')
      const change = () => pair.one.request('POST', '/auth/logout', { token })
      return { see: () => statusAtTwo(pair, token), change, ...closesApi }
    },
  ],
  [
    'session',
    'a user who signed out',
    async (pair) => {
      const { browser, tokens } = await signIn(pair)
      const change = async () => (await browser.open('/oauth/logout')).press('Sign out')
      return { see: () => statusAtTwo(pair, tokens.access_token, '/users/me'), change, ...closesApi }
    },
  ],
  [
    'grant',
    'a client that revoked its tokens',
    async (pair) => {
      const { config, tokens } = await signIn(pair)
      const change = () => oauth.tokenRevocation(config, String(tokens.refresh_token))
      return { see: () => statusAtTwo(pair, tokens.access_token, '/users/me'), change, ...closesApi }
    },
  ],
  [
    'service-account',
    'a service account that was deleted',
    async (pair) => {
      const { body } = await asAdmin(pair, 'POST', '/service-accounts', { name: 'CI', role: 'member' })
      const change = () => asAdmin(pair, 'DELETE', `/service-accounts/${body.id}`)
      return { see: () => statusAtTwo(pair, body.key), change, ...closesApi }
    },
  ],
  [
    'key',
    'a key that was revoked',
    async (pair) => {
      const { page, see } = await pageOf(pair)
      const change = () => asAdmin(pair, 'DELETE', `/publishable-keys/${pair.one.keyId}`)
      return { page, see, change, ...closesPage }
    },
  ],
  [
    'end-user',
    'an end user who was erased',
    async (pair) => {
      const { page, see, userId } = await pageOf(pair)
      return { page, see, change: () => asAdmin(pair, 'DELETE', `/end-users/${userId}`), ...closesPage }
    },
  ],
  [
    'end-user',
    'an end user whom a directory deactivated',
    async (pair) => {
      const directory = await connectDirectory(pair.one)
      const id = await directory.addUser('member@demo.test')
      return { ...(await pageOf(pair)), change: () => directory.deactivate(id), ...closesPage }
    },
  ],
  [
    'end-user',
    'an end user who was carried over',
    async (pair) => {
      const { one } = pair
      const former = { id: randomUUID(), issuer: 'https://former.example' }
      const demo = await one.organization('demo')
      await one.service.database.asOrg(
        demo,
        (sql) => sql`
          insert into end_users (organization_id, id, issuer, external_id)
          values (${demo}, ${former.id}, ${former.issuer}, 'former')`,
      )
      const { page, see, userId } = await pageOf(pair)
      const exchanged = () => exchangeAtTwo(pair)
      const seen = async () => ({ closed: await see(), userId: (await exchanged()).body.userId })
      const users = [{ from: 'former', to: 'mem' }]
      const body = { from_issuer: former.issuer, by: 'list', users, is_preview: false }
      return {
        page,
        see: seen,
        change: () => asAdmin(pair, 'POST', '/identity-providers/carry-over', body),
        before: { closed: undefined, userId },
        after: { closed: 4403, userId: former.id },
      }
    },
  ],
  [
    'identity-provider',
    'an identity provider that is no longer trusted',
    async (pair) => ({
      see: async () => (await exchangeAtTwo(pair)).status,
      change: () => asAdmin(pair, 'PATCH', '/identity-providers/config', { idp_issuer: 'https://other.example' }),
      ...closesApi,
    }),
  ],
  [
    'frames',
    'a client for confirmations that was removed',
    async (pair) => {
      const { one, two } = pair
      const client = { client_id: 'inlay', client_secret: 'secret-of-inlay' }
      await asAdmin(pair, 'PUT', '/identity-providers/frame-sign-in', client)
      const frame = await createFrameKey(one.url, () => one.clock.now)
      const { ticket, userId } = await one.frameTicket(member as NonNullable<Person>, frame)
      await confirmFrame(one, frame, userId, { issuer: one.issuer })
      const page = await openPage(two.local, ticket, { origin: one.url, hello: { url: `${pageOrigin}/` } })
      return {
        page,
        see: async () => page.unread('frame').at(-1)?.can_confirm,
        change: () => asAdmin(pair, 'DELETE', '/identity-providers/frame-sign-in'),
        before: true,
        after: false,
      }
    },
  ],
  [
    'frames',
    'a second site, which could claim to be the first,',
    async (pair) => {
      const { one, two } = pair
      const { ticket } = await one.frameTicket(
        member as NonNullable<Person>,
        await createFrameKey(one.url, () => one.clock.now),
      )
      const page = await openPage(two.local, ticket, { origin: one.url, hello: { url: `${pageOrigin}/` } })
      const key = { name: 'CRM', allowed_origins: ['https://crm.example'] }
      const change = () => asAdmin(pair, 'POST', '/publishable-keys', key)
      return { page, see: endOf(page), change, before: undefined, after: 4401 }
    },
  ],
  [
    'connectors',
    'a connector that was deleted',
    async (pair) => {
      const { page, call } = await callOf(pair)
      const connector = { name: 'crm', kind: 'id_jag', server_url: 'http://127.0.0.1:9/mcp', client_id: 'hub' }
      const { body } = await asAdmin(pair, 'POST', '/connectors', { ...connector, client_secret: 'secret-of-hub' })
      const change = () => asAdmin(pair, 'DELETE', `/connectors/${body.id}`)
      return { page, see: () => call('crm.add'), change, before: 'DELEGATION_FAILED', after: 'NOT_FOUND' }
    },
  ],
  [
    'governance',
    'a governance provider that was switched on',
    async (pair) => {
      const { page, call } = await callOf(pair)
      const provider = { interceptor_name: 'policies', is_enabled: true }
      const change = () => asAdmin(pair, 'PATCH', '/governance/providers/config', provider)
      return { page, see: () => call(), change, before: 'answered', after: 'CALL_REFUSED' }
    },
  ],
  [
    'tool-call-settings',
    'contents that are no longer kept',
    async (pair) => {
      const { one, two } = pair
      const keep = (contents_days: number) => asAdmin(pair, 'PATCH', '/tool-calls/settings', { contents_days })
      await keep(30)
      const { page, call } = await callOf(pair)
      const demo = await one.organization('demo')
      /** Whether the contents of a new call are. Those of earlier calls expire meanwhile. */
      const isKept = async () => {
        await call()
        await two.service.toolCalls.flush()
        const [latest] = await one.service.database.asOrg(
          demo,
          (sql) => sql<{ is_kept: boolean }>`
            select exists (select from tool_call_contents where call_id = id) as is_kept from tool_call_records
            order by at desc, id desc limit 1`,
        )
        return latest?.is_kept
      }
      return { page, see: isKept, change: () => keep(0), before: true, after: false }
    },
  ],
  [
    'agent-settings',
    'settings of the agent that were changed',
    async (pair) => {
      const { one, two } = pair
      const rename = (name: string) => asAdmin(pair, 'PATCH', '/agent/config', { name })
      await rename('First')
      const demo = await one.organization('demo')
      const see = async () => (await two.service.agentSettings.of(demo)).name
      return { see, change: () => rename('Second'), before: 'First', after: 'Second' }
    },
  ],
]

async function exchangeAtTwo({ one, two }: Pair) {
  const id_token = await one.idToken(member as NonNullable<Person>)
  const body = { publishable_key: one.publishableKey, id_token, embedding_origin: pageOrigin }
  return two.request('POST', '/auth/pk-ticket', { body, headers: { origin: pageOrigin } })
}

/** Only how long a node caches the tools that it offers depends on them; see fresh-cache.test.ts. */
const cachedOnly: Kind[] = ['consents']

test('every kind of change that nodes tell each other is lost in a test', () => {
  const known = Object.values(topics).map((topic) => parseTopic(topic('x'))[0])
  expect([...new Set([...cases.map(([kind]) => kind), ...cachedOnly])].toSorted()).toEqual(known.toSorted())
})

describe('a node that missed a message notices within 30 seconds:', { timeout: 120_000 }, () => {
  test.each(cases)('%s, for %s', async (_kind, _what, prepareFor) => {
    const pair = await startPair()
    const { two, proxy } = pair
    const { see, change, before, after, page } = await prepareFor(pair)
    expect(await see()).toEqual(before)
    proxy.mute()
    onTestFinished(() => proxy.restore())
    await change()
    await page?.settled()
    expect(await see(), 'the message is lost').toEqual(before)
    for (const milliseconds of [20_000, recheckMs - 20_000]) {
      await page?.settled()
      two.clock.now += milliseconds
      two.service.runtime.sweep()
    }
    await vi.waitFor(async () => expect(await see()).toEqual(after), patience)
  })
})
