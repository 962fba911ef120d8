import { longText, type OperationSamples, type ToolSample } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const operationSamples: OperationSamples<typeof contract> = {
  listHubSources: {},
  listHubTools: {},
  countOpenTabs: {},
}

export const toolSamples: Record<string, ToolSample> = {
  hub_list_tools: {
    valid: [{}, { search: 'cart' }, { include_sources: true }],
    invalid: [
      [{ include_sources: 'yes' }, 'include_sources'],
      [{ search: longText(201) }, 'search'],
    ],
  },
  hub_list_sources: { valid: [{}], invalid: [[{ tab: 1 }, 'tab']] },
  hub_call_tool: {
    valid: [{ tool_name: 'add_to_cart' }],
    invalid: [
      [{}, 'tool_name'],
      [{ tool_name: '' }, 'tool_name'],
      [{ tool_name: 'x', args: [] }, 'args'],
    ],
    // No page is open.
    fails: true,
  },
}
