import type { CodeOutcome } from './second-factor.ts'

/** What a user reads if a code wasn't accepted. */
export function describeWrongCode({ is, waitSeconds }: Exclude<CodeOutcome, { is: 'right' }>): {
  text: string
  status: 400 | 429
  retryAfterSeconds: number
} {
  const wait = waitSeconds > 0 ? ` Try again in ${describeDuration(waitSeconds)}.` : ''
  return is === 'paused'
    ? { text: `Too many incorrect codes.${wait}`, status: 429, retryAfterSeconds: waitSeconds }
    : { text: `This code is incorrect, or was already used.${wait}`, status: 400, retryAfterSeconds: waitSeconds }
}

export function describeDuration(seconds: number): string {
  const [count, unit] = seconds < 60 ? [seconds, 'second'] : [Math.ceil(seconds / 60), 'minute']
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
