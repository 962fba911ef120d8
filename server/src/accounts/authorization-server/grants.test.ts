import { createLocalJWKSet, jwtVerify } from 'jose'
import { inject } from 'light-my-request'
import * as oauth from 'openid-client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { allow, claimsOf, exchange, obtain, prepare, register } from '../../../test/oauth-client.ts'
import { type App, createApp } from '../../app.ts'
import { rotateAfterMs } from '../access/signing-keys.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

const invalidGrant = { error: 'invalid_grant' }
const day = 24 * 60 * 60_000
function passSeconds(seconds: number): void {
  app.clock.now += seconds * 1000
  onTestFinished(() => {
    app.clock.now -= seconds * 1000
  })
}
const status = async (token: string) => (await app.request('GET', '/users/me', { token })).status

describe('a code', () => {
  test('works once, and a second use revokes the grant', async () => {
    const config = await register(app.url)
    const attempt = await prepare(config)
    const answer = await allow(attempt, 'admin@demo.test')
    const tokens = await exchange(config, attempt, answer)
    await expect(exchange(config, attempt, answer)).rejects.toMatchObject(invalidGrant)
    await expect(oauth.refreshTokenGrant(config, String(tokens.refresh_token))).rejects.toMatchObject(invalidGrant)
    expect(await status(tokens.access_token)).toBe(401)
  })

  test('works for exactly one of many concurrent uses, and then the grant is revoked', async () => {
    const config = await register(app.url)
    const attempt = await prepare(config)
    const answer = await allow(attempt, 'admin@demo.test')
    const uses = await Promise.allSettled(Array.from({ length: 20 }, () => exchange(config, attempt, answer)))
    const won = uses.filter((use) => use.status === 'fulfilled')
    expect(won).toHaveLength(1)
    for (const use of uses) if (use.status === 'rejected') expect(use.reason).toMatchObject(invalidGrant)
    for (const { value } of won) {
      const next = oauth.refreshTokenGrant(config, String(value.refresh_token))
      await expect(next).rejects.toMatchObject(invalidGrant)
    }
  })
})

