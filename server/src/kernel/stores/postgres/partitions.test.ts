import { describe, expect, test } from 'vitest'
import { doOnce, useTestService } from '../../../../test/harness.ts'
import { newId } from '../../lib/ids.ts'
import { countMonthsAhead, keepPartitions } from './partitions.ts'

const monthMs = 31 * 24 * 60 * 60_000
const tables = { usage_events: 'created_at', tool_call_records: 'at', audit_events: 'created_at' }

describe('the partitions of the months to come', () => {
  test('are made for more than a year, so that rows can be written when a month ends', async () => {
    const app = await useTestService()
    const { database } = app.service
    const demo = await app.organization('demo')
    expect(await countMonthsAhead(database, Date.now())).toBe(13)
    const later = Date.now() + 14 * monthMs
    const addUsage = (at: number) =>
      database.asOrg(
        demo,
        (sql) => sql`
          insert into usage_events (organization_id, id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
          values (${demo}, ${newId()}, 1, 1, 'x', 'stop', ${new Date(at).toISOString()})`,
      )
    await expect(addUsage(later)).rejects.toThrow('no partition of relation "usage_events"')

    app.clock.now = later
    expect(await countMonthsAhead(database, later)).toBeLessThan(0)
    await doOnce(keepPartitions(app.stores, app.service))
    expect(await countMonthsAhead(database, later)).toBe(13)
    for (const at of [later, later + 12 * monthMs]) await addUsage(at)
    const ends = await database.asService(
      (sql) => sql<{ name: string; partitions: number }>`
        select inhparent::regclass::text as name, count(*) as partitions from pg_inherits join pg_class c on c.oid = inhrelid
        where c.relkind = 'r' group by 1 order by 1`,
    )
    expect(ends.map(({ name }) => name)).toEqual(Object.keys(tables).toSorted())
    expect(new Set(ends.map(({ partitions }) => partitions)).size).toBe(1)
  })

  test('are made again after a failure', async () => {
    const app = await useTestService()
    app.clock.now += 6 * monthMs
    const maintenance = { ...app.stores.maintenance, password: 'another', user: 'nobody' }
    await doOnce(keepPartitions({ ...app.stores, maintenance }, app.service))
    expect(app.logged()).toContain('Could not make the partitions of the months to come; retrying')
    expect(await countMonthsAhead(app.service.database, app.clock.now)).toBeLessThan(13)
    await doOnce(keepPartitions(app.stores, app.service))
    expect(await countMonthsAhead(app.service.database, app.clock.now)).toBe(13)
  })

  test('have every index and foreign key of their table', async () => {
    const app = await useTestService()
    app.clock.now += 3 * monthMs
    await doOnce(keepPartitions(app.stores, app.service))
    const differing = await app.service.database.asService(
      (sql) => sql`
        with own as (
          select oid, inhparent, (select count(*) from pg_index where indrelid = oid) as indexes,
                 (select count(*) from pg_constraint where conrelid = oid and contype = 'f') as keys
          from pg_class left join pg_inherits on inhrelid = oid
          where relnamespace = 'public'::regnamespace and relkind in ('r', 'p'))
        select part.oid::regclass::text from own part join own parent on parent.oid = part.inhparent
        where part.indexes <> parent.indexes or part.keys <> parent.keys`,
    )
    expect(differing).toEqual([])
  })
})
