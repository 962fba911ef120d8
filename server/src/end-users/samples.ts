import type { TestService } from '../../test/harness.ts'
import type { OperationSamples, Slug } from '../../test/sample-helpers.ts'
import { addEndUser } from '../../test/usage-records.ts'
import type * as contract from './contract.ts'

export const endUser = async (app: TestService, slug: Slug) => ({
  id: await addEndUser(app, await app.organization(slug)),
})

export const fillTables = (app: TestService, slug: Slug) => endUser(app, slug)

export const operationSamples: OperationSamples<typeof contract> = {
  listEndUsers: {},
  getEndUser: { prepare: endUser },
  exportEndUser: { prepare: endUser },
  eraseEndUser: { prepare: endUser },
}
