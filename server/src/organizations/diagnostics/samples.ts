import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import {
  asOrg,
  longText,
  type OperationSamples,
  post,
  type Slug,
  type ToolSample,
} from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export async function fillTables(app: TestService, slug: Slug) {
  const key = await post(app, slug, '/publishable-keys', { name: 'Sample' })
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into refusals (organization_id, id, fingerprint, surface, step, code, message, count, first_at, last_at)
      values (current_organization(), ${randomUUID()}, ${randomUUID()}, 'ticket', 'key', 'X', 'x', 1, now(), now())`
    await sql`
      insert into unallowed_origins (organization_id, publishable_key_id, origin, count, first_at, last_at)
      values (current_organization(), ${key.id}, 'https://shop.example', 1, now(), now())`
  })
}

export const operationSamples: OperationSamples<typeof contract> = {
  listRefusals: {},
  listWarnings: {},
}

export const toolSamples: Record<string, ToolSample> = {
  echo: {
    valid: [{ message: 'x' }, { message: longText(1000) }],
    invalid: [
      [{}, 'message'],
      [{ message: '' }, 'message'],
      [{ message: longText(1001) }, 'message'],
      [{ message: 1 }, 'message'],
      [{ message: 'x', loud: true }, 'loud'],
    ],
  },
  verify_api_access: { valid: [{}], invalid: [[{ x: 1 }, 'x']] },
}