describe('a refresh token', () => {
  test('is replaced on each use, for the same organization and resource', async () => {
    const config = await register(app.url)
    const first = await obtain(config, 'member@demo.test', { organization: 'Other', resource: `${app.url}/api` })
    const second = await oauth.refreshTokenGrant(config, String(first.refresh_token))
    const third = await oauth.refreshTokenGrant(config, String(second.refresh_token))
    expect(new Set([first, second, third].map(({ refresh_token }) => refresh_token)).size).toBe(3)
    const claims = claimsOf(third.access_token)
    expect(claims).toMatchObject({ org_id: await app.organization('other'), aud: `${app.url}/api`, scope: 'inlay' })
    expect(await status(third.access_token)).toBe(200)
  })

  test('returns the same successor when reused within ten seconds', async () => {
    const config = await register(app.url)
    const first = await obtain(config, 'admin@demo.test')
    const second = await oauth.refreshTokenGrant(config, String(first.refresh_token))
    passSeconds(10)
    const again = await oauth.refreshTokenGrant(config, String(first.refresh_token))
    expect(again.refresh_token).toBe(second.refresh_token)
    for (const { access_token } of [second, again]) expect(await status(access_token)).toBe(200)
    const third = await oauth.refreshTokenGrant(config, String(again.refresh_token))
    expect(third.refresh_token).not.toBe(second.refresh_token)
  })

  test('revokes the grant when reused after ten seconds', async () => {
    const config = await register(app.url)
    const first = await obtain(config, 'admin@demo.test')
    const second = await oauth.refreshTokenGrant(config, String(first.refresh_token))
    passSeconds(10.1)
    await expect(oauth.refreshTokenGrant(config, String(first.refresh_token))).rejects.toMatchObject(invalidGrant)
    await expect(oauth.refreshTokenGrant(config, String(second.refresh_token))).rejects.toMatchObject(invalidGrant)
    expect(await status(second.access_token)).toBe(401)
  })

  test('still revokes the grant on a late reuse that follows one within ten seconds', async () => {
    const config = await register(app.url)
    const first = await obtain(config, 'admin@demo.test')
    const refresh = (token: string | undefined) => oauth.refreshTokenGrant(config, String(token))
    const second = await refresh(first.refresh_token)
    const third = await refresh(second.refresh_token)
    passSeconds(6)
    expect((await refresh(first.refresh_token)).refresh_token, 'the used successor').toBe(second.refresh_token)
    passSeconds(6)
    await expect(refresh(second.refresh_token)).rejects.toMatchObject(invalidGrant)
    await expect(refresh(third.refresh_token)).rejects.toMatchObject(invalidGrant)
  })

  test('has one successor when used many times concurrently at two servers with the same stores', async () => {
    const config = await register(app.url)
    const { refresh_token } = await obtain(config, 'admin@demo.test')
    const other = await createApp(app.service)
    const client_id = config.clientMetadata().client_id
    const payload = new URLSearchParams({
      grant_type: 'refresh_token',
      client_id,
      refresh_token: String(refresh_token),
    })
    const refresh = async (listener: App['listener']) => {
      const headers = { 'content-type': 'application/x-www-form-urlencoded' }
      const request = { method: 'POST', url: '/oauth/token', headers, payload: String(payload) } as const
      return (await inject(listener as never, request)).json() as { access_token: string; refresh_token: string }
    }
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, use) => refresh(use % 2 ? app.listener : other.listener)),
    )
    const [successor, ...others] = new Set(answers.map((answer) => answer.refresh_token))
    expect(others).toEqual([])
    expect(await oauth.refreshTokenGrant(config, String(successor))).toHaveProperty('refresh_token')
    for (const { access_token } of answers) expect(await status(access_token)).toBe(200)
  })

  test('is useless for another client within ten seconds', async () => {
    const config = await register(app.url)
    const first = await obtain(config, 'admin@demo.test')
    const second = await oauth.refreshTokenGrant(config, String(first.refresh_token))
    const stolen = oauth.refreshTokenGrant(await register(app.url), String(first.refresh_token))
    await expect(stolen).rejects.toMatchObject(invalidGrant)
    expect(await oauth.refreshTokenGrant(config, String(second.refresh_token))).toHaveProperty('access_token')
  })

  test('is useless within ten seconds once it was revoked', async () => {
    const config = await register(app.url)
    const first = await obtain(config, 'admin@demo.test')
    const second = await oauth.refreshTokenGrant(config, String(first.refresh_token))
    await oauth.tokenRevocation(config, String(second.refresh_token))
    await expect(oauth.refreshTokenGrant(config, String(first.refresh_token))).rejects.toMatchObject(invalidGrant)
  })

  test('does not work for another client', async () => {
    const { refresh_token } = await obtain(await register(app.url), 'admin@demo.test')
    const stolen = oauth.refreshTokenGrant(await register(app.url), String(refresh_token))
    await expect(stolen).rejects.toMatchObject(invalidGrant)
  })

  test('does not work for a resource that was not allowed', async () => {
    const config = await register(app.url)
    const { refresh_token } = await obtain(config, 'admin@demo.test', { resource: `${app.url}/mcp` })
    const wider = oauth.refreshTokenGrant(config, String(refresh_token), { resource: `${app.url}/api` })
    await expect(wider).rejects.toMatchObject({ error: 'invalid_target' })
  })

  test('is not accepted as an access token', async () => {
    const { refresh_token } = await obtain(await register(app.url), 'admin@demo.test')
    expect(await status(String(refresh_token))).toBe(401)
  })
})

