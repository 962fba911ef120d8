import { z } from 'zod'
import { operation } from '../foundation/operation.ts'
import { Timestamp } from '../foundation/shapes.ts'

const providerKeys = ['vendor_default', 'byo'] as const

const verdictStatuses = ['success', 'notify', 'failure'] as const

/** What an interceptor says of a call: let it pass, let it pass and tell somebody, or refuse it. */
export const VerdictStatus = z.enum(verdictStatuses)

export const Violation = z.strictObject({
  policy_id: z.string().describe('ID of the policy, in the provider’s words'),
  status: VerdictStatus.describe('How serious it is: `notify` reports the call, `failure` refuses it'),
  details: z.string().describe('Explanation from the provider'),
})

/** Whether plain http will do is for the service to say: it knows where it runs. */
const InterceptorUrl = z
  .string()
  .max(2000)
  .meta({ format: 'uri' })
  .transform((text, context) => {
    const url = URL.parse(text)
    if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.hash) return url.href
    context.addIssue({
      code: 'custom',
      message: 'Must be an https:// URL without a user name, a password or a fragment',
    })
    return z.NEVER
  })

const connection = {
  provider_key: z
    .enum(providerKeys)
    .optional()
    .describe('`byo` for an interceptor of your own, `vendor_default` for the vendor’s'),
  interceptor_url: InterceptorUrl.optional().describe('HTTPS address that Inlay asks about each tool call'),
  interceptor_name: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'Must not contain control characters')
    .optional()
    .describe('Name of the interceptor, 1 to 200 characters'),
  api_key: z
    .string()
    .min(8, 'Must have at least 8 characters: the last four are shown')
    .max(2000)
    .regex(/^[\x21-\x7e]+$/, 'Must consist of ASCII characters without spaces')
    .optional()
    .describe('API key for the interceptor, 8 to 2000 characters. It is stored encrypted and never returned.'),
}

const GovernanceConfig = z
  .strictObject({
    provider_key: z
      .enum(providerKeys)
      .describe('`byo` for an interceptor of your own, `vendor_default` for the vendor’s'),
    interceptor_url: z.string().describe('Address that Inlay asks about each tool call; empty until set'),
    interceptor_name: z.string().describe('Name of the interceptor; empty until set'),
    api_key_last4: z.string().describe('Last four characters of the API key, to recognize it; empty without a key'),
    has_api_key: z.boolean().describe('Whether an API key is stored'),
    is_enabled: z.boolean().describe('Whether the provider is asked'),
    last_test_status: z
      .enum([...verdictStatuses, ''])
      .describe('Result of the last test of this connection; empty if it hasn’t been tested'),
    last_test_message: z.string().describe('Message of the last test; empty if there was none'),
    last_test_at: Timestamp.nullable().describe('When this connection was last tested; null if it hasn’t been tested'),
    created_at: Timestamp.describe('When the provider was set up'),
    updated_at: Timestamp.describe('When the configuration was last changed'),
  })
  .meta({ id: 'GovernanceConfig' })

const GovernanceProvider = z
  .strictObject({
    effective_status: z
      .enum(['active', 'bypassed', 'misconfigured'])
      .describe(
        '`active`: every tool call is checked. `bypassed`: no provider is configured, or it is disabled, so calls are not checked. `misconfigured`: the provider is enabled, but incomplete, so calls are refused, or its last test failed.',
      ),
    reason: z.string().describe('Why it has this status, in plain words'),
    config: GovernanceConfig.nullable().describe('The configuration; null if nothing is configured'),
  })
  .meta({ id: 'GovernanceProvider' })

const GovernanceTest = z
  .strictObject({
    provider_key: z.enum(providerKeys).describe('Provider that was tested'),
    interceptor_url: z.string().describe('Address that was tested'),
    interceptor_name: z.string().describe('Name that was tested'),
    status: VerdictStatus.describe(
      '`success`: the call would pass. `notify`: it would pass and be reported. `failure`: the interceptor refused it, couldn’t be reached, or sent an invalid response.',
    ),
    message: z.string().describe('Explanation of the result'),
    violations: z.array(Violation).describe('Policies that the sample call violates'),
    latency_ms: z.int().min(0).describe('How long the interceptor took, in milliseconds'),
  })
  .meta({ id: 'GovernanceTest' })

const governance = { tag: 'Governance' } as const

export const getProvider = operation({
  ...governance,
  id: 'getGovernanceProvider',
  method: 'get',
  path: '/governance/providers/config',
  access: 'org',
  summary: 'Get the governance provider',
  description:
    'A governance provider decides on every tool call before it runs. Returns its configuration without the API key, and whether it is in effect.',
  response: GovernanceProvider,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const updateProvider = operation({
  ...governance,
  id: 'updateGovernanceProvider',
  method: 'patch',
  path: '/governance/providers/config',
  access: 'admin',
  summary: 'Set up or change the governance provider',
  description:
    'Fields that you leave out stay as they are. The first change creates a disabled `byo` provider; set `is_enabled` when the test succeeds. If you change `interceptor_url` to another host, send the `api_key` again, so that a key never goes to a host it wasn’t meant for. Changing the connection discards the last test result.',
  body: z.strictObject({
    ...connection,
    is_enabled: z.boolean().optional().describe('Whether to ask the provider about tool calls'),
  }),
  response: GovernanceProvider,
  errors: [],
})

export const clearProvider = operation({
  ...governance,
  id: 'clearGovernanceProvider',
  method: 'delete',
  path: '/governance/providers/config',
  access: 'admin',
  summary: 'Remove the governance provider',
  description:
    'Deletes the configuration and the API key. Tool calls are no longer checked. Removing it again changes nothing.',
  response: GovernanceProvider,
  errors: [],
})

export const testInterceptor = operation({
  ...governance,
  id: 'testGovernanceProvider',
  method: 'post',
  path: '/governance/providers/test',
  access: 'admin',
  summary: 'Test the governance provider',
  description:
    'Sends a sample call to the interceptor and checks that its response is valid. Fields that you leave out come from the saved configuration. The result is saved only if you test exactly the saved configuration. A failed test is still a 200, with `status: failure`.',
  body: z.strictObject(connection),
  response: GovernanceTest,
  errors: [],
})
