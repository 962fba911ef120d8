import { gzipSync } from 'node:zlib'
import { newId } from '../src/lib/ids.ts'
import type { Sql } from '../src/stores/database.ts'
import { startThread } from '../src/threads/threads.ts'
import { recordUsage } from '../src/usage/record.ts'
import type { TestService } from './harness.ts'
import { githubApp } from './samples.ts'
import { addEndUser, addSite, usageRecord } from './usage-records.ts'

/** A table with rows of organizations, and the column with the organization's id. */
export interface TenantTable {
  name: string
  key: string
}

/** Finds every tenant table in PostgreSQL's catalog, so that new ones are included automatically. */
export const listTenantTables = (app: TestService): Promise<TenantTable[]> =>
  app.service.database.asService(
    (sql) => sql<TenantTable>`
      select c.relname::text as name, a.attname::text as key from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not a.attisdropped
        and a.attname = case c.relname when 'organizations' then 'id' else 'organization_id' end
      order by c.relname`,
  )

/** The server deletes rows from these tables, so a test can't rely on a row that it wrote. */
export const passingTables = ['departures']

const admins = { demo: 'admin@demo.test', other: 'admin@other.test' } as const

/** Writes at least one row to every tenant table. Add a row for a new table; tests fail without it. */
export async function fillTenantTables(app: TestService, slug: 'demo' | 'other'): Promise<void> {
  const organizationId = await app.organization(slug)
  const token = await app.tokenFor(admins[slug], slug)
  const create = async (path: string, body: object) => {
    const answer = await app.request('POST', path, { token, body })
    if (answer.status !== 200) throw new Error(`POST ${path}: ${JSON.stringify(answer.body)}`)
    return answer.body.id as string
  }
  const key = await create('/publishable-keys', { name: 'Shop' })
  await create('/organization-skills', { content: '---\nname: filled\ndescription: A skill.\n---\n# Filled\n' })
  await create('/connectors', {
    name: 'filled',
    kind: 'id_jag',
    server_url: 'http://127.0.0.1:9/mcp',
    client_id: 'hub',
    client_secret: 'sample-secret',
  })
  await githubApp(app, slug)
  await app.service.database.asOrg(organizationId, (sql) => insertRows(sql, key))
  const [end_user_id, site_id] = [await addEndUser(app, organizationId), await addSite(app, organizationId)]
  const thread_id = await app.service.database.asOrg(organizationId, (sql) =>
    startThread(sql, { endUserId: end_user_id, siteId: site_id }),
  )
  await recordUsage(app.service, usageRecord(organizationId, { end_user_id, site_id, thread_id }))
}

async function insertRows(sql: Sql, keyId: string): Promise<void> {
  const [directory, batch, now] = [newId(), newId(), new Date().toISOString()]
  await sql`
    insert into invitations (organization_id, id, email, role, invited_by)
    values (current_organization(), ${newId()}, 'new@example.com', 'member', 'somebody')`
  await sql`insert into identity_providers (organization_id) values (current_organization()) on conflict do nothing`
  await sql`
    insert into refusals (organization_id, id, fingerprint, surface, step, code, message, count, first_at, last_at)
    values (current_organization(), ${newId()}, ${newId()}, 'ticket', 'key', 'X', 'x', 1, ${now}, ${now})`
  await sql`
    insert into unallowed_origins (organization_id, publishable_key_id, origin, count, first_at, last_at)
    values (current_organization(), ${keyId}, 'https://shop.example', 1, ${now}, ${now})`
  await sql`
    insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id, created_at, updated_at)
    values (current_organization(), ${newId()}, 'canceled', 'free', 'x', 'x', ${now}, ${now})`
  await sql`
    insert into governance_providers
      (organization_id, provider_key, interceptor_url, interceptor_name, api_key_last4, is_enabled)
    values (current_organization(), 'byo', '', 'filled', '', false)`
  await sql`
    insert into directories (organization_id, id, name, type, domain, status, token_hash)
    values (current_organization(), ${directory}, 'Filled', 'okta', 'filled.example', 'inactive', ${directory})`
  await sql`
    insert into directory_users (organization_id, directory_id, id, user_name)
    values (current_organization(), ${directory}, ${newId()}, 'ann')`
  await sql`
    insert into directory_groups (organization_id, directory_id, id, display_name)
    values (current_organization(), ${directory}, ${newId()}, 'Everybody')`
  await sql`
    insert into tool_call_batches (organization_id, id, first_at, last_at, count, records)
    values (current_organization(), ${batch}, ${now}, ${now}, 0, ${gzipSync('')})`
  await sql`
    insert into tool_call_users (organization_id, user_id, batch_id)
    values (current_organization(), ${newId()}, ${batch})`
  await sql`
    insert into tool_call_contents (organization_id, call_id, user_email, arguments, at, expires_at)
    values (current_organization(), ${newId()}, 'ann@example.com', '{}', ${now}, now() + interval '1 day')`
  await sql`insert into departures (organization_id, person_id) values (current_organization(), ${newId()})`
}
