/** Why a request was refused. */
export type Reason =
  // the form at the token endpoint
  | 'form'
  | 'grant_type'
  | 'client'
  | 'requested_resource'
  // the format and the header of a token
  | 'missing'
  | 'not_one'
  | 'format'
  | 'assertion'
  | 'critical_header'
  | 'algorithm'
  | 'key_id'
  | 'type'
  // its signature
  | 'provider_unreachable'
  | 'unknown_key'
  | 'signature'
  // its claims
  | 'issuer'
  | 'audience'
  | 'client_id'
  | 'subject'
  | 'expired'
  | 'issued_at'
  | 'not_before'
  | 'lifetime'
  | 'resource'
  | 'scope'
  | 'token_id'
  | 'confirmation'
  | 'transaction'
  | 'operation'
  // its use
  | 'replay_store_unreachable'
  | 'replayed'

/** Only thrown inside the package: the response doesn't reveal the reason. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly reason: Reason

  constructor(reason: Reason, options?: ErrorOptions) {
    super(`Refused: ${reason}`, options)
    this.reason = reason
  }
}

export function refuse(reason: Reason, cause?: unknown): never {
  throw new Refused(reason, { cause })
}

/** For the server's log, never for the caller. It contains no tokens and no secrets. */
export interface Refusal {
  /** A request for an access token, a request with one, or a call to a service behind the server. */
  of: 'grant' | 'access' | 'transaction'
  reason: Reason
  cause?: unknown
}

export type OnRefusal = ((refusal: Refusal) => void) | undefined

/** Reports a refusal and returns its reason. Rethrows any other error. */
export function report(onRefusal: OnRefusal, of: Refusal['of'], error: unknown): Reason {
  if (!(error instanceof Refused)) throw error
  const { reason, cause } = error
  try {
    onRefusal?.({ of, reason, ...(cause !== undefined && { cause }) })
  } catch {
    // An error in the application's callback must not change the response.
  }
  return reason
}
