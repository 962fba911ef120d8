import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { name, Timestamp, text } from '../../kernel/foundation/shapes.ts'
import { variant } from '../../kernel/lib/errors.ts'
import { modelProviders } from '../models/models.ts'
import { OriginGroup, ToolPolicies, ToolPolicy } from './policy-shapes.ts'

/** Accepts http as well, because only the service knows whether it runs in development, where http is allowed. */
const ModelUrl = z
  .string()
  .max(2000)
  .meta({ format: 'uri' })
  .transform((written, context) => {
    const url = URL.parse(written)
    const isBase = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(url.href)
    const address = url?.href.replace(/\/+$/, '')
    if (isBase && address?.endsWith('/v1')) return address
    const message = isBase
      ? 'Must end in /v1, such as https://api.example.com/v1'
      : 'Must be an https:// URL without a username, password, query, or fragment'
    context.addIssue({ code: 'custom', message })
    return z.NEVER
  })

const ModelProvider = z.enum(modelProviders)
const providerText =
  'API that the server speaks: `openai_compatible` for Chat Completions, as most servers and gateways do, or `anthropic`'

const ModelInput = z.strictObject({
  provider: ModelProvider.describe(providerText),
  url: ModelUrl.describe(
    'Base URL of the API, such as `https://api.openai.com/v1`. Must start with https:// and end in `/v1`.',
  ),
  name: name(200).describe('Name of the model at this server, 1 to 200 characters'),
  key: z
    .string()
    .min(8, 'Must have at least 8 characters: the last four are shown')
    .max(2000)
    .regex(/^[\x21-\x7e]+$/, 'Must consist of ASCII characters without spaces')
    .optional()
    .describe(
      'API key, 8 to 2000 characters. It’s stored encrypted and never returned. Leave it out to use the saved key for the same host.',
    ),
})

const OwnModel = z
  .strictObject({
    provider: ModelProvider.describe(providerText),
    url: z.string().describe('Base URL of the API'),
    name: z.string().describe('Name of the model at this server'),
    key_last4: z.string().describe('Last four characters of the API key'),
  })
  .meta({ id: 'OwnModel' })

const policiesText =
  'What the agent may do with a tool, by the tool’s name. A connector’s tool is named `<connector>.<tool>`, such as `crm.search`. A page’s tool has its own name, such as `add_to_cart`, or only on one site `https://shop.example.com add_to_cart`, which has precedence. `auto`: call it without asking the user. `ask`: always ask. `never`: don’t call it. Tools without a policy are called if they only read, and otherwise the user is asked.'
const groupsText =
  'Groups of origins that trust each other. Once a conversation has text from one origin, the agent asks the user before it sends anything to another origin, even with the policy `auto`, unless both are in the same group.'

const ModelSource = z.enum(['organization', 'operator', 'ollama', 'demo', 'none'])
const sourceText =
  '`organization`: your own model. `operator`: the model that the operator configured. `ollama`: a local Ollama, in development. `demo`: the built-in demo model, in development. `none`: no model is configured.'
const UsedProvider = z.enum([...modelProviders, 'demo'])

const AgentConfig = z
  .strictObject({
    name: z.string().describe('The agent’s name, which the chat shows'),
    greeting: z.string().describe('Text that the chat shows in an empty conversation; empty for none'),
    starter_prompts: z.array(z.string()).describe('Prompts that the chat offers in an empty conversation'),
    instructions: z.string().describe('Your instructions for the agent; empty for none'),
    model: OwnModel.nullable().describe('Your own model; null to use the installation’s'),
    fallback_models: z.array(OwnModel).describe('Models to try, in order, if your own model fails'),
    effective_model: z
      .strictObject({
        source: ModelSource.describe(sourceText),
        provider: UsedProvider.nullable().describe('API that the model’s server speaks; null if there is no model'),
        name: z.string().nullable().describe('Name of the model; null if there is none'),
        reason: z.string().describe('Why the agent uses this model, or why it has none'),
      })
      .describe('The model that the agent uses. Read-only.'),
    tool_policies: z.record(z.string(), ToolPolicy).describe(policiesText),
    origin_groups: z.array(z.array(z.string())).describe(groupsText),
    anonymous: z
      .strictObject({
        is_enabled: z.boolean().describe('Whether visitors who aren’t signed in can talk to the agent'),
        runs_per_minute: z.int().describe('How many messages a visitor can send per minute'),
      })
      .describe('Visitors without an identity. A publishable key is public, so strangers spend your budget.'),
    are_contents_visible: z
      .boolean()
      .describe('Whether members of the organization can read conversations. Every time they do is an audit event.'),
    retention_days: z
      .int()
      .nullable()
      .describe('After how many days conversations are erased; null to keep them. Counts and usage stay.'),
    updated_at: Timestamp.nullable().describe('When the settings were last changed; null if they never were'),
  })
  .meta({ id: 'AgentConfig' })

