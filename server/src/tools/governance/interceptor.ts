import { z } from 'zod'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import { SafeFetchError, type SafeFetchReason } from '../../kernel/net/safe-fetch.ts'
import { type testInterceptor, VerdictStatus, Violation } from './contract.ts'

export interface Connection {
  interceptor_url: string
  interceptor_name: string
  api_key: string
}

/** A tool call to decide on: by its arguments before it runs, and by its result afterwards. */
export type Question =
  | { phase: 'request'; context: CallContext & { arguments: unknown } }
  | { phase: 'response'; context: CallContext & { result: unknown } }

interface CallContext {
  mcp_call_id: string
  organization_id: string
  /** Email address of the user on whose behalf the tool is called. */
  caller_identity: string
  /** The page that offers the tool. */
  source: { tabId: string; origin: string; url: string; title: string }
  tool: string
}

type Verdict = Pick<Output<typeof testInterceptor>, 'status' | 'message' | 'violations'>

/** The required fields of a verdict; others are ignored. */
const Answer = z.object({
  jsonrpc: z.literal('2.0'),
  id: z.string(),
  error: z.null().optional(),
  result: z.object({
    status: VerdictStatus,
    message: z.string().optional(),
    violations: z.array(z.object(Violation.shape)).max(100),
  }),
})
const RemoteError = z.object({ error: z.object({ code: z.number(), message: z.string() }) })

/**
 * Sends one JSON-RPC request, `interceptor/validate`. An invalid response is a `failure` with an explanation, because a
 * call must not run without a verdict.
 */
export async function askInterceptor(
  service: Pick<Service, 'fetch' | 'log'>,
  connection: Connection,
  question: Question,
): Promise<Verdict & { latency_ms: number }> {
  const started = performance.now()
  const { status, message, violations } = await exchange(service, connection, question)
  // The interceptor's messages are stored and shown, and they can contain the key it was sent.
  const clean = (text: string) => cleanText(text.replaceAll(connection.api_key, '[API key]'))
  return {
    status,
    message: clean(message),
    violations: violations.map(({ policy_id, status, details }) => ({
      policy_id: clean(policy_id),
      status,
      details: clean(details),
    })),
    latency_ms: Math.round(performance.now() - started),
  }
}

async function exchange(
  { fetch, log }: Pick<Service, 'fetch' | 'log'>,
  { interceptor_url, interceptor_name, api_key }: Connection,
  question: Question,
): Promise<Verdict> {
  const id = newId()
  const params = { interceptor_name, event: 'tools/call', ...question }
  try {
    const response = await fetch(interceptor_url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${api_key}`,
        'content-type': 'application/json',
        accept: 'application/json',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id, method: 'interceptor/validate', params }),
    })
    if (response.status !== 200) return refuse(explainStatus(response.status))
    return readVerdict(parseJson(await response.text()), id)
  } catch (error) {
    if (error instanceof InvalidJson) return refuse(`The interceptor’s response isn’t valid JSON: ${error.message}`)
    if (!(error instanceof SafeFetchError)) throw error
    log.warn(
      { organization_id: question.context.organization_id, err: error },
      'Could not reach the governance interceptor',
    )
    return refuse(`${error.message}. ${advice[error.reason]}`)
  }
}

/** Reads the verdict from the response to the request with this ID. If it's invalid, the verdict is a `failure`. */
export function readVerdict(answer: unknown, id: string): Verdict {
  const remoteError = RemoteError.safeParse(answer)
  if (remoteError.success) {
    const { code, message } = remoteError.data.error
    return refuse(`The interceptor returned the JSON-RPC error ${code}: ${message}`)
  }
  const read = Answer.safeParse(answer)
  if (!read.success) {
    const [issue] = read.error.issues
    return refuse(
      `The interceptor’s response is invalid at ${issue?.path.join('.') || 'the top level'}: ${issue?.message}`,
    )
  }
  if (read.data.id !== id)
    return refuse('The interceptor’s response is invalid at id: it doesn’t match the request’s id')
  const { status, message, violations } = read.data.result
  return { status, message: message || defaultMessages[status], violations }
}

const defaultMessages: Record<Verdict['status'], string> = {
  success: 'The interceptor allowed the call',
  notify: 'The interceptor allowed the call and reported it',
  failure: 'The interceptor blocked the call',
}

const refuse = (message: string): Verdict => ({ status: 'failure', message, violations: [] })

/** Makes external text safe to store and show: removes control and bidirectional characters, and limits its length. */
const cleanText = (text: string) =>
  text
    .replace(/[\p{Cc}\p{Bidi_Control}]+/gu, ' ')
    .slice(0, 1000)
    .toWellFormed()

const advice: Record<SafeFetchReason, string> = {
  invalid_url: 'Enter an https:// URL',
  blocked_address: 'Enter the URL of a public host, or ask the operator to allow the network',
  dns: 'Check the spelling of the host',
  tls: 'Install a certificate that is valid for this host',
  timeout: 'Make the interceptor respond faster, or try again',
  too_large: 'Make the interceptor send a shorter response',
  connection: 'Check that the interceptor is running and reachable from this server',
}

function explainStatus(status: number): string {
  const answered = `The interceptor responded with HTTP ${status}`
  if (status >= 300 && status < 400) return `${answered}. Enter the URL that it redirects to`
  if (status === 401 || status === 403) return `${answered}. Enter an API key that it accepts`
  if (status === 404 || status === 405) return `${answered}. Check the path of the URL`
  return `${answered} instead of 200. Check its log, or try again`
}
