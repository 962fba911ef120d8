import type { LanguageModelV4StreamPart } from '@ai-sdk/provider'
import type { Config } from '../../kernel/config/config.ts'
import { createModelClients } from './clients.ts'
import { createDemoModel } from './demo/demo-model.ts'
import { explainModelFailure } from './failures.ts'
import { type Choice, chooseInstallationModel } from './installation.ts'
import type { Model, Models, ModelTest } from './models.ts'
import { measureTokens, type Prompt } from './tokens/tokens.ts'

const testWithinMs = 20_000
const mostTestTokens = 16
/** A test shows what the provider reports. */
const mostReportedTestTokens = Number.POSITIVE_INFINITY

/** Looks for Ollama in development, so it may take half a second. */
export async function createModels(
  { config }: { config: Config },
  { timeoutMs = testWithinMs }: { timeoutMs?: number } = {},
): Promise<Models> {
  const clients = createModelClients(config)
  const choice = await chooseInstallationModel(config)
  /** Keys of the models that were handed out, to remove them from messages. */
  const keys = new WeakMap<Model, string>()
  const withKey = (model: Model, key: string | undefined): Model => {
    if (key) keys.set(model, key)
    return model
  }
  const explain = (error: unknown, model: Model) =>
    explainModelFailure(error, model, { key: keys.get(model), setting: config.model?.setting })
  const installed = createInstalled(choice)

  function createInstalled({ source, settings }: Choice): Model | undefined {
    if (source === null) return undefined
    if (!settings) {
      const language = createDemoModel()
      return { source: 'demo', provider: 'demo', name: language.modelId, url: undefined, language }
    }
    const { provider, name, url, key } = settings
    return withKey({ source, provider, name, url, language: clients.forOperator(settings) }, key)
  }

  return {
    choose(own) {
      if (own.length === 0) return installed ? [installed] : []
      return own.map((each) => {
        const { provider, name, url, key } = each
        const language = clients.forOrganization(each)
        return withKey({ source: 'organization', provider, name, url, language }, key)
      })
    },
    installation() {
      const { reason } = choice
      if (!installed) return { model: null, reason }
      const { source, provider, name } = installed
      return { model: { source, provider, name }, reason }
    },
    explain,
    async test(model) {
      try {
        return await callOnce(model, timeoutMs)
      } catch (error) {
        throw explain(error, model)
      }
    },
    close: () => clients.close(),
  }
}

const testPrompt: Prompt = {
  prompt: [{ role: 'user', content: [{ type: 'text', text: 'Reply with OK' }] }],
}

/** Streams, as the agent does, so that it finds servers that can't. */
async function callOnce({ language }: Model, timeoutMs: number): Promise<ModelTest> {
  const started = performance.now()
  const abortSignal = AbortSignal.timeout(timeoutMs)
  const { stream } = await language.doStream({ ...testPrompt, maxOutputTokens: mostTestTokens, abortSignal })
  let text = ''
  let finish: Extract<LanguageModelV4StreamPart, { type: 'finish' }> | undefined
  for await (const part of stream) {
    if (part.type === 'error') throw part.error
    if (part.type === 'text-delta' || part.type === 'reasoning-delta') text += part.delta
    if (part.type === 'finish') finish = part
  }
  if (!finish || ['error', 'interrupted'].includes(finish.finishReason.unified)) throw new Error('The stream broke off')
  const latency_ms = Math.round(performance.now() - started)
  const { prompt_tokens, completion_tokens, is_estimated } = await measureTokens(
    finish.usage,
    testPrompt,
    text,
    mostReportedTestTokens,
  )
  return { latency_ms, prompt_tokens, completion_tokens, is_estimated }
}
