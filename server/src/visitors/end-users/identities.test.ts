import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { createIdentities } from './identities.ts'

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
const exchange = (id_token: string) =>
  app.request('POST', '/auth/pk-ticket', { body: { publishable_key: key, id_token } })
const signIn = async (id_token: string) => (await exchange(id_token)).status
/** The end user whom a token leads to. */
const endUserOf = async (id_token: string): Promise<string> => (await exchange(id_token)).body.userId

test('the same subject of another issuer is another end user, and the first one comes back with their issuer', async () => {
  const [before, after] = [await startIssuer(), await startIssuer()]
  await trust(before.issuer)
  const first = await endUserOf(await before.idToken({ email: 'ann@a.example' }))
  await trust(after.issuer)
  const second = await endUserOf(await after.idToken({ email: 'eve@b.example' }))
  expect(second).not.toBe(first)
  const read = async (id: string) => (await app.request('GET', `/end-users/${id}`, { token: admin })).body
  expect([await read(first), await read(second)]).toMatchObject([
    { external_id: 'ann', email: 'ann@a.example' },
    { external_id: 'ann', email: 'eve@b.example' },
  ])
  await trust(before.issuer)
  expect(await endUserOf(await before.idToken())).toBe(first)
})

test('an end user without a known issuer is nobody whom a token leads to', async () => {
  const issuer = await startIssuer()
  await trust(issuer.issuer)
  const demo = await app.organization('demo')
  const id = randomUUID()
  await app.service.database.asOrg(
    demo,
    (sql) => sql`insert into end_users (organization_id, id, external_id) values (${demo}, ${id}, 'ann')`,
  )
  expect(await endUserOf(await issuer.idToken())).not.toBe(id)
})

test('a member’s preview keeps its end user, whatever the identity provider is', async () => {
  const { keys } = (await app.request('GET', '/publishable-keys', { token: admin })).body
  const preview = async () =>
    (await app.request('POST', `/publishable-keys/${keys[0].id}/preview`, { token: admin })).body.end_user_id
  const first = await preview()
  await trust((await startIssuer()).issuer)
  expect(await preview()).toBe(first)
})

describe('end users from before issuers were stored, in a Microsoft tenant that was entered by name', () => {
  const tenant = (id: string) => `https://login.microsoftonline.com/${id}/v2.0`
  const [ours, theirs] = ['11111111-1111-1111-1111-111111111111', '22222222-2222-2222-2222-222222222222']
  const trusted = {
    issuer: tenant('acme.onmicrosoft.com'),
    issuerPattern: /^https:\/\/login\.microsoftonline\.com\/[0-9a-f-]{36}\/v2\.0$/,
    audiences: ['shop'],
  }

  /** Stands in for Microsoft, whose address the server derives. */
  async function useTenant() {
    const { privateKey, publicKey } = await generateKeyPair('RS256')
    const jwk = { ...(await exportJWK(publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' }
    let id = ours
    const identitiesNow = () => {
      const answers = async (input: string | URL | Request) =>
        String(input).endsWith('/keys')
          ? Response.json({ keys: [jwk] })
          : Response.json({ issuer: tenant(id), jwks_uri: 'https://login.microsoftonline.com/keys' })
      return createIdentities({ ...app.service, fetch: answers as typeof fetch })
    }
    const add = async (sub: string): Promise<string> => {
      const demo = await app.organization('demo')
      const endUserId = randomUUID()
      await app.service.database.asOrg(
        demo,
        (sql) => sql`
          insert into end_users (organization_id, id, issuer, external_id)
          values (${demo}, ${endUserId}, ${trusted.issuer}, ${sub})`,
      )
      return endUserId
    }
    return {
      add,
      move: () => {
        id = theirs
      },
      async recognise(sub: string): Promise<string> {
        const token = await new SignJWT({ sub })
          .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
          .setIssuer(tenant(id))
          .setAudience('shop')
          .setIssuedAt()
          .setExpirationTime('1h')
          .sign(privateKey)
        const { endUserId } = await identitiesNow().recognise(await app.organization('demo'), token, trusted)
        return endUserId
      },
    }
  }

  test('are found with the tenant’s ID, which the provider states', async () => {
    const entra = await useTenant()
    const [ann, bob] = [await entra.add('ann'), await entra.add('bob')]
    expect([await entra.recognise('ann'), await entra.recognise('bob')]).toEqual([ann, bob])
    expect(await entra.recognise('ann'), 'again').toBe(ann)
  })

  test('aren’t found by another tenant that the name moved to', async () => {
    const entra = await useTenant()
    await entra.add('ann')
    const bob = await entra.add('bob')
    await entra.recognise('ann')
    entra.move()
    expect(await entra.recognise('bob')).not.toBe(bob)
  })
})

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
