import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { type AnonymousVisit, createAnonymousLimits } from './anonymous.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

const rates = { runs_per_address: 3, runs_per_visitor: 2, runs_per_key: 6 }

/** A site with its own key, and a function that returns what a visit's run is refused with. */
function useSite(organizationId = newId(), keyId = newId()) {
  const limits = createAnonymousLimits(app.service)
  const visit = async (changes: Partial<AnonymousVisit>, given = rates) =>
    limits
      .admit({ organizationId, keyId, address: '203.0.113.1', visitor: newId(), ...changes }, given)
      .catch((error) => error.envelope.message.split(' Try')[0])
  return { organizationId, keyId, visit }
}

const network = 'Too many messages are coming from your network.'
const visitorLimit = "You're sending messages too quickly."
const keyLimit = 'Too many visitors are using the assistant right now.'

test('an address can start a few runs per minute, whatever visitors it invents', async () => {
  const { visit } = useSite()
  for (let run = 0; run < 3; run += 1) expect(await visit({})).toBeUndefined()
  expect(await visit({})).toBe(network)
  expect(await visit({ address: '203.0.113.2' })).toBeUndefined()
})

test('a visitor can start a few runs per minute, whatever addresses it uses', async () => {
  const { visit } = useSite()
  const visitor = newId()
  expect(await visit({ visitor, address: '203.0.113.1' })).toBeUndefined()
  expect(await visit({ visitor, address: '203.0.113.2' })).toBeUndefined()
  expect(await visit({ visitor, address: '203.0.113.3' })).toBe(visitorLimit)
  expect(await visit({ address: '203.0.113.3' })).toBeUndefined()
})

test('a key has a limit for all its visitors, which one address cannot use up', async () => {
  const { organizationId, visit } = useSite()
  for (let run = 0; run < 20; run += 1) await visit({ address: '203.0.113.66' })
  for (let run = 0; run < 3; run += 1) expect(await visit({ address: `203.0.113.${run}` })).toBeUndefined()
  expect(await visit({ address: '203.0.113.9' })).toBe(keyLimit)
  expect(await visit({ address: '203.0.113.9', keyId: newId() }), 'another key').toBeUndefined()
  expect(await useSite(organizationId).visit({ address: '203.0.113.8' }), 'another site').toBeUndefined()
})

test('organizations do not share limits', async () => {
  const { visit } = useSite()
  for (let run = 0; run < 4; run += 1) await visit({})
  expect(await visit({})).toBe(network)
  expect(await useSite().visit({})).toBeUndefined()
})

test('a refusal is a 429 that says when to try again, and the limits are for a minute', async () => {
  const { visit, organizationId, keyId } = useSite()
  const { kv, secrets } = app.service
  const seconds = new Set<number | undefined>()
  const count: typeof kv.count = (key, ttlSeconds) => {
    seconds.add(ttlSeconds)
    return kv.count(key, ttlSeconds)
  }
  const limits = createAnonymousLimits({ kv: { ...kv, count }, secrets })
  const admit = () => limits.admit({ organizationId, keyId, address: '203.0.113.1', visitor: 'one' }, rates)
  await visit({ visitor: 'one' })
  await visit({ visitor: 'one' })
  await expect(admit()).rejects.toMatchObject({
    envelope: {
      status: 429,
      code: 'TOO_MANY_REQUESTS',
      message: "You're sending messages too quickly. Try again in a minute.",
      data: { retry_after_seconds: 60 },
    },
    headers: { 'retry-after': '60' },
  })
  expect([...seconds]).toEqual([60])
})

test('the defaults let a visitor have a conversation', async () => {
  const limits = createAnonymousLimits(app.service)
  const visit = { organizationId: newId(), keyId: newId(), address: '203.0.113.1', visitor: newId() }
  for (let run = 0; run < 6; run += 1) await limits.admit(visit)
  await expect(limits.admit(visit)).rejects.toThrow(visitorLimit)
})

test('budgets count an address and a visitor without revealing them, and apart in each organization', () => {
  const { subjectsOf } = createAnonymousLimits(app.service)
  const visit = { organizationId: newId(), address: '203.0.113.1', visitor: newId() }
  const { address, visitor } = subjectsOf(visit)
  expect(subjectsOf({ ...visit })).toEqual({ address, visitor })
  expect(subjectsOf({ ...visit, visitor: newId() }).address).toBe(address)
  expect(subjectsOf({ ...visit, address: '203.0.113.2' }).visitor).toBe(visitor)
  const others = [
    subjectsOf({ ...visit, organizationId: newId() }),
    subjectsOf({ ...visit, address: visit.visitor, visitor: visit.address }),
  ]
  expect(new Set([address, visitor, ...others.flatMap((other) => Object.values(other))]).size).toBe(6)
})
