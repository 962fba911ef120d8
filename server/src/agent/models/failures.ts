import { AISDKError } from '@ai-sdk/provider'
import type { ModelSettings } from '../../kernel/config/config.ts'
import { SafeFetchError, type SafeFetchReason } from '../../kernel/net/safe-fetch.ts'
import { cleanLine, cleanText } from '../../kernel/untrusted/page-text.ts'
import { type Model, ModelFailed, type ModelFailure } from './models.ts'

/** Thrown when a reply is a multiple of what the model was asked for. */
export class ReplyTooLong extends Error {
  override readonly name = 'ReplyTooLong'
}

/** How a model was configured: its key, and the operator's setting that chose it. */
interface Access {
  key: string | undefined
  setting: ModelSettings['setting'] | undefined
}

/** What is known about a failed call. */
interface Failure {
  status: number | undefined
  retryAfter: string | undefined
  /** The provider's explanation, which is untrusted. */
  said: string
}

const longestQuote = 300
const deepestCause = 5

/** Explains to an administrator why a call failed, and what to do. Removes the key if the provider repeats it. */
export function explainModelFailure(error: unknown, model: Model, { key, setting }: Access): ModelFailed {
  const host = model.url ? new URL(model.url).host : model.name
  const network = findSafeFetchError(error)
  // The library's errors quote the request and the response, which must not get into the log.
  const cause = network ?? (error instanceof Error && !AISDKError.isInstance(error) ? error : undefined)
  const fail = (reason: ModelFailure, message: string) => new ModelFailed(reason, message, { cause })
  if (error instanceof ReplyTooLong) {
    return fail(
      'excess',
      `${host} wrote far more than it was asked for. ${error.message}. Check that it obeys max_tokens.`,
    )
  }
  if (error instanceof DOMException && (error.name === 'TimeoutError' || error.name === 'AbortError')) {
    return fail('timeout', `${host} didn't complete its response in time. Try again, or choose a faster model.`)
  }
  if (network) {
    const { reason, advice } = networkFailures[network.reason]
    return fail(reason, `${network.message}. ${advice(model, setting)}`)
  }
  const { status, retryAfter, said } = readFailure(error)
  const safe = key ? said.replaceAll(key, '[removed]') : said
  const quote = safe ? ` ${host} says: ${cleanLine(safe, longestQuote)}` : ''
  if (!isErrorStatus(status)) {
    const expected = `The response from ${host} is incomplete, or not from ${apis[model.provider]}.`
    return fail('response', `${expected} ${check(model, 'URL', setting)}${quote}`)
  }
  if (status === 401 && !key && model.source === 'operator') {
    return fail('key', `${host} requires a key (401). Set MODEL_KEY.${quote}`)
  }
  if (status === 401) return fail('key', `${host} rejected the key (401). ${check(model, 'key', setting)}${quote}`)
  if (status === 403) {
    return fail('key', `${host} doesn't allow this key to use the model "${model.name}" (403).${quote}`)
  }
  if (status === 404) {
    const advice = `Check the spelling of the name, and that the URL ends in /v1.`
    return fail('not_found', `${host} doesn't have the model "${model.name}" (404). ${advice}${quote}`)
  }
  if (status === 429) {
    const seconds = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined
    const wait = seconds === undefined ? ' Try again later.' : ` Try again in ${seconds} seconds.`
    const message = `${host} has reached the limit of requests or credit for this key (429).${wait}${quote}`
    return new ModelFailed('rate_limit', message, { cause, retryAfterMs: seconds && seconds * 1000 })
  }
  if (status >= 500) return fail('provider', `${host} has a problem of its own (${status}). Try again later.${quote}`)
  if (status >= 300 && status < 400) {
    return fail('redirect', `${host} redirects to another address (${status}). ${check(model, 'URL', setting)}`)
  }
  if (status === 413 || tooLong.test(safe)) {
    return fail('context', `The prompt is too long for the model "${model.name}" (${status}).${quote}`)
  }
  return fail('refused', `${host} rejected the request (${status}).${quote}`)
}

const isErrorStatus = (status: number | undefined): status is number =>
  status !== undefined && (status < 200 || status > 299)

const reasonsBeforeSending = new Set<SafeFetchReason>(['invalid_url', 'blocked_address', 'dns', 'tls'])
const codesBeforeSending = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'])

/**
 * Whether the provider refused a request, or never received it. If it was only slow, or the request was aborted, it may
 * charge for it.
 */
export function isRefusal(error: unknown): boolean {
  const network = findSafeFetchError(error)
  if (!network) return isErrorStatus(readFailure(error).status)
  const { code = '' } = (network.cause ?? {}) as { code?: string }
  return reasonsBeforeSending.has(network.reason) || codesBeforeSending.has(code)
}

/** How providers say that a prompt exceeds the model's window. They have no common code for it. */
const tooLong = /context.{0,20}(length|window|size)|too long|too many (input )?tokens|maximum.{0,30}tokens/i

const apis = {
  openai_compatible: 'an OpenAI-compatible API',
  anthropic: 'an Anthropic API',
  demo: 'a model',
}

const check = ({ source }: Model, what: 'URL' | 'key', setting: Access['setting']): string => {
  if (source === 'organization') return `Check the ${what} in the agent's settings.`
  if (source === 'ollama') return 'Check that Ollama still runs.'
  if (what === 'key') return `Check ${setting === 'MODEL_URL' ? 'MODEL_KEY' : setting}.`
  return setting === 'MODEL_URL' ? 'Check MODEL_URL.' : "Check this server's DNS and internet access."
}

type Advice = (model: Model, setting: Access['setting']) => string
const checkUrl: Advice = (model, setting) => check(model, 'URL', setting)

const networkFailures: Record<SafeFetchReason, { reason: ModelFailure; advice: Advice }> = {
  invalid_url: { reason: 'blocked_address', advice: checkUrl },
  blocked_address: {
    reason: 'blocked_address',
    advice: () => 'Use a public address, or ask the operator to add its network to INLAY_ALLOWED_PRIVATE_NETWORKS.',
  },
  dns: { reason: 'connection', advice: checkUrl },
  tls: { reason: 'tls', advice: () => 'Install a certificate that a public authority issued for this host.' },
  timeout: { reason: 'timeout', advice: () => 'Try again, or choose a faster model.' },
  too_large: { reason: 'response', advice: checkUrl },
  connection: {
    reason: 'connection',
    advice: (model, setting) =>
      model.source === 'operator' && setting !== 'MODEL_URL'
        ? checkUrl(model, setting)
        : `Check that the server runs. ${checkUrl(model, setting)}`,
  },
}

/** The library wraps some errors of its fetch, and not others. */
function findSafeFetchError(error: unknown, depth = 0): SafeFetchError | undefined {
  if (error instanceof SafeFetchError) return error
  if (!(error instanceof Error) || depth === deepestCause) return undefined
  return findSafeFetchError(error.cause, depth + 1)
}

/** Reads errors that the library throws, and errors inside a stream, which have the provider's shape. */
function readFailure(error: unknown): Failure {
  const { statusCode, responseHeaders, data, message } = (error ?? {}) as Record<string, unknown>
  const status = typeof statusCode === 'number' ? statusCode : undefined
  const headers = (responseHeaders ?? {}) as Record<string, string | undefined>
  // The library's own messages quote whole responses; the provider's are in `data`.
  const { error: inner } = (data ?? {}) as { error?: { message?: unknown } }
  const said = inner?.message ?? (error instanceof Error ? undefined : message)
  return {
    status,
    retryAfter: headers['retry-after'],
    said: typeof said === 'string' ? cleanText(said) : '',
  }
}
