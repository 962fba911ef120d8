import { type OperationSamples, post } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const operationSamples: OperationSamples<typeof contract> = {
  startPreview: { prepare: (app, slug) => post(app, slug, '/publishable-keys', { name: 'Sample' }) },
}
