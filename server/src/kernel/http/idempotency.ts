import type { Caller } from '../foundation/caller.ts'
import type { Operation } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { Failure, failure, invalid } from '../lib/errors.ts'
import { fingerprint } from '../lib/secrets.ts'

/** How long a key is stored. */
const keepSeconds = 24 * 60 * 60
/** Maximum length of a stored response, in characters. A skill's contains its 256 KiB up to twice, escaped. */
const responseLimit = 2 * 1024 * 1024

/** Documented in OpenAPI for every operation that creates something. */
export const idempotencyKey = {
  name: 'Idempotency-Key',
  pattern: '^[!-~]{1,255}$',
  description:
    'Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation.',
} as const

const allowedKey = new RegExp(idempotencyKey.pattern)

/** The stored state of a key. Without a response, the request is in progress, or its outcome is unknown. */
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

/** Runs `create`, unless it already ran for the caller's key. Returns the response as JSON. */
export async function createOnce(
  service: Service,
  { operation, caller, key, input }: Attempt,
  create: () => Promise<unknown>,
): Promise<{ response: string; isReplayed: boolean }> {
  const { kv, log } = service
  if (!allowedKey.test(key)) throw invalid(idempotencyKey.name, 'Must be 1 to 255 visible ASCII characters')
  const owner = [caller.organization?.id ?? null, caller.id, operation.id, key]
  // With the organization's id, so that the response is erased with the organization.
  const name = `idempotency:${caller.organization?.id ?? ''}:${fingerprint(JSON.stringify(owner))}`
  const kept: Kept = { input: fingerprint(JSON.stringify(input)) }
  if (!(await kv.setIfAbsent(name, kept, keepSeconds))) {
    return { response: replay(await kv.get<Kept>(name), kept.input), isReplayed: true }
  }
  let response: string
  try {
    response = JSON.stringify(await create())
  } catch (error) {
    // After any other error the resource may exist, so the key stays in use.
    if (error instanceof Failure && (error.envelope.status < 500 || error.envelope.status === 503))
      await kv.delete(name)
    throw error
  }
  // The resource exists, so the request must not fail if its response can't be stored.
  if (response.length <= responseLimit) {
    await kv
      .set(name, { ...kept, response }, keepSeconds)
      .catch((error) => log.warn({ err: error }, 'could not store the response for its Idempotency-Key'))
  }
  return { response, isReplayed: false }
}

function replay(kept: Kept | undefined, input: string): string {
  if (kept && kept.input !== input) {
    throw failure(
      422,
      'IDEMPOTENCY_KEY_REUSED',
      'This Idempotency-Key was already used with a different input. Use a new key for each new request.',
    )
  }
  if (kept?.response === undefined) {
    throw failure(
      409,
      'IDEMPOTENCY_KEY_IN_USE',
      'A request with this Idempotency-Key is still in progress, or its outcome is unknown. Retry in a few seconds. If this error persists, check whether the resource exists before you use a new key.',
    )
  }
  return kept.response
}
