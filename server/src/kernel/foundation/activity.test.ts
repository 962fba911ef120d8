import { expect, test } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import type { ActivityKind } from './activity.ts'

test('is written in the order of tables and keys, counted, and within the limit of its kind', async () => {
  const app = await useTestService()
  const organization = await app.organization('demo')
  const written: unknown[] = []
  const kindFor = (table: string): ActivityKind<string> => ({
    table,
    limit: 2,
    write: async (_, noted) => written.push(...noted.map(({ key, fact, count }) => [table, key, fact, count])),
  })
  const [late, early] = [kindFor('sites'), kindFor('end_users')]
  const { activity } = app.service
  activity.note(late, organization, 'b', 'first')
  activity.note(late, organization, 'a', 'second')
  activity.note(late, organization, 'b', 'third')
  activity.note(late, organization, 'c', 'too many')
  activity.note(early, organization, 'd', 'fourth')
  await activity.flush()
  expect(written).toEqual([
    ['end_users', 'd', 'fourth', 1],
    ['sites', 'a', 'second', 1],
    ['sites', 'b', 'first', 2],
  ])
})
