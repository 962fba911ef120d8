import { z } from 'zod'
import { operation } from '../operation.ts'
import { Timestamp } from '../shapes.ts'

const providerKeys = ['vendor_default', 'byo'] as const

const verdictStatuses = ['success', 'notify', 'failure'] as const

/** What an interceptor says of a call: let it pass, let it pass and tell somebody, or refuse it. */
export const VerdictStatus = z.enum(verdictStatuses)

export const Violation = z.strictObject({ policy_id: z.string(), status: VerdictStatus, details: z.string() })

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
  provider_key: z.enum(providerKeys).optional(),
  interceptor_url: InterceptorUrl.optional(),
  interceptor_name: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'Must not contain control characters')
    .optional(),
  api_key: z
    .string()
    .min(8, 'Must have at least 8 characters: the last four are shown')
    .max(2000)
    .regex(/^[\x21-\x7e]+$/, 'Must consist of ASCII characters without spaces')
    .optional(),
}

const GovernanceConfig = z
  .strictObject({
    provider_key: z.enum(providerKeys),
    interceptor_url: z.string().describe('Empty when it was not given yet'),
    interceptor_name: z.string().describe('Empty when it was not given yet'),
    api_key_last4: z.string().describe('All that is ever shown of the API key; empty without one'),
    has_api_key: z.boolean(),
    is_enabled: z.boolean(),
    last_test_status: z.enum([...verdictStatuses, '']).describe('Empty when this connection was not tested yet'),
    last_test_message: z.string(),
    last_test_at: Timestamp.nullable(),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'GovernanceConfig' })

const GovernanceProvider = z
  .strictObject({
    effective_status: z
      .enum(['active', 'bypassed', 'misconfigured'])
      .describe('`bypassed`: none is configured, or it is disabled'),
    reason: z.string(),
    config: GovernanceConfig.nullable(),
  })
  .meta({ id: 'GovernanceProvider' })

const GovernanceTest = z
  .strictObject({
    provider_key: z.enum(providerKeys),
    interceptor_url: z.string(),
    interceptor_name: z.string(),
    status: VerdictStatus,
    message: z.string(),
    violations: z.array(Violation),
    latency_ms: z.int().min(0),
  })
  .meta({ id: 'GovernanceTest' })

const governance = { tag: 'Governance' } as const

export const getProvider = operation({
  ...governance,
  id: 'getGovernanceProvider',
  method: 'get',
  path: '/governance/providers/config',
  access: 'org',
  summary: 'Who decides on tool calls, and whether that works',
  response: GovernanceProvider,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const updateProvider = operation({
  ...governance,
  id: 'updateGovernanceProvider',
  method: 'patch',
  path: '/governance/providers/config',
  access: 'admin',
  summary: 'Set up the provider or change some of its settings',
  description:
    'The first change creates a disabled `byo` provider. An `interceptor_url` on another host needs the `api_key` again. What was tested is forgotten when the connection changes.',
  body: z.strictObject({ ...connection, is_enabled: z.boolean().optional() }),
  response: GovernanceProvider,
  errors: [],
})

export const clearProvider = operation({
  ...governance,
  id: 'clearGovernanceProvider',
  method: 'delete',
  path: '/governance/providers/config',
  access: 'admin',
  summary: 'Forget the provider and its API key; doing it twice changes nothing',
  response: GovernanceProvider,
  errors: [],
})

export const testProvider = operation({
  ...governance,
  id: 'testGovernanceProvider',
  method: 'post',
  path: '/governance/providers/test',
  access: 'admin',
  summary: 'Ask the interceptor about a sample call and check its answer',
  description:
    'What is left out comes from the saved configuration. The outcome is remembered only when exactly that was tested.',
  body: z.strictObject(connection),
  response: GovernanceTest,
  errors: [],
})
