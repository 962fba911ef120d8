import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { answerOf, type Fixture, invalidGrant, setUp, tokenRequest } from '../test/fixture.ts'

const redeem = async ({ server, provider, claims }: Fixture, header?: Record<string, unknown>) =>
  answerOf(server.fetch(tokenRequest(await provider.sign(claims(), header))))

const accepted = expect.objectContaining({ status: 200 })
const minutes = (count: number) => count * 60_000

test('fetches keys once for many assertions, and again after a minute', async () => {
  await using fixture = await setUp()
  const answers = await Promise.all(Array.from({ length: 20 }, () => redeem(fixture)))
  expect(answers).toEqual(answers.map(() => accepted))
  expect(fixture.provider.keyFetches()).toBe(1)
  fixture.time.now += minutes(1)
  expect(await redeem(fixture)).toEqual(accepted)
  expect(fixture.provider.keyFetches()).toBe(2)
})

test('accepts only the new keys after a rotation', async () => {
  await using fixture = await setUp()
  const old = await fixture.provider.sign(fixture.claims())
  expect(await redeem(fixture)).toEqual(accepted)
  await fixture.provider.rotate()
  fixture.time.now += 31_000
  expect(await redeem(fixture)).toEqual(accepted)
  expect(await answerOf(fixture.server.fetch(tokenRequest(old)))).toEqual(invalidGrant)
  expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'unknown_key' }])
})

test('a key that the provider withdraws is accepted for at most a minute, without an unknown key ID', async () => {
  await using fixture = await setUp()
  const sign = () => fixture.provider.sign(fixture.claims())
  const [before, within, after] = [await sign(), await sign(), await sign()]
  const send = (assertion: string) => answerOf(fixture.server.fetch(tokenRequest(assertion)))
  expect(await send(before)).toEqual(accepted)
  await fixture.provider.rotate()
  fixture.time.now += 59_000
  expect(await send(within)).toEqual(accepted)
  fixture.time.now += 1_000
  expect(await Promise.all(Array.from({ length: 20 }, () => send(after)))).toEqual(Array(20).fill(invalidGrant))
  expect(fixture.provider.keyFetches(), 'one fetch for all of them').toBe(2)
})

test('fifty unknown key IDs cause no fetch while the keys are new', async () => {
  await using fixture = await setUp()
  expect(await redeem(fixture)).toEqual(accepted)
  fixture.time.now += 29_000
  const unknown = Array.from({ length: 50 }, (_, index) => redeem(fixture, { kid: `unknown-${index}` }))
  expect(await Promise.all(unknown)).toEqual(Array(50).fill(invalidGrant))
  expect(fixture.provider.keyFetches()).toBe(1)
})

test('fetches at most once in thirty seconds for unknown key ids', async () => {
  await using fixture = await setUp()
  for (let index = 0; index < 20; index++)
    expect(await redeem(fixture, { kid: `unknown-${index}` })).toEqual(invalidGrant)
  expect(fixture.provider.keyFetches()).toBe(1)
  fixture.time.now += 30_000
  for (let index = 0; index < 20; index++)
    expect(await redeem(fixture, { kid: `unknown-${index}` })).toEqual(invalidGrant)
  expect(fixture.provider.keyFetches()).toBe(2)
})

test('uses the last keys for an hour while the provider is unreachable', async () => {
  await using fixture = await setUp()
  expect(await redeem(fixture)).toEqual(accepted)
  fixture.provider.behave((request) => request.socket.destroy())
  fixture.time.now += minutes(59)
  expect(await redeem(fixture)).toEqual(accepted)
  fixture.time.now += minutes(1)
  expect(await redeem(fixture)).toEqual(invalidGrant)
  expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'provider_unreachable', cause: expect.any(Error) }])
  fixture.provider.behave(undefined)
  fixture.time.now += 5_000
  expect(await redeem(fixture)).toEqual(accepted)
})

test('retries an unreachable provider after five seconds, not before', async () => {
  await using fixture = await setUp()
  let asked = 0
  fixture.provider.behave((request) => {
    asked += 1
    request.socket.destroy()
  })
  for (let index = 0; index < 20; index++) expect(await redeem(fixture)).toEqual(invalidGrant)
  expect(asked).toBe(1)
  fixture.provider.behave(undefined)
  expect(await redeem(fixture)).toEqual(invalidGrant)
  fixture.time.now += 5_000
  expect(await redeem(fixture)).toEqual(accepted)
})

const json = (value: unknown) => `HTTP 200 ${JSON.stringify(value)}`
test.each<[string, (issuer: string) => string, RegExp]>([
  [
    'has another issuer',
    () => json({ issuer: 'https://evil.example', jwks_uri: 'https://evil.example/jwks' }),
    /another issuer/,
  ],
  ['has a jwks_uri on plain HTTP', (issuer) => json({ issuer, jwks_uri: 'http://idp.example.com/jwks' }), /https/],
  ['has no jwks_uri', (issuer) => json({ issuer }), /https/],
  ['is not an object', () => json(null), /isn't a JSON object/],
  ['is not JSON', () => 'HTTP 200 <html>', /JSON/],
  ['is larger than 256 KiB', () => json('x'.repeat(300 * 1024)), /larger than 256 KiB/],
  ['is a redirect', () => 'HTTP 302 ', /302/],
  ['is an error', () => 'HTTP 500 {}', /500/],
])('refuses an assertion if the discovery document %s', async (_, write, message) => {
  await using fixture = await setUp()
  const [, status, body] = /^HTTP (\d+) (.*)$/s.exec(write(fixture.provider.issuer)) ?? []
  fixture.provider.behave((_request, response) => {
    response.writeHead(Number(status), { location: `${fixture.provider.issuer}/elsewhere` }).end(body)
  })
  expect(await redeem(fixture)).toEqual(invalidGrant)
  const [refusal] = fixture.refusals
  expect(refusal).toMatchObject({ reason: 'provider_unreachable', cause: { message: expect.stringMatching(message) } })
})

test('only fetches the configured jwksUri', async () => {
  await using fixture = await setUp()
  const { issuer } = fixture.provider
  const addresses: string[] = []
  const server = fixture.another({
    hubs: [{ clientId: 'hub', clientSecret: 'the secret of: the hub', issuer, jwksUri: `${issuer}/jwks` }],
    fetch: (address, init) => {
      addresses.push(String(address))
      return fetch(address, init)
    },
  })
  expect(await redeem({ ...fixture, server })).toEqual(accepted)
  expect(addresses).toEqual([`${issuer}/jwks`])
})

test('a fetch without a response times out after five seconds', async () => {
  await using fixture = await setUp()
  fixture.provider.behave(() => undefined)
  const answered = redeem(fixture)
  expect(await Promise.race([answered, sleep(8_000, 'still waiting', { ref: false })])).toEqual(invalidGrant)
})
