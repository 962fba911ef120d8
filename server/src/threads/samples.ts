import type { TestService } from '../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../test/sample-helpers.ts'
import { endUser } from '../end-users/samples.ts'
import type * as contract from './contract.ts'
import { startThread } from './threads.ts'

const thread = async (app: TestService, slug: Slug) => ({
  id: await asOrg(app, slug, (sql) => startThread(sql, { endUserId: null, siteId: null })),
})

export const fillTables = thread

export const operationSamples: OperationSamples<typeof contract> = {
  listThreads: {},
  listEndUserThreads: { prepare: endUser },
  getThreadAnalytics: {},
  getThread: { prepare: thread },
  updateThread: { prepare: thread, body: () => ({ title: 'Renamed' }) },
}
