import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Timestamp } from '../../kernel/foundation/shapes.ts'

const providerKeys = ['vendor_default', 'byo'] as const

const verdictStatuses = ['success', 'notify', 'failure'] as const

/** An interceptor's verdict on a call: allow it, allow and report it, or block it. */
export const VerdictStatus = z.enum(verdictStatuses)

export const Violation = z.strictObject({
  policy_id: z.string().describe('ID of the policy at the provider'),
  status: VerdictStatus.describe('Severity: `notify` reports the call, `failure` blocks it'),
  details: z.string().describe('Explanation from the provider'),
})

/** Accepts http as well, because only the service knows whether it runs in development, where http is allowed. */
const InterceptorUrl = z
  .string()
  .max(2000)
  .meta({ format: 'uri' })
  .transform((text, context) => {
    const url = URL.parse(text)
    if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.hash) return url.href
    context.addIssue({
      code: 'custom',
      message: 'Must be an https:// URL without a username, password, or fragment',
    })
    return z.NEVER
  })

const connection = {
  provider_key: z
    .enum(providerKeys)
    .optional()
    .describe('`byo` for your own interceptor, `vendor_default` for the vendor’s'),
  interceptor_url: InterceptorUrl.optional().describe(
    'HTTPS URL of the interceptor, which Inlay asks about each tool call',
  ),
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
    .describe('API key for the interceptor, 8 to 2000 characters. It’s stored encrypted and never returned.'),
}

const GovernanceConfig = z
  .strictObject({
    provider_key: z.enum(providerKeys).describe('`byo` for your own interceptor, `vendor_default` for the vendor’s'),
    interceptor_url: z
      .string()
      .describe('URL of the interceptor, which Inlay asks about each tool call; empty until set'),
    interceptor_name: z.string().describe('Name of the interceptor; empty until set'),
    api_key_last4: z.string().describe('Last four characters of the API key; empty if no key is stored'),
    has_api_key: z.boolean().describe('Whether an API key is stored'),
    is_enabled: z.boolean().describe('Whether the provider checks tool calls'),
    last_test_status: z
      .enum([...verdictStatuses, ''])
      .describe('Result of the last test of this connection; empty if it hasn’t been tested'),
    last_test_message: z.string().describe('Message from the last test; empty if there is none'),
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
        '`active`: every tool call is checked. `bypassed`: no provider is configured, or it’s disabled, so calls aren’t checked. `misconfigured`: the provider is enabled, but its configuration is incomplete, so every call is blocked, or its last test failed.',
      ),
    reason: z.string().describe('Explanation of the status'),
    config: GovernanceConfig.nullable().describe('The configuration; null if nothing is configured'),
  })
  .meta({ id: 'GovernanceProvider' })

const GovernanceTest = z
  .strictObject({
    provider_key: z.enum(providerKeys).describe('Provider that was tested'),
    interceptor_url: z.string().describe('URL that was tested'),
    interceptor_name: z.string().describe('Interceptor name that was tested'),
    status: VerdictStatus.describe(
      '`success`: the interceptor allowed the call. `notify`: it allowed and reported the call. `failure`: it blocked the call, couldn’t be reached, or sent an invalid response.',
    ),
    message: z.string().describe('Explanation of the result'),
    violations: z.array(Violation).describe('Policies that the sample call violates'),
    latency_ms: z.int().min(0).describe('How long the interceptor took, in milliseconds'),
  })
  .meta({ id: 'GovernanceTest' })

const governance = { tag: 'Governance' } as const

const exampleGovernanceConfig = {
  provider_key: 'byo',
  interceptor_url: 'https://policies.example.com/decide',
  interceptor_name: 'Acme policies',
  api_key_last4: '4f2a',
  has_api_key: true,
  is_enabled: true,
  last_test_status: 'success',
  last_test_message: 'The interceptor let the sample call pass.',
  last_test_at: '2026-11-14T16:05:12.480Z',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

const exampleGovernanceProvider = {
  effective_status: 'active',
  reason: 'The governance provider checks every tool call.',
  config: exampleGovernanceConfig,
} as const

export const getGovernanceProvider = operation({
  ...governance,
  id: 'getGovernanceProvider',
  method: 'get',
  path: '/governance/providers/config',
  access: 'org',
  summary: 'Get the governance provider',
  description:
    'A governance provider allows or blocks every tool call. Returns its configuration, without the API key, and whether it’s in effect.',
  response: GovernanceProvider,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleGovernanceProvider },
})

export const updateGovernanceProvider = operation({
  ...governance,
  id: 'updateGovernanceProvider',
  method: 'patch',
  path: '/governance/providers/config',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Set up or change the governance provider',
  description:
    'Fields that you leave out stay as they are. The first change creates a `byo` provider that is disabled unless you set `is_enabled`; test it before you enable it. If you change `interceptor_url` to another host, send the `api_key` again: a saved key is only sent to the host it was saved for. Changing the connection discards the last test result.',
  body: z.strictObject({
    ...connection,
    is_enabled: z.boolean().optional().describe('Whether the provider checks tool calls'),
  }),
  response: GovernanceProvider,
  errors: [],
  example: {
    request: {
      provider_key: 'byo',
      interceptor_url: 'https://policies.example.com/decide',
      interceptor_name: 'Acme policies',
      api_key: 'gk_EXAMPLE_4f2a',
      is_enabled: true,
    },
    response: exampleGovernanceProvider,
  },
})

export const clearGovernanceProvider = operation({
  ...governance,
  id: 'clearGovernanceProvider',
  method: 'delete',
  path: '/governance/providers/config',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Remove the governance provider',
  description:
    'Deletes the configuration and the API key. Tool calls are no longer checked. Has no effect if no provider is configured.',
  response: GovernanceProvider,
  errors: [],
  example: {
    response: {
      effective_status: 'bypassed',
      reason: 'No governance provider is configured, so tool calls aren’t checked.',
      config: null,
    },
  },
})

export const testInterceptor = operation({
  ...governance,
  id: 'testGovernanceProvider',
  method: 'post',
  path: '/governance/providers/test',
  access: 'admin',
  summary: 'Test the governance provider',
  description:
    'Sends a sample call to the interceptor and checks that its response is valid. Fields that you leave out come from the saved configuration. The result is saved only if you test the saved configuration unchanged. A failed test is still a 200, with `status: failure`.',
  body: z.strictObject(connection),
  response: GovernanceTest,
  errors: [],
  example: {
    request: {
      provider_key: 'byo',
      interceptor_url: 'https://policies.example.com/decide',
      interceptor_name: 'Acme policies',
      api_key: 'gk_EXAMPLE_4f2a',
    },
    response: {
      provider_key: 'byo',
      interceptor_url: 'https://policies.example.com/decide',
      interceptor_name: 'Acme policies',
      status: 'success',
      message: 'The interceptor let the sample call pass.',
      violations: [],
      latency_ms: 84,
    },
  },
})
