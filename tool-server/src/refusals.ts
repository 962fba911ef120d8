import type { AccessReason } from './access-tokens.ts'
import type { GrantReason } from './token-endpoint.ts'
import type { TransactionReason } from './transaction-tokens.ts'

type Reason = GrantReason | AccessReason | TransactionReason

/** Thrown inside, with a reason that stays inside: the caller is told less. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly reason: Reason

  constructor(reason: Reason, options?: ErrorOptions) {
    super(`Refused: ${reason}`, options)
    this.reason = reason
  }
}

/** For the log of the server, never for the caller. It holds no token and no secret. */
export interface Refusal {
  /** What was refused: a token, the use of one, or an operation of a service behind the server. */
  of: 'grant' | 'access' | 'transaction'
  reason: Reason
  cause?: unknown
}

/** Somebody else's callback does not change an answer. */
export function report(onRefusal: ((refusal: Refusal) => void) | undefined, refusal: Refusal): void {
  try {
    onRefusal?.(refusal)
  } catch {}
}
