import { expect, test, vi } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { useShop } from '../../../test/shop.ts'
import { recheckMs } from '../../kernel/stores/changes.ts'

test('when an organization is deleted on one node, access ends on another within seconds', async () => {
  const one = await useShop()
  const two = await useTestService({
    DATABASE_URL: one.config.databaseUrl ?? '',
    REDIS_URL: one.config.redisUrl ?? '',
    INLAY_REDIS_PREFIX: one.config.redisPrefix,
    INLAY_PUBLIC_URL: one.url,
  })
  const [admin, member] = [
    await one.tokenFor('admin@demo.test', 'demo'),
    await one.tokenFor('member@demo.test', 'demo'),
  ]
  const account = (
    await one.request('POST', '/service-accounts', { token: admin, body: { name: 'CI', role: 'member' } })
  ).body
  const read = async (token: string) => (await two.request('GET', '/sites', { token })).status
  expect([await read(member), await read(account.key)]).toEqual([200, 200])
  await one.request('POST', '/organizations/current/delete', { token: admin, body: { slug: 'demo' } })
  await vi.waitFor(async () => expect([await read(member), await read(account.key)]).toEqual([403, 401]), recheckMs / 2)
})
