import type { Problem } from './connection.ts'

/** Tells a developer how to fix a refusal; appended to its message. */
const remedies: Record<string, string> = {
  INVALID_KEY: 'Check the publishable-key attribute. The key may have been revoked.',
  ORIGIN_NOT_ALLOWED:
    'Add this page’s origin to the publishable key’s allowed origins, or to the organization’s allowed domains.',
  INVALID_TOKEN: 'An administrator can see which check of the ID token failed at GET /api/diagnostics/refusals.',
  IDP_NOT_CONFIGURED: 'Configure the organization’s identity provider, or connect without an ID token.',
  PAYMENT_REQUIRED: 'Upgrade the organization’s plan to add more end users or sites.',
}

/** Visitors of a page in production can't fix the problem, so they get no details. */
export function explainProblem(problem: Problem, isDevelopment: boolean): string {
  if (!isDevelopment) return 'The assistant isn’t available right now.'
  return `${problem.code}: ${problem.message}. ${remedies[problem.code] ?? ''}`.trim()
}
