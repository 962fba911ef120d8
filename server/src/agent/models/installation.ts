import { z } from 'zod'
import type { Config, ModelSettings } from '../../kernel/config/config.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import { createSafeFetch, SafeFetchError } from '../../kernel/net/safe-fetch.ts'

/** The installation's model, before it has a client. */
export interface Choice {
  source: 'operator' | 'ollama' | 'demo' | null
  settings: Omit<ModelSettings, 'setting'> | undefined
  /** A full sentence for the operator: it names the model's host. */
  reason: string
}

/** How to configure a model, as one sentence for operators. */
export const howToConfigure = 'To use a real model, set MODEL_URL, ANTHROPIC_API_KEY or OPENAI_API_KEY (docs/agent.md).'

/** Decides which model the installation uses: a configured one, in development also Ollama's, otherwise the demo. */
export async function chooseInstallationModel({ mode, model, ollamaUrl }: Config): Promise<Choice> {
  if (model) {
    const { setting, ...settings } = model
    return { source: 'operator', settings, reason: explainSetting(setting, settings.url) }
  }
  if (mode === 'production') {
    return { source: null, settings: undefined, reason: 'No model is configured.' }
  }
  const ollama = ollamaUrl ? await findOllama(ollamaUrl) : { problem: undefined }
  if ('name' in ollama) {
    return {
      source: 'ollama',
      settings: { provider: 'openai_compatible', url: `${ollamaUrl}/v1`, name: ollama.name, key: undefined },
      reason: `Ollama runs at ${ollamaUrl}; this is its first model.`,
    }
  }
  const problem = ollama.problem ? `, and ${ollama.problem}` : ''
  return { source: 'demo', settings: undefined, reason: `No model is configured${problem}.` }
}

function explainSetting(setting: ModelSettings['setting'], url: string): string {
  const { host } = new URL(url)
  return setting === 'MODEL_URL' ? `MODEL_URL is set, to ${host}.` : `${setting} is set, so requests go to ${host}.`
}

const ollamaWithinMs = 500

const tags = z.object({ models: z.array(z.object({ name: z.string().min(1).max(200) })) })

/** Returns the first model that can chat, or why there is none. */
async function findOllama(url: string): Promise<{ name: string } | { problem: string }> {
  const fetch = createSafeFetch({ allowedPrivateNetworks: ['127.0.0.0/8', '::1/128'], timeoutMs: ollamaWithinMs })
  try {
    const response = await fetch(`${url}/api/tags`)
    const found = tags.safeParse(parseJson(await response.text())).data
    if (!response.ok || !found) return { problem: `the program at ${url} isn't Ollama` }
    const first = found.models.find(({ name }) => !name.includes('embed'))
    return first ?? { problem: `Ollama at ${url} has no chat model; add one with "ollama pull"` }
  } catch (error) {
    if (error instanceof InvalidJson) return { problem: `the program at ${url} isn't Ollama` }
    if (!(error instanceof SafeFetchError)) throw error
    const isSlow = error.reason === 'timeout'
    return {
      problem: isSlow ? `Ollama at ${url} didn't respond within ${ollamaWithinMs} ms` : `no Ollama runs at ${url}`,
    }
  } finally {
    await fetch.close()
  }
}
