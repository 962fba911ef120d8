import { pino } from 'pino'

export type Log = pino.Logger

/**
 * Logs JSON lines to standard output, without secrets: requests are logged by method, route and status, not by URL,
 * header or body, and anything that looks like a credential is removed from the finished line.
 */
export function createLog(level: string, destination?: pino.DestinationStream): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error) => describeError(error) },
      hooks: { streamWrite: removeCredentials },
      redact: {
        paths: ['authorization', 'password', 'secret', 'token', 'key', 'id_token', 'ticket'],
        censor: '[removed]',
      },
    },
    destination ?? openStandardOutput(),
  )
}

/** Maximum size of the lines that wait to be written, in bytes. Beyond it, new lines are dropped. */
const mostWaitingBytes = 16 * 1024 * 1024

/**
 * Writes lines in batches, at least every half second and at exit. A full disk must neither crash the process with an
 * unhandled error nor keep it from exiting by retrying forever.
 */
function openStandardOutput(): pino.DestinationStream {
  const options = { fd: 1, sync: false, minLength: 15 * 1024, periodicFlush: 500, maxLength: mostWaitingBytes }
  const output = pino.destination(options)
  const { flushSync } = output
  output.on('error', () => {
    output.flushSync = () => undefined
  })
  output.on('write', () => {
    output.flushSync = flushSync
  })
  return output
}

export interface FinishedRequest {
  request_id: string
  method: string
  operation: string
  status: number
  ms: number
}

/**
 * Writes request lines, by far the most common ones, in one batch. They contain no text from callers, so they need no
 * search for credentials.
 */
export function createRequestLog(log: Log): (requests: readonly FinishedRequest[]) => void {
  const destination = (log as unknown as Record<symbol, pino.DestinationStream>)[pino.symbols.streamSym]
  return (requests) => {
    if (!log.isLevelEnabled('info')) return
    const time = new Date().toISOString()
    let text = ''
    for (const { request_id, method, operation, status, ms } of requests) {
      text += `{"level":"info","time":"${time}","request_id":"${request_id}","method":"${method}","operation":"${operation}","status":${status},"ms":${Math.round(ms * 10) / 10},"msg":"request"}\n`
    }
    destination?.write(text)
  }
}

/** Keys, JWTs, sealed envelopes, bearer tokens and passwords in URLs. The groups are the text before the latter two. */
const credential =
  /\bpk_(?:live|test)_\w{6,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\bv1\.[0-9a-f]{8}\.[\w-]+\.[\w-]+|(\bBearer +)[\w.~+/=-]{8,}|(:\/\/[^\s/:@"]*:)[^\s@"]+(?=@)/gi

export const removeCredentials = (text: string): string =>
  text.replace(credential, (_, bearer = '', address = '') => `${bearer}${address}[removed]`)

const deepestCause = 5

function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return String(error)
  return {
    type: error.name,
    message: error.message,
    ...('code' in error && { code: error.code }),
    stack: error.stack,
    ...(error.cause !== undefined && depth < deepestCause && { cause: describeError(error.cause, depth + 1) }),
  }
}
