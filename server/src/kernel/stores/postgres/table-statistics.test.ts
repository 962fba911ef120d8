import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { doOnce, useTestService } from '../../../../test/harness.ts'
import { keepTablesAnalyzed } from './table-statistics.ts'

test('a table is analyzed when it has rows and when it has doubled, so that its rows are found by their key', async () => {
  const { service, stores, organization, logged } = await useTestService()
  const organizationId = await organization('demo')
  const owner = new pg.Client(stores.owner)
  await owner.connect()
  onTestFinished(() => owner.end())
  await owner.query("select set_config('inlay.organization_id', $1, false)", [organizationId])

  async function addRuns(count: number): Promise<void> {
    await owner.query(
      `with added as (
         insert into threads (organization_id, id) select $1, gen_random_uuid() from generate_series(1, $2::int) returning id)
       insert into runs (organization_id, id, thread_id, position, status, holder)
       select $1, id, id, 1, 'succeeded', '{}' from added`,
      [organizationId, count],
    )
    await owner.query('select pg_stat_force_next_flush()')
  }
  async function countAnalyses(): Promise<Record<string, number>> {
    const { rows } = await owner.query<{ name: string; count: string }>(
      'select relname as name, analyze_count as count from pg_stat_user_tables where analyze_count > 0 order by 1',
    )
    return Object.fromEntries(rows.map(({ name, count }) => [name, Number(count)]))
  }
  const explain = () =>
    service.database.asOrg(organizationId, async (sql) => {
      const plan = await sql<{ 'QUERY PLAN': string }>`
        explain select from runs where id = ${'00000000-0000-0000-0000-000000000001'}`
      return plan.map((line) => line['QUERY PLAN']).join('\n')
    })
  const analyze = (maintenance = stores.maintenance) =>
    doOnce(keepTablesAnalyzed({ ...stores, maintenance }, service.log))

  await addRuns(10)
  await analyze()
  // What the demo has many of may be there.
  expect(await countAnalyses()).not.toHaveProperty('runs')

  await addRuns(300)
  await analyze({ ...stores.maintenance, database: 'nowhere' })
  expect(logged()).toContain('Could not analyze tables that have grown; retrying')
  expect(await explain()).not.toContain('runs_pkey')
  await analyze()
  expect(await countAnalyses()).toMatchObject({ runs: 1, threads: 1 })
  expect(await explain()).toContain('runs_pkey')

  await addRuns(100)
  await analyze()
  expect(await countAnalyses()).toMatchObject({ runs: 1, threads: 1 })

  await addRuns(400)
  await analyze()
  expect(await countAnalyses()).toMatchObject({ runs: 2, threads: 2 })
})
