import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { type OperationSamples, post, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const newAccount = () => ({ name: `CI ${randomUUID()}`, role: 'member' })

const account = (app: TestService, slug: Slug) => post(app, slug, '/service-accounts', newAccount())

export const fillTables = account

export const operationSamples: OperationSamples<typeof contract> = {
  listServiceAccounts: {},
  createServiceAccount: { body: newAccount },
  getServiceAccount: { prepare: account },
  updateServiceAccount: { prepare: account, body: () => ({ role: 'admin' }) },
  rotateServiceAccountKey: { prepare: account, body: () => ({ overlap_hours: 1 }) },
  endPreviousServiceAccountKey: { prepare: account },
  deleteServiceAccount: { prepare: account },
}
