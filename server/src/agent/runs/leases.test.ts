import { expect, onTestFinished, test, vi } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { useTestService } from '../../../test/harness.ts'
import { useScriptedModel } from '../../../test/scripted-model.ts'
import { member, startShop } from '../../../test/shop.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { createLeases } from './leases.ts'

test('a run and a message in its thread never wait for each other', { timeout: 60_000 }, async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const model = await useScriptedModel(() => ({ text: ['One ', promise, 'two'] }))
  const shop = await startShop({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  onTestFinished(() => shop.close())
  const chat = openChat(await shop.page(member))
  const run = await chat.say('Count')
  await chat.until(run, ({ texts }) => texts[0] === 'One ')
  // Like a message that arrives: it locks the thread, then the run.
  await shop.service.database.asOrg(await shop.organization('demo'), async (sql) => {
    await sql`select from threads where id = ${chat.thread} for no key update`
    resolve()
    await vi.waitFor(async () => {
      const waiting = await sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      expect(waiting).not.toEqual([])
    })
    await sql`select from runs where id = ${run} for no key update`
  })
  expect(await chat.rest(run)).toMatchObject({ texts: ['One two'], end: { status: 'succeeded' } })
})

test('a run that a node takes over while it closes is handed over like the others', async () => {
  const { service, organization } = await useTestService()
  // Otherwise, it would take the run over too.
  await service.runs.close()
  const organizationId = await organization('demo')
  const [threadId, runId] = [newId(), newId()]
  const asDemo = <T>(work: (sql: Sql) => Promise<T>) => service.database.asOrg(organizationId, work)
  await asDemo(async (sql) => {
    await sql`insert into threads (organization_id, id) values (current_organization(), ${threadId})`
    await sql`
      insert into runs (organization_id, id, thread_id, position, status, epoch, holder, lease_until)
      values (current_organization(), ${runId}, ${threadId}, 1, 'running', 1, '{}', now() - interval '1 minute')`
  })
  const [taking, taken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const leases = createLeases(service, async ({ id }) => {
    taking.resolve()
    await taken.promise
    await asDemo(
      (sql) => sql`
      update runs set node = ${leases.node}, epoch = 2, lease_until = now() + interval '1 minute' where id = ${id}`,
    )
    leases.hold({ organizationId, threadId, runId: id, epoch: 2 })
  })
  await taking.promise
  const closed = leases.close()
  taken.resolve()
  await closed
  const [run] = await asDemo((sql) => sql`select epoch, lease_until <= now() as is_free from runs`)
  expect(run).toEqual({ epoch: 2, is_free: true })
})

test('neither a run that can’t be taken over nor one that takes long keeps others from it, or from renewals', async () => {
  const { service, organization } = await useTestService()
  await service.runs.close()
  const organizationId = await organization('demo')
  const [broken, slow, sound, held] = [newId(), newId(), newId(), newId()]
  const asDemo = <T>(work: (sql: Sql) => Promise<T>) => service.database.asOrg(organizationId, work)
  const finishing = Promise.withResolvers<void>()
  const taken: string[] = []
  const leases = createLeases(service, async ({ id }) => {
    taken.push(id)
    if (id === broken) throw new Error('Can’t be read')
    if (id === slow) await finishing.promise
  })
  await asDemo(async (sql) => {
    for (const [index, id] of [broken, slow, sound, held].entries()) {
      const [thread, node] = [newId(), id === held ? leases.node : null]
      await sql`insert into threads (organization_id, id) values (current_organization(), ${thread})`
      await sql`
        insert into runs (organization_id, id, thread_id, position, status, epoch, node, holder, lease_until)
        values (current_organization(), ${id}, ${thread}, 1, 'running', 1, ${node}, '{}',
                now() + make_interval(mins => ${id === held ? 1 : index - 10}))`
      if (id === held) leases.hold({ organizationId, threadId: thread, runId: id, epoch: 1 })
    }
  })
  await vi.waitFor(() => expect(taken).toEqual([broken, slow, sound]))
  // Renewed once more, although a run is still being taken over.
  await asDemo((sql) => sql`update runs set lease_until = now() + interval '1 hour' where id = ${held}`)
  await vi.waitFor(async () => {
    const rows = await asDemo(
      (sql) => sql`select lease_until < now() + interval '1 minute' as is_renewed from runs where id = ${held}`,
    )
    expect(rows).toEqual([{ is_renewed: true }])
  })
  finishing.resolve()
  await leases.close()
})
