import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { tool } from '../../kernel/foundation/tool.ts'
import * as contract from './contract.ts'
import {
  clearGovernanceProvider,
  getGovernanceProvider,
  testInterceptor,
  updateGovernanceProvider,
} from './governance-provider.ts'

const action = z.enum(['get', 'update', 'clear'])

export const manageGovernanceProvider = tool({
  name: 'manage_governance_provider',
  title: 'Manage the governance provider',
  description:
    'Manages the interceptor that allows or blocks tool calls. `get` returns the configuration and whether it is in effect. `update` changes only the given fields; the first update creates a `byo` provider, disabled unless `is_enabled` is set. `clear` deletes the provider and its API key, after which calls are no longer checked: ask the user first. The API key is never returned; if `interceptor_url` changes to another host, provide the key again. Admins only.',
  access: 'admin',
  usersOnly: usersDecideTrust,
  input: z.strictObject({ action, ...contract.updateGovernanceProvider.body.shape }),
  output: contract.getGovernanceProvider.response.extend({ action }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  async handler(service, caller, { action, ...changes }) {
    if (action === 'get') return { action, ...(await getGovernanceProvider(service, caller)) }
    if (action === 'clear') return { action, ...(await clearGovernanceProvider(service, caller)) }
    return { action, ...(await updateGovernanceProvider(service, caller, changes)) }
  },
})

export const testGovernanceProvider = tool({
  name: 'test_governance_provider',
  title: 'Test the governance provider',
  description:
    'Sends a sample call to the interceptor and checks that its response is valid. Omitted fields come from the saved configuration; an `interceptor_url` on another host requires the `api_key`. The result is saved only if the saved configuration is tested unchanged. Admins only.',
  access: 'admin',
  input: contract.testInterceptor.body,
  output: contract.testInterceptor.response,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  handler: testInterceptor,
})
