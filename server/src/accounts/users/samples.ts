import type { OperationSamples, ToolSample } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const operationSamples: OperationSamples<typeof contract> = { getCurrentUser: {} }

export const toolSamples: Record<string, ToolSample> = {
  get_profile: { valid: [{}], invalid: [[{ id: 'x' }, 'id']] },
}
