import { pino } from 'pino'

export type Log = pino.Logger

/**
 * Structured lines on standard output. Secrets never reach them: requests are logged by method, route and status, not
 * by URL, header or body, and what looks like a credential is cut out of the finished line.
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

/** Lines that wait because they can't be written. Beyond so many bytes new ones are dropped. */
const mostWaitingBytes = 16 * 1024 * 1024

/**
 * Lines are written together, at the latest after half a second, and the rest at exit. A file on a full disk must neither
 * end the process, by an error that nobody handles, nor keep it from ending, by trying again for ever.
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
 * The lines of requests, by far the most, in one piece. They hold nothing that a caller wrote, so the search for
 * credentials is spared.
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

/** Keys, JWTs, sealed envelopes, bearer tokens, passwords in connection strings; the words before the last two may stay. */
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
