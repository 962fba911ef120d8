import type { Activity } from '../foundation/activity.ts'
import { cleanLine } from '../untrusted/page-text.ts'

/**
 * The steps between a person and a tool's answer: `consent` at third parties, those before it elsewhere. `revocation` is the
 * end of a consent.
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
 * A step that did not work. The message is for the administrator who can put it right; there are no secrets in it. Much of
 * it may be the words of the other side.
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

/** Tells the administrator, and gives back how it was put. */
export function keepFailure(
  { refused }: Activity,
  organizationId: string,
  connectorName: string,
  { step, message, expected, seen }: StepFailed,
): string {
  const told = `${connectorName}: ${message}`
  const code = 'DELEGATION_FAILED'
  refused(organizationId, { surface: 'delegated_identity', step, code, message: told, expected, seen })
  return told
}
