import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { hub, resource, secret, setUp, tokenRequest } from '../test/fixture.ts'
import { noWorkers, startWorker } from '../test/workers.ts'

/** A Worker that serves metadata, tokens, and one page for callers. */
const worker = `
import { createToolServer, toResponse } from './tool-server.ts'
let server
export default {
  async fetch(request, { options }) {
    server ??= createToolServer(options)
    const own = await server.fetch(request)
    if (own) return own
    const verified = await server.verify(request, ['mcp:tools:call'])
    return verified.ok ? Response.json(verified.caller) : toResponse(verified.answer)
  },
}`

test('runs in the Cloudflare Workers runtime, without Node', { timeout: 60_000 }, async ({ skip }) => {
  skip(noWorkers !== undefined, noWorkers)
  await using fixture = await setUp('RS256')
  fixture.time.now = Date.now()
  const stdin = { contents: worker, resolveDir: fileURLToPath(new URL('.', import.meta.url)) }
  const options = { resource, hubs: [{ ...hub, issuer: fixture.provider.issuer }], secrets: [secret] }
  const miniflare = await startWorker({ stdin }, { bindings: { options } })
  try {
    const ask = async (request: Request) => {
      const headers = Object.fromEntries(request.headers)
      const body = request.method === 'POST' ? await request.text() : null
      return miniflare.dispatchFetch(request.url, { method: request.method, headers, body })
    }
    const assertion = await fixture.provider.sign(fixture.claims())
    const granted = await ask(tokenRequest(assertion))
    expect(granted.status).toBe(200)
    const { access_token } = (await granted.json()) as { access_token: string }
    const again = await ask(tokenRequest(assertion))
    expect([again.status, await again.text()]).toEqual([400, '{"error":"invalid_grant"}'])

    const call = (token: string) => ask(new Request(resource, { headers: { authorization: `Bearer ${token}` } }))
    expect(await (await call(access_token)).json()).toMatchObject({ subject: 'ann' })
    expect((await call(`${access_token.slice(0, -4)}AAAA`)).status).toBe(401)
  } finally {
    await miniflare.dispose()
  }
})
