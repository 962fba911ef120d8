import type { Caller } from '../foundation/caller.ts'
import type { Operation } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { Failure, failure, invalid } from '../lib/errors.ts'
import { fingerprint } from '../lib/secrets.ts'

/** How long a key is kept. */
const keepSeconds = 24 * 60 * 60
/** Maximum length of a response that is kept, in characters. A skill's has up to twice its 256 KiB, escaped. */
const responseLimit = 2 * 1024 * 1024

/** Documented in OpenAPI for every operation that creates something. */
export const idempotencyKey = {
  name: 'Idempotency-Key',
  pattern: '^[!-~]{1,255}$',
  description:
    'Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation.',
} as const

const allowedKey = new RegExp(idempotencyKey.pattern)

/** What is kept for a key. Without a response, the request is being answered, or nobody knows how it ended. */
interface Kept {
  input: string
  response?: string
}

interface Attempt {
  operation: Operation
  caller: Caller
  key: string
  input: unknown
}

/** Runs `create`, unless the caller's key says that it ran already. Returns the response as JSON. */
export async function createOnce(
  service: Service,
  { operation, caller, key, input }: Attempt,
  create: () => Promise<unknown>,
): Promise<{ response: string; isReplayed: boolean }> {
  const { kv, log } = service
  if (!allowedKey.test(key)) throw invalid(idempotencyKey.name, 'Must be 1 to 255 visible ASCII characters')
  const owner = [caller.organization?.id ?? null, caller.user.id, operation.id, key]
  const name = `idempotency:${fingerprint(JSON.stringify(owner))}`
  const kept: Kept = { input: fingerprint(JSON.stringify(input)) }
  if (!(await kv.setIfAbsent(name, kept, keepSeconds))) {
    return { response: replay(await kv.get<Kept>(name), kept.input), isReplayed: true }
  }
  let response: string
  try {
    response = JSON.stringify(await create())
  } catch (error) {
    // After any other error it may have been created all the same, so the key stays taken.
    if (error instanceof Failure && (error.envelope.status < 500 || error.envelope.status === 503))
      await kv.delete(name)
    throw error
  }
  // It has been created: that the response could not be kept must not make this a failure.
  if (response.length <= responseLimit) {
    await kv
      .set(name, { ...kept, response }, keepSeconds)
      .catch((error) => log.warn({ err: error }, 'a response could not be kept for its Idempotency-Key'))
  }
  return { response, isReplayed: false }
}

function replay(kept: Kept | undefined, input: string): string {
  if (kept && kept.input !== input) {
    throw failure(
      422,
      'IDEMPOTENCY_KEY_REUSED',
      'This Idempotency-Key was used with another input. Use a new key for a new request.',
    )
  }
  if (kept?.response === undefined) {
    throw failure(
      409,
      'IDEMPOTENCY_KEY_IN_USE',
      'A request with this Idempotency-Key is still being answered, or its outcome is unknown. Retry in a few seconds; if this error stays, check whether the resource exists before you use a new key.',
    )
  }
  return kept.response
}