const AgentTest = z
  .strictObject({
    success: z.boolean().describe('Whether the model responded'),
    source: ModelSource.describe(`Where the tested model comes from. ${sourceText}`),
    provider: UsedProvider.nullable().describe('API that the model’s server speaks; null if there is no model'),
    model: z.string().nullable().describe('Name of the tested model; null if there is none'),
    latency_ms: z
      .int()
      .min(0)
      .nullable()
      .describe('How long the call took, in milliseconds; null if there is no model to call'),
    prompt_tokens: z.int().min(0).nullable().describe('Tokens of the prompt; null if the test failed'),
    completion_tokens: z.int().min(0).nullable().describe('Tokens of the response; null if the test failed'),
    is_estimated: z.boolean().describe('Whether Inlay estimated the tokens, because the server didn’t report them'),
    message: z.string().describe('Explanation of the result. If the test failed, it says what to do.'),
  })
  .meta({ id: 'AgentTest' })

export const testErrors = {
  MODEL_TEST_RUNNING: variant(
    409,
    'MODEL_TEST_RUNNING',
    'Another test of this organization’s model is running. Try again when it has ended',
  ),
}

const agent = { tag: 'Agent' } as const

export const getAgentConfig = operation({
  ...agent,
  id: 'getAgentConfig',
  method: 'get',
  path: '/agent/config',
  access: 'admin',
  summary: 'Get the agent’s settings',
  description: 'Returns the settings of the organization’s agent, without API keys, and the model that it uses.',
  response: AgentConfig,
  errors: [],
})

export const updateAgentConfig = operation({
  ...agent,
  id: 'updateAgentConfig',
  method: 'patch',
  path: '/agent/config',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Change the agent’s settings',
  description:
    'Fields that you leave out stay as they are. The chat shows `name`, `greeting` and `starter_prompts`. To bring your own model, send `model` with its key; null removes it and deletes the key. Later you can leave the key out for a model on the same host. A model on another host needs its own key: a saved key is only sent to the host it was saved for.',
  body: z.strictObject({
    name: name(60).optional().describe('The agent’s name, 1 to 60 characters'),
    greeting: text(500)
      .optional()
      .describe('Text that the chat shows in an empty conversation, at most 500 characters; empty for none'),
    starter_prompts: z
      .array(name(120))
      .max(6)
      .optional()
      .describe('Prompts that the chat offers in an empty conversation: at most six, of 1 to 120 characters'),
    instructions: text(20_000)
      .optional()
      .describe('Your instructions for the agent, at most 20 000 characters; empty for none'),
    model: ModelInput.nullable()
      .optional()
      .describe('Your own model; null to use the installation’s. Needed if there are fallback models.'),
    fallback_models: z
      .array(ModelInput)
      .max(3)
      .optional()
      .describe('Models to try, in order, if your own model fails: at most three'),
    tool_policies: ToolPolicies.optional().describe(`Replaces all policies, at most 500. ${policiesText}`),
    origin_groups: z
      .array(OriginGroup)
      .max(20)
      .optional()
      .describe(`Replaces all groups: at most 20, of 2 to 20 origins. ${groupsText}`),
    anonymous: z
      .strictObject({
        is_enabled: z.boolean().optional().describe('Whether visitors who aren’t signed in can talk to the agent'),
        runs_per_minute: z
          .int()
          .min(1)
          .max(60)
          .optional()
          .describe('How many messages a visitor can send per minute, 1 to 60'),
      })
      .optional()
      .describe('Visitors without an identity. Off by default.'),
    are_contents_visible: z
      .boolean()
      .optional()
      .describe('Whether members of the organization can read conversations. Off by default.'),
    retention_days: z
      .int()
      .min(1)
      .max(3650)
      .nullable()
      .optional()
      .describe('After how many days conversations are erased, 1 to 3650; null to keep them'),
  }),
  // Room for every field at its limit, even if each character of a text is written as an escape.
  bodyLimit: 1024 * 1024,
  response: AgentConfig,
  errors: [],
})

export const testAgentModel = operation({
  ...agent,
  id: 'testAgentModel',
  method: 'post',
  path: '/agent/config/test',
  access: 'admin',
  summary: 'Test the agent’s model',
  description:
    'Sends one short prompt to the model that the agent uses, or to the `model` that you send, and saves nothing. This is a real call, so the server may charge for it. A failed test is still a 200, with `success: false`. The response is a 409 with `MODEL_TEST_RUNNING` while another test of the organization runs.',
  body: z.strictObject({
    model: ModelInput.optional().describe(
      'Model to test before you save it. You can leave out the key if one is saved for the same host.',
    ),
  }),
  response: AgentTest,
  errors: [],
  ownErrors: testErrors,
})
