import type { LanguageModelV4 } from '@ai-sdk/provider'
import type { Tokens } from './tokens/tokens.ts'

export const modelProviders = ['openai_compatible', 'anthropic'] as const

/** A model that an organization brought, with its key in plain text. All fields are set together. */
export interface OwnModel {
  provider: (typeof modelProviders)[number]
  /** Ends in `/v1`. */
  url: string
  name: string
  key: string
}

/** A model that the agent can use. */
export interface Model {
  source: 'organization' | 'operator' | 'ollama' | 'demo'
  provider: (typeof modelProviders)[number] | 'demo'
  name: string
  /** Undefined for the demo model. */
  url: string | undefined
  language: LanguageModelV4
}

export interface Models {
  /** The models to try, in order: the organization's own, otherwise the installation's. Empty if none is configured. */
  choose(own: readonly OwnModel[]): Model[]
  /** The installation's model, and why it is this one. The reason is for the operator: it names the model's host. */
  installation(): { model: Pick<Model, 'source' | 'provider' | 'name'> | null; reason: string }
  /** Explains why a call failed. */
  explain(error: unknown, model: Model): ModelFailed
  /** One short call. Throws a ModelFailed with a message that says what is wrong and what to do. */
  test(model: Model): Promise<ModelTest>
  close(): Promise<void>
}

export interface ModelTest extends Omit<Tokens, 'cached_tokens'> {
  latency_ms: number
}

export type ModelFailure =
  | 'key'
  | 'not_found'
  | 'rate_limit'
  | 'refused'
  /** The prompt is too long for the model. */
  | 'context'
  | 'redirect'
  | 'provider'
  | 'response'
  /** The reply is far longer than what was asked for. */
  | 'excess'
  | 'timeout'
  | 'blocked_address'
  | 'tls'
  | 'connection'

/** A call to a model that failed. The message is for an administrator and contains no key. */
export class ModelFailed extends Error {
  override readonly name = 'ModelFailed'
  readonly reason: ModelFailure
  /** How long the provider asks to wait. */
  readonly retryAfterMs: number | undefined

  constructor(reason: ModelFailure, message: string, options?: ErrorOptions & { retryAfterMs?: number | undefined }) {
    super(message, options)
    this.reason = reason
    this.retryAfterMs = options?.retryAfterMs
  }
}
