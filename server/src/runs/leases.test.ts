import { expect, onTestFinished, test, vi } from 'vitest'
import { openChat } from '../../test/chat.ts'
import { useTestService } from '../../test/harness.ts'
import { useScriptedModel } from '../../test/scripted-model.ts'
import { member, startShop } from '../../test/shop.ts'
import { newId } from '../lib/ids.ts'
import type { Sql } from '../stores/database.ts'
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
