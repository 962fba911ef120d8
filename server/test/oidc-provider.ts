import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Browser } from './browser.ts'

/** A real OpenID provider in its own process, controlled with messages. */
export interface TestProvider {
  issuer: string
  /** Issues an ID token with the given claims. */
  idToken(claims?: Record<string, unknown>): Promise<string>
  /** Replaces the signing keys; the old ones are no longer published. */
  rotate(): Promise<void>
  /** Number of times that its keys were fetched. */
  keyFetches(): Promise<number>
  /** Sets the user who signs in next, or the error that sign-in returns. */
  expect(person: { sub: string; [claim: string]: unknown } | { error: string }): Promise<void>
  /** `away` breaks connections; `lying` publishes other keys than those that it signs with. */
  behave(how: { away?: boolean; lying?: boolean }): Promise<void>
  /** Follows redirects like a browser without cookies, until the provider redirects to another origin. */
  visit(address: string): Promise<string>
  stop(): Promise<void>
}

/** With `lean`, ID tokens only contain the subject. With `tls`, it uses the certificate for localhost. */
export async function startTestProvider({ lean = false, tls = false } = {}): Promise<TestProvider> {
  const traits = [...(lean ? ['lean'] : []), ...(tls ? ['tls'] : [])]
  const child = fork(new URL('./oidc-provider-process.ts', import.meta.url), traits, { stdio: 'ignore' })
  const [ready] = (await once(child, 'message')) as [{ issuer: string }]
  child.setMaxListeners(0)
  let stopped = false
  return {
    issuer: ready.issuer,
    idToken: async (claims = {}) => (await ask<{ token: string }>(child, { ask: 'token', claims })).token,
    rotate: async () => void (await ask(child, { ask: 'rotate' })),
    keyFetches: async () => (await ask<{ count: number }>(child, { ask: 'fetches' })).count,
    expect: async (person) => void (await ask(child, { ask: 'expect', person })),
    behave: async (how) => void (await ask(child, { ask: 'behave', how })),
    visit: (address) => followUntilElsewhere(ready.issuer, address),
    async stop() {
      if (stopped) return
      stopped = true
      const exited = once(child, 'exit')
      child.kill()
      await exited
    },
  }
}

let lastId = 0

/** Tests may ask several things at once, so each answer has the ID of its question. */
function ask<T>(child: ChildProcess, message: Record<string, unknown>): Promise<T> {
  lastId += 1
  const id = lastId
  return new Promise((resolve) => {
    const read = (reply: { id: number; answer: T }) => {
      if (reply.id !== id) return
      child.off('message', read)
      resolve(reply.answer)
    }
    child.on('message', read)
    child.send({ id, ...message })
  })
}

async function followUntilElsewhere(issuer: string, start: string): Promise<string> {
  const browser = await new Browser(issuer).open(start)
  if (!browser.left) throw new Error(`The provider did not redirect the browser: ${browser.text}`)
  return browser.left.href
}
