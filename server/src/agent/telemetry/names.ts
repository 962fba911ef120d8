import type { LanguageModelV4FinishReason } from '@ai-sdk/provider'
import type { Model } from '../models/models.ts'

/**
 * The names of OpenTelemetry's conventions for generative AI (https://github.com/open-telemetry/semantic-conventions-genai).
 * They still change, so all of them are in this file.
 */

export const operations = { run: 'invoke_agent', modelCall: 'chat', toolCall: 'execute_tool' } as const

/** A span's name: the operation, and what it is about. */
export const nameSpan = (operation: string, subject: string | undefined): string =>
  subject ? `${operation} ${subject}` : operation

export const names = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  agentName: 'gen_ai.agent.name',
  conversation: 'gen_ai.conversation.id',
  model: 'gen_ai.request.model',
  maxTokens: 'gen_ai.request.max_tokens',
  isStreamed: 'gen_ai.request.stream',
  finishReasons: 'gen_ai.response.finish_reasons',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  tokenType: 'gen_ai.token.type',
  toolName: 'gen_ai.tool.name',
  toolCall: 'gen_ai.tool.call.id',
  toolType: 'gen_ai.tool.type',
  error: 'error.type',
  serverAddress: 'server.address',
  serverPort: 'server.port',
  /** Langfuse and Phoenix group spans by these two. A session is a conversation there. */
  user: 'user.id',
  session: 'session.id',
  serviceName: 'service.name',
  serviceVersion: 'service.version',
  serviceInstance: 'service.instance.id',
  overflow: 'otel.metric.overflow',
  // The rest has no name in the conventions.
  organization: 'inlay.organization.id',
  run: 'inlay.run.id',
  runStatus: 'inlay.run.status',
  isEstimated: 'inlay.usage.is_estimated',
  toolKind: 'inlay.tool.kind',
  toolOrigin: 'inlay.tool.origin',
} as const

/** Attributes with contents, which are only sent if the operator switched that on. */
export const contentNames = {
  instructions: 'gen_ai.system_instructions',
  input: 'gen_ai.input.messages',
  output: 'gen_ai.output.messages',
  toolArguments: 'gen_ai.tool.call.arguments',
  toolResult: 'gen_ai.tool.call.result',
} as const

/** Metrics, with the bounds that the conventions recommend. */
export const metricNames = {
  tokens: {
    name: 'gen_ai.client.token.usage',
    unit: '{token}',
    description: 'Number of input and output tokens used.',
    bounds: Array.from({ length: 14 }, (_, index) => 4 ** index),
  },
  duration: {
    name: 'gen_ai.client.operation.duration',
    unit: 's',
    description: 'GenAI operation duration.',
    bounds: Array.from({ length: 14 }, (_, index) => 2 ** index / 100),
  },
} as const

/** Providers that the conventions have a name for, by the host of their OpenAI-compatible API. */
const providersByHost = new Map([
  ['api.openai.com', 'openai'],
  ['api.mistral.ai', 'mistral_ai'],
  ['api.deepseek.com', 'deepseek'],
  ['api.groq.com', 'groq'],
  ['api.perplexity.ai', 'perplexity'],
  ['api.x.ai', 'x_ai'],
  ['api.cohere.ai', 'cohere'],
])

export function nameProvider({ provider, source, url }: Model): string {
  if (provider !== 'openai_compatible' || url === undefined) return provider
  if (source === 'ollama') return 'ollama'
  return providersByHost.get(new URL(url).hostname) ?? provider
}

/** Why a model's reply ended. `stopped`: the user stopped the run. */
export type Finish = LanguageModelV4FinishReason['unified'] | 'stopped'

export const nameFinish = (reason: Finish): string => (reason === 'tool-calls' ? 'tool_call' : reason.replace('-', '_'))

/** Page tools and tools of clients run there; all others run here, or are called from here. */
export const nameToolType = (kind: string | undefined): string =>
  kind === 'page' || kind === 'client' ? 'function' : 'extension'
