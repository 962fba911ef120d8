import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(app, slug, async (sql) => {
    await sql`
      insert into agent_settings (organization_id, name, greeting, starter_prompts, instructions, models)
      values (current_organization(), 'sample', '', '{}', '', '[]')`
    await sql`insert into conversation_retention (organization_id, days) values (current_organization(), 3650)`
  })

export const operationSamples: OperationSamples<typeof contract> = {
  getAgentConfig: {},
  updateAgentConfig: { body: () => ({ name: 'sample', greeting: `Hello ${randomUUID()}` }) },
  testAgentModel: {
    // No request leaves the machine: safe-fetch refuses the address.
    body: () => ({
      model: { provider: 'openai_compatible', url: 'https://10.0.0.1/v1', name: 'sample', key: 'sample-key' },
    }),
  },
}
