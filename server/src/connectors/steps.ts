/** The steps between a person's ID token and a tool's answer. */
export type Step = 'identity' | 'metadata' | 'provider_exchange' | 'redemption' | 'tools_list' | 'tools_call'

/** A step that did not work. The message is for the administrator who can put it right; there are no secrets in it. */
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
    super(message, { cause: found.cause })
    this.step = step
    this.expected = found.expected
    this.seen = found.seen
  }
}
