import {
  ClientMessage,
  goneAfterMs,
  maxDefinitionBytes,
  maxMessageBytes,
  maxNameLength,
  maxRunningCalls,
  maxSchemaBytes,
  maxTools,
} from '@inlay/protocol'
import type { RawData } from 'ws'
import type { Service } from '../../kernel/foundation/service.ts'
import { OverLimit } from '../../kernel/untrusted/definitions.ts'
import type { Farewell, RuntimeSocket } from './socket.ts'

export type Hello = ClientMessage & { type: 'hello' }

/** The limits that `ready` tells a page. */
export const messageLimits = {
  message_bytes: maxMessageBytes,
  tools: maxTools,
  schema_bytes: maxSchemaBytes,
  definition_bytes: maxDefinitionBytes,
  name_length: maxNameLength,
  running_calls: maxRunningCalls,
}

/** Thrown when a widget violates the protocol. */
export class ProtocolError extends Error {
  override name = 'ProtocolError'
}

/** How long such a client waits before it tries again. */
const afterSlownessMs = 5_000

/** Thrown when a client doesn't read its messages fast enough, or there is no room for more. */
export class TooSlow extends Error {}

export function readMessage(data: RawData): ClientMessage {
  const read = ClientMessage.safeParse(parse(String(data)))
  if (read.success) return read.data
  const [issue] = read.error.issues
  const problem = `${issue?.path.join('.') || 'message'}: ${issue?.message}`
  throw issue?.code === 'too_big' || issue?.code === 'too_small' ? new OverLimit(problem) : new ProtocolError(problem)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProtocolError('A message is not valid JSON')
  }
}

/** Closes a socket and ends its session, because one of its messages couldn't be handled. */
export function closeFailed(
  { log, metrics }: Pick<Service, 'log' | 'metrics'>,
  socket: RuntimeSocket,
  error: unknown,
): void {
  const farewell = farewellFor(error)
  if (farewell.code === 'internal_error') log.error({ err: error }, 'Could not handle a message on a socket')
  metrics.countRefusal('runtime', farewell.code)
  if (socket.session) socket.session.end(farewell)
  else socket.endWith(farewell)
}

export function farewellFor(error: unknown): Farewell {
  if (error instanceof TooSlow) return { code: 'too_slow', reason: error.message, retryAfterMs: afterSlownessMs }
  if (error instanceof OverLimit) return { code: 'over_limit', reason: error.message }
  if (error instanceof ProtocolError) return { code: 'protocol_error', reason: error.message }
  return { code: 'internal_error', reason: 'The server could not handle the message', retryAfterMs: goneAfterMs }
}
