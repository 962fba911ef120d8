import { addExchange, startThread } from '../../../test/conversation-rows.ts'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const thread = (app: TestService, slug: Slug) =>
  asOrg(app, slug, async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await addExchange(sql, id, {}, { steps: [{ calls: [{}] }], modelCalls: [{}] })
    return { id }
  })

export const operationSamples: OperationSamples<typeof contract> = {
  listThreadRuns: { prepare: thread },
}
