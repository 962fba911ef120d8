import type { Jws } from './jws.ts'

/** What has to hold of a token, under the reason that is given when it does not. */
export type Checks<Reason extends string, Expected> = Record<Reason, (token: Jws, expected: Expected) => boolean>

/** In the order in which they are written. */
export function findBroken<Reason extends string, Expected>(
  checks: Checks<Reason, Expected>,
  token: Jws,
  expected: Expected,
): Reason | undefined {
  for (const reason in checks) if (!checks[reason](token, expected)) return reason
  return undefined
}

/** Of clocks, in seconds. */
export const skew = 60

export const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
export const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText)
export const isTime = (value: unknown): value is number => Number.isFinite(value)

export const splitScope = (scope: unknown): string[] =>
  typeof scope === 'string' ? scope.split(' ').filter((each) => each !== '') : []
