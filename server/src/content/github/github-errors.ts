import { SafeFetchError } from '../../kernel/net/safe-fetch.ts'

/**
 * Why GitHub didn't do what was asked. `rate_limited` and `unavailable` pass; `refused` needs someone to change
 * something. The message is for administrators.
 */
export class GithubError extends Error {
  override readonly name = 'GithubError'
  readonly kind: 'rate_limited' | 'unavailable' | 'refused'
  /** When GitHub accepts requests again, in milliseconds since the Unix epoch. */
  readonly retryAt: number | undefined
  /** Status of GitHub's response, if there was one. */
  readonly status: number | undefined

  constructor(
    kind: GithubError['kind'],
    message: string,
    { retryAt, status, cause }: { retryAt?: number; status?: number; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.kind = kind
    this.retryAt = retryAt
    this.status = status
  }
}

/** The parts of octokit's error that are used. It contains the request with its token, so it must not be logged. */
interface RequestError {
  status: number
  message: string
  response?: { headers: Record<string, string | number | undefined> }
  cause?: unknown
}

const isRequestError = (error: unknown): error is RequestError =>
  error instanceof Error && 'status' in error && typeof error.status === 'number'

/** Translates a failed request. Errors of the program are returned unchanged. */
export function explainGithubFailure(error: unknown, now: number): unknown {
  if (error instanceof GithubError || !isRequestError(error)) return error
  const { status, response } = error
  if (!response) {
    const reason = error.cause instanceof SafeFetchError ? error.cause.message : 'the connection failed'
    return new GithubError('unavailable', `GitHub can’t be reached: ${reason}`, { cause: error.cause })
  }
  const retryAt = readRetryAt(error, response.headers, now)
  if (retryAt !== undefined) return new GithubError('rate_limited', 'GitHub’s rate limit is reached', { retryAt })
  if (status >= 500) return new GithubError('unavailable', `GitHub has a problem at the moment (status ${status})`)
  return new GithubError('refused', explainRefusal(error), { status })
}

/** GitHub answers a request for a token in different ways, and its texts tell them apart. */
function explainRefusal({ status, message }: RequestError): string {
  // The app was deleted.
  if (status === 404 && /integration not found/i.test(message)) return refusals[401]
  if (status === 403 && /suspended/i.test(message)) return suspended
  // The installation no longer has access to the repository for which a token was asked.
  if (status === 422 && /parent installation/i.test(message)) return refusals[404]
  const isKnown = (known: number): known is keyof typeof refusals => known in refusals
  return isKnown(status) ? refusals[status] : `GitHub refused the request (status ${status})`
}

export const suspended = 'The app’s installation is suspended on GitHub. Unsuspend it in the app’s settings there.'

export const refusals = {
  401: 'GitHub no longer accepts the app’s credentials. Was the app deleted there? Remove it here, and register a new one.',
  403: 'The app may not read this on GitHub. Check its installation and permissions there.',
  404: 'GitHub doesn’t find this, or the app has no access to it. Check its installation on GitHub.',
  409: 'The repository is empty',
} as const

const longestWaitMs = 60 * 60_000
const defaultWaitMs = 60_000

/** GitHub's documentation: wait for `retry-after`, or until `x-ratelimit-reset`, or else a minute. */
function readRetryAt(
  { status, message }: RequestError,
  headers: Record<string, string | number | undefined>,
  now: number,
) {
  if (status !== 403 && status !== 429) return undefined
  const after = Number(headers['retry-after'])
  const isUsedUp = headers['x-ratelimit-remaining'] === '0'
  if (Number.isFinite(after) && headers['retry-after'] !== undefined) return limitWait(now + after * 1000, now)
  if (isUsedUp) return limitWait(Number(headers['x-ratelimit-reset']) * 1000, now)
  return status === 429 || /rate limit/i.test(message) ? now + defaultWaitMs : undefined
}

/** Clocks differ, and headers can be wrong. */
const limitWait = (at: number, now: number): number =>
  Number.isFinite(at) ? Math.min(Math.max(at, now + 1_000), now + longestWaitMs) : now + defaultWaitMs
