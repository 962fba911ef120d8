import type { Context } from 'hono'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { StepFailed } from '../connectors/steps.ts'
import type { Consenting } from './consent.ts'

export const showConnectPage = (c: Context, title: string, html: string, status: 200 | 400 | 404 = 200): Response =>
  // Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
  c.body(page(title, html), status, { ...pageHeaders, 'referrer-policy': 'same-origin' })

export const showFacts = (rows: readonly (readonly [term: string, text: string])[]): string =>
  `<dl>${rows.map(([term, text]) => `<dt>${term}</dt><dd>${escapeHtml(text)}</dd>`).join('')}</dl>`

/** Shows users where they're redirected to before they leave. */
export const showTarget = (c: Context, { connector }: Consenting, target: URL, back = ''): Response =>
  showConnectPage(
    c,
    'Connect',
    `<h1>Continue to ${escapeHtml(target.host)}?</h1>
     <p>You’ll sign in to ${escapeHtml(connector.name)} and allow access there. Continue only if you recognize this address.</p>
     <p><a class="button" href="${escapeHtml(target.href)}">Continue to ${escapeHtml(target.host)}</a></p>
     ${back}`,
  )

export const showInvalidLink = (c: Context, remedy: string): Response =>
  showConnectPage(
    c,
    'Link not valid',
    `<h1>This link isn’t valid</h1><p>It has expired, was already used, or is for another user. ${remedy}</p>`,
    404,
  )

export function describeProblem(error: unknown): string {
  if (error instanceof StepFailed) return error.message
  throw error
}
