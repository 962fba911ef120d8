import { expect, onTestFinished, test, vi } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { startHttpService } from '../../../test/http-server.ts'
import { offer, openPage } from '../../../test/page.ts'
import { connectDirectory } from '../../../test/scim.ts'
import { useScriptedModel } from '../../../test/scripted-model.ts'
import { callerFor, member, startShop } from '../../../test/shop.ts'

/** Everything must have ended by then. */
const inTime = { timeout: 10_000, interval: 50 }

test('on two nodes, a conversation that streams and a call that runs end within ten seconds', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  onTestFinished(() => resolve())
  const model = await useScriptedModel(() => ({ text: ['Wait', promise] }))
  const settings = { MODEL_URL: model.url, MODEL_NAME: 'scripted' }
  const shop = await startShop(settings)
  onTestFinished(() => shop.close())
  const organizationId = await shop.organization('demo')
  const directory = await connectDirectory(shop)
  const two = await startHttpService({
    ...settings,
    DATABASE_URL: shop.config.databaseUrl ?? '',
    REDIS_URL: shop.config.redisUrl ?? '',
    INLAY_REDIS_PREFIX: shop.config.redisPrefix,
    INLAY_PUBLIC_URL: shop.url,
  })
  onTestFinished(() => two.close())
  const id = await directory.addUser('member@demo.test')
  const talking = await openPage(two.local, await shop.ticket(member))
  const chat = openChat(talking)
  const run = await chat.say('Hello')
  await chat.until(run, ({ texts }) => texts[0] === 'Wait')
  const working = await openPage(two.local, await shop.ticket(member), { hello: { tab_id: 'tab-2' } })
  await offer(working, 'add')
  const caller = await callerFor(two, 'member@demo.test', 'demo')
  const call = caller.call('add').catch((error) => error)
  const { call_id } = await working.next('tool/call')
  const token = await two.tokenFor('member@demo.test', 'demo')
  const read = async () => (await two.request('GET', '/publishable-keys', { token })).status
  expect(await read()).toBe(200)

  const started = performance.now()
  expect((await directory.deactivate(id)).status).toBe(200)
  expect(await talking.closed).toMatchObject({ code: 4403, reason: expect.stringContaining('directory') })
  expect(await working.closed).toMatchObject({ code: 4403 })
  expect(await call, call_id).toMatchObject({
    envelope: { code: expect.stringMatching(/CALL_CANCELLED|SOURCE_GONE/) },
  })
  await vi.waitFor(async () => expect(await read()).toBe(403), inTime)
  expect(performance.now() - started).toBeLessThan(inTime.timeout)
  const [ended] = await shop.service.database.asOrg(
    organizationId,
    (sql) => sql<{ status: string; error: unknown }>`select status, error from runs where id = ${run}`,
  )
  expect(ended).toMatchObject({ status: 'failed', error: { code: 'ACCESS_ENDED' } })
  const audit = await shop.service.database.asOrg(
    organizationId,
    (sql) =>
      sql`select actor, action from audit_events where action in ('member.deactivated', 'directory_user.deactivated') order by sequence`,
  )
  expect(audit).toEqual([
    { actor: 'directory Okta', action: 'member.deactivated' },
    { actor: 'directory Okta', action: 'directory_user.deactivated' },
  ])
}, 120_000)
