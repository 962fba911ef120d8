import type { OperationSamples } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const operationSamples: OperationSamples<typeof contract> = { logout: {} }
