import { generateKeyPair, SignJWT } from 'jose'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { startTestProvider, type TestProvider } from '../../../test/oidc-provider.ts'

/** Access tokens of the operator's provider, which is a real one. */
describe('a token of the sign-in provider', () => {
  let provider: TestProvider
  let app: TestService
  beforeEach(async () => {
    provider = await startTestProvider()
    onTestFinished(() => provider.stop())
    app = await useTestService({ SIGN_IN_ISSUER: provider.issuer, SIGN_IN_AUDIENCE: 'shop' })
  })
  const token = (sub: string) => provider.idToken({ sub, email: `${sub}@example.com` })
  const call = (text: string) => app.request('GET', '/users/me', { token: text })

  test('is accepted, even if signed with a key that the provider has just rotated to', async () => {
    expect((await call(await token('ann'))).body).toMatchObject({ email: 'ann@example.com', organizations: [] })
    await provider.rotate()
    app.clock.now += 31_000
    expect((await call(await token('bob'))).status).toBe(200)
  })

  test('with a made-up key id is refused, and many of them cause at most one fetch in 30 seconds', async () => {
    expect((await call(await token('ann'))).status).toBe(200)
    const { privateKey } = await generateKeyPair('RS256')
    const forge = (kid: string) =>
      new SignJWT({ sub: 'ann', email: 'ann@example.com' })
        .setProtectedHeader({ alg: 'RS256', kid })
        .setIssuer(provider.issuer)
        .setAudience('shop')
        .setExpirationTime('1h')
        .sign(privateKey)
    const storm = async () => {
      const before = await provider.keyFetches()
      const tokens = await Promise.all(Array.from({ length: 50 }, (_, n) => forge(`made-up-${n}`)))
      const answers = await Promise.all(tokens.map(call))
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]))
      return (await provider.keyFetches()) - before
    }
    expect(await storm(), 'just fetched').toBe(0)
    app.clock.now += 31_000
    expect(await storm()).toBe(1)
    expect(await storm()).toBe(0)
  })

  test('is verified while the provider is unavailable, once its keys are cached', async () => {
    const [first, second] = [await token('ann'), await token('bob')]
    await provider.behave({ away: true })
    const early = await call(first)
    expect(early.body).toMatchObject({ code: 'SERVICE_UNAVAILABLE', message: 'The sign-in provider isn’t responding' })
    await provider.behave({})
    app.clock.now += 31_000
    expect((await call(first)).status).toBe(200)
    await provider.behave({ away: true })
    app.clock.now += 20 * 60_000
    expect((await call(second)).status).toBe(200)
  })
})
