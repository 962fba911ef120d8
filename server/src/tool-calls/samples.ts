import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import type { TestService } from '../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

async function callWithContents(app: TestService, slug: Slug) {
  const id = randomUUID()
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into tool_call_contents (organization_id, call_id, user_email, arguments, result, at, expires_at)
      values (current_organization(), ${id}, 'ann@example.com', '{}', '{}', now(), now() + interval '1 day')`,
  )
  return { id }
}

export async function fillTables(app: TestService, slug: Slug) {
  await callWithContents(app, slug)
  const batch = randomUUID()
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into tool_call_batches (organization_id, id, first_at, last_at, count, records)
      values (current_organization(), ${batch}, now(), now(), 0, ${gzipSync('')})`
    await sql`
      insert into tool_call_users (organization_id, user_id, batch_id)
      values (current_organization(), ${randomUUID()}, ${batch})`
  })
}

export const operationSamples: OperationSamples<typeof contract> = {
  listToolCalls: {},
  getToolCallSettings: {},
  updateToolCallSettings: { body: () => ({ contents_days: 0 }) },
  getToolCallContents: { prepare: callWithContents },
}
