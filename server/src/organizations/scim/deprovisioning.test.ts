import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { openPage } from '../../../test/page.ts'
import { connectDirectory } from '../../../test/scim.ts'
import { useScriptedModel } from '../../../test/scripted-model.ts'
import { member, type Shop, startShop } from '../../../test/shop.ts'
import { holdIdentity } from '../../visitors/end-users/held-identities.ts'

let shop: Shop
afterEach(() => shop?.close())

const newShop = async (env: Record<string, string> = {}) => {
  shop = await startShop(env)
  return { directory: await connectDirectory(shop), organizationId: await shop.organization('demo') }
}

/** Exchanges a ticket for the member's ID token, and returns the refusal. */
async function refusedTicket(): Promise<unknown> {
  const { token } = { token: await shop.tokenFor('admin@demo.test', 'demo') }
  await expect(shop.exchange(member)).rejects.toThrow('INVALID_TOKEN')
  return (await shop.request('GET', '/diagnostics/refusals?limit=1', { token })).body.refusals[0]
}

describe('a user whom the directory', () => {
  test.each<[string, (send: Awaited<ReturnType<typeof connectDirectory>>, id: string) => Promise<unknown>]>([
    ['deactivates', (directory, id) => directory.deactivate(id)],
    ['deletes', (directory, id) => directory.send('DELETE', `/Users/${id}`)],
    [
      'replaces as inactive',
      (directory, id) => directory.send('PUT', `/Users/${id}`, { userName: 'member@demo.test', active: 'False' }),
    ],
    [
      'replaces as inactive, under another address',
      (directory, id) => directory.send('PUT', `/Users/${id}`, { userName: 'renamed@demo.test', active: false }),
    ],
    [
      'renames',
      (directory, id) => directory.patch(`/Users/${id}`, { op: 'replace', value: { userName: 'renamed@demo.test' } }),
    ],
    [
      'renames and then deletes',
      async (directory, id) => {
        await directory.patch(`/Users/${id}`, { op: 'replace', value: { userName: 'renamed@demo.test' } })
        return directory.send('DELETE', `/Users/${id}`)
      },
    ],
  ])('%s gets no ticket with that verified address, and loses open pages and held identities', async (_, leave) => {
    const { directory, organizationId } = await newShop()
    const id = await directory.addUser('Member@Demo.test')
    const page = await shop.page(member)
    const { userId } = await shop.exchange(member)
    const unused = await shop.ticket(member)
    const held = { end_user_id: userId, id_token: 'x', verified_email: 'member@demo.test', provider: 'x' }
    await holdIdentity(shop.service, organizationId, held, shop.clock.now + 60_000)
    await leave(directory, id)
    expect(await page.closed).toMatchObject({ code: 4403, reason: expect.stringContaining('directory') })
    expect(await shop.service.kv.get(`identity:${organizationId}:${userId}`)).toBeUndefined()
    await expect(openPage(shop.local, unused)).rejects.toThrow('401')
    expect(await refusedTicket()).toMatchObject({ surface: 'id_token', step: 'directory', seen: 'member@demo.test' })

    const others = { sub: 'other', email: 'other@demo.test', email_verified: true }
    expect((await shop.exchange(others)).ticket, 'others').toEqual(expect.any(String))
    const unverified = { sub: 'mem', email: 'member@demo.test', email_verified: false }
    expect((await shop.exchange(unverified)).ticket, 'an address that nobody verified').toEqual(expect.any(String))
  })

  test('reactivates gets tickets again, and so does one who was deleted and added again', async () => {
    const { directory } = await newShop()
    const id = await directory.addUser('member@demo.test')
    await directory.deactivate(id)
    await refusedTicket()
    await directory.patch(`/Users/${id}`, { op: 'replace', value: { active: true } })
    expect((await shop.exchange(member)).ticket).toEqual(expect.any(String))
    await directory.send('DELETE', `/Users/${id}`)
    await refusedTicket()
    await directory.addUser('member@demo.test')
    expect((await shop.exchange(member)).ticket).toEqual(expect.any(String))
  })

  test('deactivates under another address loses access with that one too', async () => {
    const { directory } = await newShop()
    const page = await shop.page(member)
    await directory.addUser('member@demo.test', { active: false })
    expect(await page.closed).toMatchObject({ code: 4403 })
    await refusedTicket()
  })

  test('deactivates in an international domain gets no ticket, however the domain is spelled', async () => {
    const { directory } = await newShop()
    await directory.addUser('ann@Bücher.example', { active: false })
    for (const domain of ['bücher.example', 'BÜCHER.example', 'xn--bcher-kva.example']) {
      const ann = { sub: 'ann', email: `ann@${domain}`, email_verified: true }
      await expect(shop.exchange(ann), domain).rejects.toThrow('INVALID_TOKEN')
    }
  })

  test('never had keeps access, whatever other organizations’ directories say', async () => {
    await newShop()
    const other = await shop.organization('other')
    await shop.service.database.asOrg(other, (sql) => sql`update organizations set plan_id = 'enterprise'`)
    const theirs = await connectDirectory(shop, 'other')
    const page = await shop.page(member)
    await theirs.deactivate(await theirs.addUser('member@demo.test'))
    await page.settled()
    expect((await shop.exchange(member)).ticket).toEqual(expect.any(String))
  })
})

/** A model that writes one word and then waits for as long as the test runs. */
async function useEndlessModel() {
  const { promise, resolve } = Promise.withResolvers<void>()
  onTestFinished(() => resolve())
  const model = await useScriptedModel(() => ({ text: ['Wait', promise] }))
  return { MODEL_URL: model.url, MODEL_NAME: 'scripted' }
}

test('the agent’s work ends while it streams, and the record says why', async () => {
  const { directory, organizationId } = await newShop(await useEndlessModel())
  const id = await directory.addUser('member@demo.test')
  const chat = openChat(await shop.page(member))
  const run = await chat.say('Hello')
  await chat.until(run, ({ texts }) => texts[0] === 'Wait')
  await directory.deactivate(id)
  expect(await readRun(organizationId, run)).toMatchObject({
    status: 'failed',
    error: { code: 'ACCESS_ENDED', message: expect.stringContaining('deactivated') },
  })
})

const readRun = async (organizationId: string, id: string) =>
  (
    await shop.service.database.asOrg(
      organizationId,
      (sql) =>
        sql<{
          status: string
          error: unknown
          holder: object
        }>`select status, error, holder from runs where id = ${id}`,
    )
  )[0]
