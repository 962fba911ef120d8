import { pino } from 'pino'

export type Log = pino.Logger

/**
 * Structured lines on standard output. Secrets never reach them: requests are logged by method, route and status, not
 * by URL, header or body, and what looks like a credential inside an error's text is cut out.
 */
export function createLog(level: string, destination?: pino.DestinationStream): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: {
        paths: ['authorization', 'password', 'secret', 'token', 'key', 'id_token', 'ticket'],
        censor: '[removed]',
      },
    },
    destination ?? pino.destination({ fd: 1, sync: false }),
  )
}

/** Keys, bearer tokens, JWTs, sealed envelopes, passwords in connection strings. */
const credential =
  /\b(?:pk_(?:live|test)_\w{6,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|v1\.[0-9a-f]{8}\.[\w-]+\.[\w-]+)|(?<=Bearer )\S+|(?<=:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g

export const removeCredentials = (text: string): string => text.replace(credential, '[removed]')

function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return removeCredentials(String(error))
  return {
    type: error.name,
    message: removeCredentials(error.message),
    ...('code' in error && { code: error.code }),
    stack: removeCredentials(error.stack ?? ''),
    ...(error.cause !== undefined && { cause: describeError(error.cause) }),
  }
}
