import { expect, test } from 'vitest'
import { runJob, useTestService } from '../../../test/harness.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import { budgetExpiry } from './expiry.ts'

test('counters of past days and months are deleted in all organizations, and current ones stay', async () => {
  const app = await useTestService()
  const { database } = app.service
  const organizations = [await app.organization('demo'), await app.organization('other')]
  for (const organization of organizations) {
    const endUserId = await addEndUser(app, organization)
    await database.asOrg(
      organization,
      (sql) => sql`
        insert into budget_periods (organization_id, scope, subject, period, starts_on, tokens)
        select current_organization(), 'end_user', ${endUserId}, period, current_date - age, age
        from (values ('day', 0), ('day', 7), ('day', 8), ('day', 400),
                     ('month', 31), ('month', 62), ('month', 63), ('month', 400)) as counter (period, age)`,
    )
    await database.asOrg(
      organization,
      (sql) => sql`
        insert into budget_periods (organization_id, scope, subject, period, starts_on)
        select current_organization(), 'organization', '00000000-0000-0000-0000-000000000000', 'day', current_date - age
        from generate_series(9, 2100) as age`,
    )
  }
  for (const organization of organizations) await runJob(app, organization, budgetExpiry)
  for (const organization of organizations) {
    const left = await database.asOrg(
      organization,
      (sql) => sql`select period, tokens as age from budget_periods order by period, tokens`,
    )
    expect(left).toEqual([
      { period: 'day', age: 0 },
      { period: 'day', age: 7 },
      { period: 'month', age: 31 },
      { period: 'month', age: 62 },
    ])
  }
})
