import { z } from 'zod'
import { tool } from '../foundation/tool.ts'
import * as contract from './contract.ts'
import { clearProvider, getProvider, testInterceptor, updateProvider } from './provider.ts'

const action = z.enum(['get', 'update', 'clear'])

export const manageGovernanceProvider = tool({
  name: 'manage_governance_provider',
  title: 'Manage the governance provider',
  description:
    'The interceptor that decides on tool calls. `get` reads the configuration and whether it is in force. `update` changes only the fields that are given, and creates a disabled `byo` provider if there is none. `clear` forgets the provider and its API key, after which no call is checked: ask the person first. The API key is never shown again; an `interceptor_url` on another host needs it anew. Admins only.',
  access: 'admin',
  input: z.strictObject({ action, ...contract.updateProvider.body.shape }),
  output: contract.getProvider.response.extend({ action }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  async handler(service, caller, { action, ...changes }) {
    if (action === 'get') return { action, ...(await getProvider(service, caller)) }
    if (action === 'clear') return { action, ...(await clearProvider(service, caller)) }
    return { action, ...(await updateProvider(service, caller, changes)) }
  },
})

export const testGovernanceProvider = tool({
  name: 'test_governance_provider',
  title: 'Test the governance provider',
  description:
    'Asks the interceptor about a sample call and checks that its answer keeps to the contract. What is left out comes from the saved configuration; an `interceptor_url` on another host needs its `api_key`. A test of exactly what is saved is remembered as its last test. Admins only.',
  access: 'admin',
  input: contract.testInterceptor.body,
  output: contract.testInterceptor.response,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  handler: testInterceptor,
})
