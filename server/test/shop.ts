import { goneAfterMs } from '@inlay/protocol'
import { expect, onTestFinished } from 'vitest'
import { createAccess } from '../src/accounts/access/access.ts'
import { clockToleranceMs } from '../src/accounts/access/access-tokens.ts'
import type { MemberCaller } from '../src/kernel/foundation/caller.ts'
import type { ToolCall } from '../src/kernel/foundation/tool.ts'
import { memberAsToolUser } from '../src/kernel/foundation/tool-user.ts'
import { resources } from '../src/kernel/http/protected-resources.ts'
import { confirmFrame, createFrameKey, type FrameKey } from './frames.ts'
import type { Email } from './harness.ts'
import { type HttpService, startHttpService } from './http-server.ts'
import { startTestProvider, type TestProvider } from './oidc-provider.ts'
import { openPage, type Page, type PageOptions, pageOrigin } from './page.ts'

/** An organization with pages that embed the widget, and signed-in end users. */
export interface Shop extends HttpService {
  keyId: string
  issuer: string
  publishableKey: string
  idToken(who: NonNullable<Person>): Promise<string>
  exchange(who?: Person, publishableKey?: string): Promise<{ ticket: string; userId: string }>
  ticket(who?: Person): Promise<string>
  /** With the server's own origin and a user, it's the widget's frame in a browser that the user has confirmed. */
  page(who?: Person, options?: PageOptions): Promise<Page>
  /** Gets a ticket like the frame of a page with the shop's origin. The key isn't confirmed for the user. */
  frameTicket(who: NonNullable<Person>, key: FrameKey): Promise<{ ticket: string; userId: string }>
  /** Opens the page of an anonymous visitor, with another publishable key. */
  otherKeysPage(): Promise<Page>
  caller(email: Email, slug?: 'demo' | 'other'): ReturnType<typeof callerFor>
  /** Advances the clock, and runs the timers that run once a second. */
  pass(milliseconds: number): void
  /** Closes the pages that other tests left open. */
  closePages(): void
}

/** An end user, or undefined for an anonymous visitor. */
export type Person = { sub: string; email?: string; email_verified?: boolean } | undefined

export const member: Person = { sub: 'mem', email: 'Member@demo.test', email_verified: true }

/** Shared by all shops of a test worker, because they only need its tokens. It ends with the worker. */
let provider: Promise<TestProvider> | undefined

/** Starts a shop for one test. */
export async function useShop(): Promise<Shop> {
  const shop = await startShop()
  onTestFinished(() => shop.close())
  return shop
}

export async function startShop(env: Record<string, string> = {}): Promise<Shop> {
  provider ??= startTestProvider()
  const { issuer, idToken: issue } = await provider
  const app = await startHttpService(env)
  const token = await app.tokenFor('admin@demo.test', 'demo')
  await app.request('PATCH', '/identity-providers/config', {
    token,
    body: { idp_type: 'custom_oidc', idp_issuer: issuer, allowed_audiences: ['shop'] },
  })
  const key = (
    await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop', allowed_origins: [pageOrigin] } })
  ).body
  const tokens = new Map<string, Promise<string>>()
  const idToken = (person: NonNullable<Person>) => {
    const known = tokens.get(JSON.stringify(person)) ?? issue(person)
    tokens.set(JSON.stringify(person), known)
    return known
  }
  /** The provider uses the real time. If a file takes longer than clocks may differ, its tokens are from the future. */
  const keepTime = () => {
    app.clock.now = Math.max(app.clock.now, Date.now() - clockToleranceMs / 2)
  }
  const frameTicket: Shop['frameTicket'] = async (person, frame) => {
    keepTime()
    const id_token = await idToken(person)
    const { status, body } = await app.request('POST', '/auth/pk-ticket', {
      headers: await frame.headers(id_token),
      body: { publishable_key: key.key, id_token, embedding_origin: pageOrigin },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }
  let ownKey: Promise<FrameKey> | undefined
  const confirmed = new Set<string>()
  /** All frames share a key. */
  const confirmedTicket = async (person: NonNullable<Person>) => {
    ownKey ??= createFrameKey(app.url, () => app.clock.now)
    const frame = await ownKey
    const { ticket, userId } = await frameTicket(person, frame)
    if (!confirmed.has(userId)) await confirmFrame(app, frame, userId, { issuer, browser: 'browser' })
    confirmed.add(userId)
    return ticket
  }
  const exchange = async (person?: Person, publishable_key = key.key) => {
    keepTime()
    const { status, body } = await app.request('POST', '/auth/pk-ticket', {
      headers: { origin: pageOrigin },
      body: { publishable_key, ...(person && { id_token: await idToken(person) }) },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }
  const ticket = async (person?: Person) => (await exchange(person)).ticket
  const pass = (milliseconds: number) => {
    app.clock.now += milliseconds
    app.service.runtime.sweep()
    app.service.hub.switchboard.sweep()
  }
  return {
    ...app,
    keyId: key.id,
    publishableKey: key.key,
    issuer,
    idToken,
    frameTicket,
    exchange,
    ticket,
    async otherKeysPage() {
      const other = await app.request('POST', '/publishable-keys', { token, body: { name: 'Other' } })
      return openPage(app.local, (await exchange(undefined, other.body.key)).ticket)
    },
    async page(person, options) {
      const isFrame = person && options?.origin === app.url
      return openPage(app.local, await (isFrame ? confirmedTicket(person) : ticket(person)), options)
    },
    caller: (email, slug = 'demo') => callerFor(app, email, slug),
    pass,
    closePages() {
      pass(goneAfterMs)
      app.clock.now -= goneAfterMs
    },
  }
}

/** Calls the hub like a member's MCP client, without MCP. */
export async function callerFor(app: HttpService, email: Email, slug: 'demo' | 'other') {
  const access = await createAccess(app.service)
  const authorization = `Bearer ${await app.tokenFor(email, slug)}`
  const caller = memberAsToolUser(
    (await access.check(authorization, { access: 'org' }, resources(app.url).api)) as MemberCaller,
  )
  const { hub } = app.service
  return {
    sources: () => hub.listSources(caller),
    tools: (filter: Partial<Parameters<typeof hub.listTools>[1]> = {}) =>
      hub.listTools(caller, { include_sources: false, ...filter }),
    call: (
      tool_name: string,
      args: Record<string, unknown> = {},
      { source_id, ...call }: Partial<ToolCall> & { source_id?: string } = {},
    ) =>
      hub.callTool(
        caller,
        { tool_name, args, source_id },
        { signal: new AbortController().signal, progress: () => undefined, ...call },
      ),
  }
}
