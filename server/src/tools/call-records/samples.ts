import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import type * as contract from './contract.ts'

async function callWithContents(app: TestService, slug: Slug) {
  const id = randomUUID()
  const endUserId = await addEndUser(app, await app.organization(slug))
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into tool_call_contents (organization_id, call_id, end_user_id, user_id, arguments, result, at, expires_at)
      values (current_organization(), ${id}, ${endUserId}, ${endUserId}, '{}', '{}', now(), now() + interval '1 day')`,
  )
  return { id }
}

export async function fillTables(app: TestService, slug: Slug) {
  await callWithContents(app, slug)
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into tool_call_records (organization_id, at, id, user_id, tool, arguments_hash, approval, governance, outcome,
                                     duration_ms)
      values (current_organization(), now(), ${randomUUID()}, ${randomUUID()}, 'add', '', 'unknown', 'none', 'succeeded', 0)`,
  )
}

export const operationSamples: OperationSamples<typeof contract> = {
  listToolCalls: {},
  getToolCallSettings: {},
  updateToolCallSettings: { body: () => ({ contents_days: 0 }) },
  getToolCallContents: { prepare: callWithContents },
}
