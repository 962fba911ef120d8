import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Browser } from './browser.ts'

/** A real OpenID provider in its own process, told what to do over the process channel. */
export interface TestProvider {
  issuer: string
  /** An ID token as the provider itself signs it, for a client, with claims that it is told to say. */
  idToken(claims?: Record<string, unknown>): Promise<string>
  /** New signing keys; the old ones are no longer published. */
  rotate(): Promise<void>
  /** How often its keys were fetched. */
  keyFetches(): Promise<number>
  /** Whoever comes to sign in is this person, or is refused with an error. */
  expect(person: { sub: string; [claim: string]: unknown } | { error: string }): Promise<void>
  /** While it is away connections break; while it lies the keys that it publishes are not those it signs with. */
  behave(how: { away?: boolean; lying?: boolean }): Promise<void>
  /** Goes where a browser without cookies would, until the provider sends it to another origin. */
  visit(address: string): Promise<string>
  stop(): Promise<void>
}

/** A lean one keeps everything but the subject out of its ID tokens; one with TLS has the certificate of localhost. */
export async function startTestProvider({ lean = false, tls = false } = {}): Promise<TestProvider> {
  const traits = [...(lean ? ['lean'] : []), ...(tls ? ['tls'] : [])]
  const child = fork(new URL('./oidc-provider-process.ts', import.meta.url), traits, { stdio: 'ignore' })
  const [ready] = (await once(child, 'message')) as [{ issuer: string }]
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

async function ask<T>(child: ChildProcess, message: Record<string, unknown>): Promise<T> {
  const answered = once(child, 'message') as Promise<[T]>
  child.send(message)
  return (await answered)[0]
}

async function followUntilElsewhere(issuer: string, start: string): Promise<string> {
  const browser = await new Browser(issuer).open(start)
  if (!browser.left) throw new Error(`The provider keeps the browser: ${browser.text}`)
  return browser.left.href
}
