import type { TestService } from '../../../test/harness.ts'
import { type OperationSamples, post, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const key = (app: TestService, slug: Slug) => post(app, slug, '/publishable-keys', { name: 'Sample' })

export const fillTables = key

export const operationSamples: OperationSamples<typeof contract> = {
  listPublishableKeys: {},
  createPublishableKey: { body: () => ({ name: 'Sample', allowed_origins: ['https://app.example.com'] }) },
  updatePublishableKey: { prepare: key, body: () => ({ name: 'Renamed' }) },
  revealPublishableKey: { prepare: key },
  revokePublishableKey: { prepare: key },
}
