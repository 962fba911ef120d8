import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** A real OpenID provider in its own process, told what to do over the process channel. */
export interface TestProvider {
  issuer: string
  /** An ID token as the provider itself signs it, for a client, with claims that it is told to say. */
  idToken(claims?: Record<string, unknown>): Promise<string>
  /** New signing keys; the old ones are no longer published. */
  rotate(): Promise<void>
  /** How often its keys were fetched. */
  keyFetches(): Promise<number>
  stop(): Promise<void>
}

export async function startTestProvider(): Promise<TestProvider> {
  const child = fork(new URL('./oidc-provider-process.ts', import.meta.url), { stdio: 'ignore' })
  const [ready] = (await once(child, 'message')) as [{ issuer: string }]
  let stopped = false
  return {
    issuer: ready.issuer,
    idToken: async (claims = {}) => (await ask<{ token: string }>(child, { ask: 'token', claims })).token,
    rotate: async () => void (await ask(child, { ask: 'rotate' })),
    keyFetches: async () => (await ask<{ count: number }>(child, { ask: 'fetches' })).count,
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
