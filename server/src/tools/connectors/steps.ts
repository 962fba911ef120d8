import { cleanLine } from '../../kernel/untrusted/page-text.ts'
import { type RefusalLog, recordRefusal } from '../../organizations/diagnostics/refusals.ts'

/**
 * The steps from a caller to a tool's result. Third parties need `consent` instead of the steps before it. `revocation`
 * ends a consent.
 */
export type Step =
  | 'identity'
  | 'metadata'
  | 'provider_exchange'
  | 'redemption'
  | 'consent'
  | 'revocation'
  | 'tools_list'
  | 'tools_call'

/**
 * A failed step. The message tells the administrator what to fix. It contains no secrets, but may quote untrusted text
 * from the other side.
 */
export class StepFailed extends Error {
  override name = 'StepFailed'
  readonly step: Step
  readonly expected: string | undefined
  readonly seen: string | undefined

  constructor(
    step: Step,
    message: string,
    found: { expected?: string | undefined; seen?: string | undefined; cause?: unknown } = {},
  ) {
    super(cleanLine(message, 500), { cause: found.cause })
    this.step = step
    this.expected = found.expected && cleanLine(found.expected, 300)
    this.seen = found.seen && cleanLine(found.seen, 300)
  }
}

/** The user has to connect their account at a third party's server first, or again. */
export class ConsentNeeded extends StepFailed {
  override name = 'ConsentNeeded'

  constructor(message: string, found?: { expected: string; seen: string }) {
    super('consent', message, found)
  }
}

/** Records a failed step for the administrator and returns the recorded message. */
export function keepFailure(
  service: RefusalLog,
  organizationId: string,
  connectorName: string,
  { step, message, expected, seen }: StepFailed,
): string {
  const told = `${connectorName}: ${message}`
  const code = 'DELEGATION_FAILED'
  recordRefusal(service, organizationId, { surface: 'delegated_identity', step, code, message: told, expected, seen })
  return told
}