describe('a grant ends', () => {
  test('when its refresh token is revoked', async () => {
    const config = await register(app.url)
    const tokens = await obtain(config, 'admin@demo.test')
    await oauth.tokenRevocation(config, String(tokens.refresh_token))
    await expect(oauth.refreshTokenGrant(config, String(tokens.refresh_token))).rejects.toMatchObject(invalidGrant)
    expect(await status(tokens.access_token)).toBe(401)
  })

  test('not when one of its access tokens is revoked, which only ends that token', async () => {
    const config = await register(app.url)
    const tokens = await obtain(config, 'admin@demo.test')
    expect(await status(tokens.access_token), 'cached by the node').toBe(200)
    await oauth.tokenRevocation(config, tokens.access_token)
    expect(await status(tokens.access_token)).toBe(401)
    const fresh = await oauth.refreshTokenGrant(config, String(tokens.refresh_token))
    expect(await status(fresh.access_token)).toBe(200)
  })

  test('not when another client tries to revoke one of its access tokens', async () => {
    const { access_token } = await obtain(await register(app.url), 'admin@demo.test')
    await oauth.tokenRevocation(await register(app.url), access_token)
    expect(await status(access_token)).toBe(200)
  })

  test.each([
    ['is unknown', () => 'unknown'],
    ['is not a token', () => 'a.b.c'],
    ['has an invalid signature', async (token: string) => `${token.slice(0, -4)}AAAA`],
    ['was not issued to a client', () => app.tokenFor('admin@demo.test')],
    ['has expired', async (token: string) => token],
  ])('not when the revoked token %s, and the response is the same', async (name, make) => {
    const config = await register(app.url)
    const tokens = await obtain(config, 'admin@demo.test')
    const body = new URLSearchParams({
      client_id: config.clientMetadata().client_id,
      token: await make(tokens.access_token),
      token_type_hint: 'access_token',
    })
    const later = name === 'has expired' ? 2 * 60 * 60_000 : 0
    app.clock.now += later
    onTestFinished(() => {
      app.clock.now -= later
    })
    const response = await fetch(`${app.url}/oauth/revoke`, { method: 'POST', body })
    expect({ status: response.status, text: await response.text() }).toEqual({ status: 200, text: '' })
    expect(await oauth.refreshTokenGrant(config, String(tokens.refresh_token))).toHaveProperty('access_token')
  })

  test('not when a client with a secret revokes without it', async () => {
    const config = await register(app.url, { token_endpoint_auth_method: 'client_secret_post' })
    const { access_token } = await obtain(config, 'admin@demo.test')
    const guess = { client_id: config.clientMetadata().client_id, client_secret: 'guess', token: access_token }
    const response = await fetch(`${app.url}/oauth/revoke`, { method: 'POST', body: new URLSearchParams(guess) })
    expect(response.status).toBe(401)
    expect(await response.json()).toMatchObject({ error: 'invalid_client' })
    expect(await status(access_token)).toBe(200)
  })

  test('not when another client tries to revoke it', async () => {
    const config = await register(app.url)
    const tokens = await obtain(config, 'admin@demo.test')
    await oauth.tokenRevocation(await register(app.url), String(tokens.refresh_token))
    expect(await oauth.refreshTokenGrant(config, String(tokens.refresh_token))).toHaveProperty('access_token')
  })

  test('with a logout, and other grants of the same user and client stay valid', async () => {
    const config = await register(app.url)
    const [one, other] = [await obtain(config, 'admin@demo.test'), await obtain(config, 'admin@demo.test')]
    await app.request('POST', '/auth/logout', { token: one.access_token })
    await expect(oauth.refreshTokenGrant(config, String(one.refresh_token))).rejects.toMatchObject(invalidGrant)
    expect(await status(one.access_token)).toBe(401)
    expect(await oauth.refreshTokenGrant(config, String(other.refresh_token))).toHaveProperty('access_token')
  })

  test('when the membership ends', async () => {
    const config = await register(app.url)
    const tokens = await obtain(config, 'member@demo.test')
    const admin = await app.tokenFor('admin@demo.test', 'demo')
    const { body } = await app.request('GET', '/organizations/current/members', { token: admin })
    const member = body.find((one: { user: { email: string } }) => one.user.email === 'member@demo.test')
    await app.request('DELETE', `/organizations/current/members/${member.id}`, { token: admin })
    await expect(oauth.refreshTokenGrant(config, String(tokens.refresh_token))).rejects.toMatchObject(invalidGrant)
    const members = await app.request('GET', '/organizations/current/members', { token: tokens.access_token })
    expect(members.status).toBe(403)
  })

  test('when the user is deleted', async () => {
    const config = await register(app.url)
    const attempt = await prepare(config)
    const tokens = await exchange(
      config,
      attempt,
      await allow(attempt, 'nobody@demo.test', 'Continue without an organization'),
    )
    expect(claimsOf(tokens.access_token)).not.toHaveProperty('org_id')
    await app.service.database.asService((sql) => sql`delete from users where email = 'nobody@demo.test'`)
    await expect(oauth.refreshTokenGrant(config, String(tokens.refresh_token))).rejects.toMatchObject(invalidGrant)
    await attempt.browser.open(attempt.url)
    expect(attempt.browser.text).toContain('Sign in to continue to Tool')
    expect(await allow(attempt, 'admin@demo.test')).toBeDefined()
  })
})

test('rotates signing keys under load without a failure', async () => {
  const own = await startHttpService()
  onTestFinished(() => own.close())
  const config = await register(own.url)
  // Near the end of the first key's lifetime, so that a grant issued now outlives it.
  await obtain(config, 'admin@demo.test')
  own.clock.now += rotateAfterMs - day
  const sessions = await Promise.all(Array.from({ length: 4 }, () => obtain(config, 'admin@demo.test')))
  const issued: string[] = sessions.map(({ access_token }) => access_token)
  const load = sessions.map(async ({ refresh_token }, session) => {
    let latest = String(refresh_token)
    for (let turn = 0; turn < 25; turn += 1) {
      const tokens = await oauth.refreshTokenGrant(config, latest)
      issued.push(tokens.access_token)
      latest = String(tokens.refresh_token)
      if (session === 0 && turn === 5) own.clock.now += 2 * day
      if (session === 0 && turn === 15) own.clock.now += 20 * 60_000
    }
  })
  await Promise.all(load)
  const jwks = (await (await fetch(`${own.url}/oauth/jwks`)).json()) as Parameters<typeof createLocalJWKSet>[0]
  const keys = new Set<string | undefined>()
  for (const token of issued) {
    const { protectedHeader } = await jwtVerify(token, createLocalJWKSet(jwks), { issuer: own.url })
    keys.add(protectedHeader.kid)
  }
  expect(issued).toHaveLength(104)
  expect(keys.size).toBe(2)
})
