import type { Problem } from './connection.ts'

/** What a developer can do about a refusal. Its own message says what it was. */
const remedies: Record<string, string> = {
  INVALID_KEY: 'Compare the attribute publishable-key with the key of the organization; it may have been revoked.',
  ORIGIN_NOT_ALLOWED:
    'Add the origin of this page to the publishable key, or to the allowed domains of the organization.',
  INVALID_TOKEN: 'An administrator reads at GET /api/diagnostics/refusals which check of the ID token failed.',
  IDP_NOT_CONFIGURED: 'Set the identity provider of the organization, or connect without an ID token.',
  PAYMENT_REQUIRED: 'The plan of the organization has no room for another end user or site.',
}

/** Who visits a page in production can do nothing about it and is told no more than that. */
export function explainProblem(problem: Problem, isDevelopment: boolean): string {
  if (!isDevelopment) return 'The assistant is not available at the moment.'
  return `${problem.code}: ${problem.message}. ${remedies[problem.code] ?? ''}`.trim()
}
