import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { type TestService, useTestService } from '../../test/harness.ts'

/** An OpenID provider whose keys the test can withdraw, and whose responses it can delay. */
async function startIssuer() {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' }
  let keys = [jwk]
  let gate = Promise.resolve()
  let asked: () => void = () => undefined
  const server = createServer(async (request, response) => {
    const isForKeys = request.url?.endsWith('/jwks')
    if (isForKeys) asked()
    if (isForKeys) await gate
    const body = isForKeys ? { keys } : { issuer, jwks_uri: `${issuer}/jwks` }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    issuer,
    idToken: (claims: Record<string, unknown> = {}) =>
      new SignJWT({ sub: 'ann', ...claims })
        .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
        .setIssuer(issuer)
        .setAudience('shop')
        .setIssuedAt()
        .setExpirationTime('12h')
        .sign(privateKey),
    withdrawKeys() {
      keys = []
    },
    /** Delays the keys until `release`; `isAsked` resolves when they are requested. */
    holdKeys() {
      let release: () => void = () => undefined
      gate = new Promise<void>((resolve) => {
        release = resolve
      })
      const isAsked = new Promise<void>((resolve) => {
        asked = resolve
      })
      return { release, isAsked }
    },
  }
}

let app: TestService
let admin: string
let key: string
beforeEach(async () => {
  app = await useTestService()
  admin = await app.tokenFor('admin@demo.test', 'demo')
  key = (await app.request('POST', '/publishable-keys', { token: admin, body: { name: 'Widget' } })).body.key
})

const trust = (idp_issuer: string) =>
  app.request('PATCH', '/identity-providers/config', {
    token: admin,
    body: { idp_type: 'custom_oidc', idp_issuer, allowed_audiences: ['shop'] },
  })
const signIn = async (id_token: string) =>
  (await app.request('POST', '/auth/pk-ticket', { body: { publishable_key: key, id_token } })).status

test('a token from a replaced provider is rejected at once, and within 30 seconds on a node that missed the message', async () => {
  const [before, after] = [await startIssuer(), await startIssuer()]
  await trust(before.issuer)
  const idToken = await before.idToken()
  expect(await signIn(idToken)).toBe(200)
  await trust(after.issuer)
  expect(await signIn(idToken), 'replaced').toBe(401)

  await trust(before.issuer)
  expect(await signIn(idToken)).toBe(200)
  // Changes the database directly, as if the message were lost.
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update identity_providers set idp_issuer = ${after.issuer}`,
  )
  expect(await signIn(idToken), 'cached').toBe(200)
  app.clock.now += 30_000
  expect(await signIn(idToken), 'replaced, and the message lost').toBe(401)
})

test('a verification is not cached if the provider changes meanwhile', async () => {
  const [before, after] = [await startIssuer(), await startIssuer()]
  await trust(before.issuer)
  const idToken = await before.idToken()
  const { release, isAsked } = before.holdKeys()
  const first = signIn(idToken)
  await isAsked
  await trust(after.issuer)
  release()
  await first
  expect(await signIn(idToken)).toBe(401)
})

test('a token whose key the provider has withdrawn is rejected once the keys are fetched again', async () => {
  const provider = await startIssuer()
  await trust(provider.issuer)
  const idToken = await provider.idToken()
  expect(await signIn(idToken)).toBe(200)
  provider.withdrawKeys()
  app.clock.now += 10 * 60_000
  expect(await signIn(idToken)).toBe(401)
})

test('an end user who was deleted directly in the database is created again within 30 seconds', async () => {
  const provider = await startIssuer()
  await trust(provider.issuer)
  const idToken = await provider.idToken()
  expect(await signIn(idToken)).toBe(200)
  const { database } = app.service
  const demo = await app.organization('demo')
  await database.asOrg(demo, (sql) => sql`delete from end_users`)
  app.clock.now += 30_000
  expect(await signIn(idToken)).toBe(200)
  expect(await database.asOrg(demo, (sql) => sql`select id from end_users`)).toHaveLength(1)
})
