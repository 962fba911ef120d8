import { randomBytes, randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { testSecret } from '../../../test/engines/engines.ts'
import { useTestService } from '../../../test/harness.ts'
import { fillTenantTables } from '../../../test/samples.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import { createSecrets, type Secrets } from '../../kernel/lib/secrets.ts'
import { keepFormerAuditKeys } from '../../kernel/stores/audit/key-change.ts'
import { resealColumns } from './reseal.ts'

test('after a rotation, no table has a value of the old secret, and the new one opens them all', {
  timeout: 120_000,
}, async () => {
  const app = await useTestService()
  for (const slug of ['demo', 'other'] as const) await fillTenantTables(app, slug)
  const organizationIds = [await app.organization('demo'), await app.organization('other')]
  const client = new pg.Client(app.stores.owner)
  await client.connect()
  onTestFinished(() => client.end())
  // Only a rotation writes to this table, so there is one before.
  await keepFormerAuditKeys(client, createSecrets([testSecret, randomBytes(32).toString('base64')]))

  const { rows: tables } = await client.query<{ name: string; columns: string[]; key: string }>(`
    select table_name as name,
      case when bool_or(column_name = 'id') then 'id' else 'organization_id' end as key,
      coalesce(array_agg(column_name::text) filter (where column_name like '%\\_sealed'), '{}') as columns
    from information_schema.columns where table_schema = 'public' group by 1 order by 1`)
  /** Tables with a row that contains the text, whatever its column is called. */
  async function tablesWith(text: string): Promise<string[]> {
    const found = new Set<string>()
    for (const organizationId of organizationIds) {
      await client.query("select set_config('inlay.organization_id', $1, false)", [organizationId])
      for (const { name } of tables) {
        const { rowCount } = await client.query(
          `select from ${name} each where strpos(to_jsonb(each)::text, $1) > 0 limit 1`,
          [text],
        )
        if (rowCount) found.add(name)
      }
    }
    return [...found].sort()
  }
  const newSecret = randomBytes(32).toString('base64')
  const [old, fresh] = [createSecrets([testSecret]), createSecrets([newSecret])]
  /** The beginning of every value that was sealed with the secret. */
  const markOf = (secrets: Secrets) => /^v1\.\w+\./.exec(secrets.seal('', ''))?.[0] ?? ''
  const sealed = tables.filter(({ columns }) => columns.length > 0)
  const names = sealed.map(({ name }) => name)
  expect(names).toContain('github_apps')
  // These two belong to the installation, so no organization's samples fill them.
  const mailId = randomUUID()
  await client.query(
    `insert into mail_outbox (id, message_sealed, expires_at) values ($1, $2, now() + interval '1 day')`,
    [mailId, old.seal('sample', `mail_outbox.message_sealed:${mailId}`)],
  )
  const { id: userId } = (await findUserByEmail(app.service, 'admin@demo.test')) ?? { id: '' }
  await client.query('insert into second_factors (id, key_sealed, last_step) values ($1, $2, 0)', [
    userId,
    old.seal('sample', `second_factors.key_sealed:${userId}`),
  ])
  // The samples leave optional secrets out.
  for (const organizationId of organizationIds) {
    await client.query("select set_config('inlay.organization_id', $1, false)", [organizationId])
    for (const { name, columns, key } of sealed) {
      for (const column of columns) {
        const more = name === 'agent_settings' ? `, models = '[{}]'` : ''
        const { rows } = await client.query<{ id: string }>(
          `select ${key} as id from ${name} where ${column} is null and ${column === 'idp_client_secret_sealed' ? 'idp_client_id is not null' : 'true'}`,
        )
        for (const { id } of rows) {
          const value = old.seal('sample', `${name}.${column}:${id}`)
          await client.query(`update ${name} set ${column} = $1${more} where ${key} = $2`, [value, id])
        }
      }
    }
  }
  expect(await tablesWith(markOf(old)), 'every table with a sealed column has a value, and no other').toEqual(names)

  const secrets = createSecrets([newSecret, testSecret])
  expect(await resealColumns({ ...app.stores, secrets }, organizationIds)).toBeGreaterThan(0)
  expect(await tablesWith(markOf(old))).toEqual([])
  expect(await tablesWith(markOf(fresh))).toEqual(names)
  for (const organizationId of organizationIds) {
    await client.query("select set_config('inlay.organization_id', $1, false)", [organizationId])
    for (const { name, columns, key } of sealed) {
      for (const column of columns) {
        const { rows } = await client.query<{ id: string; value: string }>(
          `select ${key} as id, ${column} as value from ${name} where ${column} is not null`,
        )
        for (const { id, value } of rows) expect(() => fresh.open(value, `${name}.${column}:${id}`)).not.toThrow()
      }
    }
  }
})
