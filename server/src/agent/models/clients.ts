import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import type { LanguageModelV4 } from '@ai-sdk/provider'
import type { Config } from '../../kernel/config/config.ts'
import { createSafeFetch, privateNetworks, SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import { createEventPace, type EventPace } from './event-pace.ts'
import type { OwnModel } from './models.ts'

/** Where a model is, and how to reach it. */
type Target = Omit<OwnModel, 'key'> & { key: string | undefined }

export interface ModelClients {
  /** For the operator's model, which may be on this computer or in a private network. */
  forOperator(target: Target): LanguageModelV4
  /** For an organization's model, which is as restricted as all addresses that administrators enter. */
  forOrganization(target: OwnModel): LanguageModelV4
  close(): Promise<void>
}

/**
 * Models can think for minutes, and send nothing meanwhile. A reply of 4 096 tokens has up to 3 MB, because each token
 * comes in an event of its own.
 */
const limits = { timeoutMs: 10 * 60_000, streamIdleMs: 2 * 60_000, maxBytes: 8 * 1024 * 1024 }

export function createModelClients({ mode, allowedPrivateNetworks }: Config): ModelClients {
  const operatorFetch = createSafeFetch({
    ...limits,
    allowedPrivateNetworks: [...privateNetworks, ...allowedPrivateNetworks],
  })
  const safeFetch = createSafeFetch({ ...limits, allowedPrivateNetworks })
  const organizationFetch: typeof fetch = async (input, init) => {
    const { host, protocol } = new URL(input instanceof Request ? input.url : input)
    if (mode === 'production' && protocol !== 'https:') {
      throw new SafeFetchError('invalid_url', `${host} can only be reached with https://, not ${protocol}//`)
    }
    return safeFetch(input, init)
  }
  const pace = createEventPace()
  return {
    forOperator: (target) => createClient(target, paceEvents(operatorFetch, pace)),
    forOrganization: (target) => createClient(target, paceEvents(organizationFetch, pace)),
    async close() {
      await operatorFetch.close()
      await safeFetch.close()
    },
  }
}

/** Lets `fetch` read replies at the given pace. */
export const paceEvents =
  (fetch: typeof globalThis.fetch, pace: EventPace): typeof globalThis.fetch =>
  async (input, init) => {
    const response = await fetch(input, init)
    const { body, headers, ok, status, statusText } = response
    // The AI SDK reads every successful response as an event stream, whatever its type.
    if (!body || !ok) return response
    return new Response(pace.follow(body), { headers, status, statusText })
  }

export function createClient(
  { provider, url, name, key = '' }: Target,
  fetch: typeof globalThis.fetch,
): LanguageModelV4 {
  if (provider === 'anthropic') {
    // Without a string, the library would read the operator's key from the environment.
    return createAnthropic({ baseURL: url, apiKey: key, fetch })(name)
  }
  return createOpenAICompatible({
    name: 'openai-compatible',
    baseURL: url,
    fetch,
    includeUsage: true,
    ...(key && { apiKey: key }),
    ...(new URL(url).hostname === 'api.openai.com' && { transformRequestBody: renameTokenLimit }),
  })(name)
}

/** OpenAI's newer models reject `max_tokens`; other servers only know that. */
function renameTokenLimit({ max_tokens, ...body }: Record<string, unknown>): Record<string, unknown> {
  return max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens }
}
