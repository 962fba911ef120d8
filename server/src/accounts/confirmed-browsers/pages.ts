import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Context, Hono } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { readText } from '../../kernel/http/connections.ts'
import { refuseForeign } from '../../kernel/http/forms.ts'
import { escapeHtml, page, scriptedPageHeaders } from '../../kernel/http/pages.ts'
import { SharedFile, sendFile } from '../../kernel/http/shared-file.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { limitVisits } from '../sign-in/visit-limits.ts'
import { confirmAgain, confirmedDays, type FrameClaim } from './browsers.ts'
import { createProviderProof, type ProofOutcome } from './provider-proof.ts'
import { createConfirmRequests } from './requests.ts'

const script = '/embed/confirm.js'
const Body = z.strictObject({ request: z.string().max(2_048) })
const bodyLimit = 4 * 1024
const day = 24 * 60 * 60
/** Of one end user from one address, so that a program with their ID token can't use up those of their browser. */
const attemptsPerMinute = 10

type Answer =
  | { is: 'confirmed' }
  | { is: 'provider'; address: string }
  /** The message is for the user. */
  | { is: 'refused'; message: string }

/**
 * `/embed/confirm`: the window that the chat's frame opens to confirm the user's browser. It's a page of Inlay's origin
 * of its own, so it has the browser's cookie for Inlay, and an identity provider lets users sign in there.
 */
export function serveConfirmation(service: Service): Hono<NodeEnv> {
  const { config, log } = service
  const app = new Hono<NodeEnv>()
  const requests = createConfirmRequests(service)
  const proof = createProviderProof(service)
  const text = readFileSync(join(import.meta.dirname, 'confirm.js'), 'utf8')
  const file = new SharedFile(text, 'text/javascript; charset=utf-8')
  const visits = limitVisits(service)

  /** Identifies the browser to us for as long as its confirmations last. Only pages of our own origin send it. */
  const cookie = {
    name: config.mode === 'production' ? '__Host-inlay-browser' : 'inlay-browser',
    options: { path: '/', httpOnly: true, secure: config.mode === 'production', sameSite: 'lax' as const },
  }
  function knownBrowser(c: Context): string | undefined {
    const secret = getCookie(c, cookie.name)
    return secret && /^[\w-]{43}$/.test(secret) ? secret : undefined
  }
  function keepBrowser(c: Context): string {
    const secret = knownBrowser(c) ?? randomBytes(32).toString('base64url')
    setCookie(c, cookie.name, secret, { ...cookie.options, maxAge: confirmedDays * day })
    return fingerprint(secret)
  }

  function show(c: Context, status: 200 | 400 | 403 | 502, step: string, title: string, html: string): Response {
    // The window needs its opener, the frame, which is on our origin but in a page of another one.
    c.header('cross-origin-opener-policy', undefined)
    const main = `<h1>${escapeHtml(title)}</h1><p id="status" role="status" data-step="${step}">${html}</p>`
    return c.body(page(title, main, { script }), status, windowHeaders)
  }

  app.get(script, (c) => sendFile(c, file, { 'cache-control': 'public, no-cache' }))

  app.get('/embed/confirm', (c) => show(c, 200, 'wait', 'Confirm this browser', 'One moment…'))

  app.post('/embed/confirm', visits, async (c) => {
    if (c.req.header('origin') !== config.publicUrl) return refuseForeign(c)
    return c.json(await answer(c), 200, { 'cache-control': 'no-store' })
  })

  async function answer(c: Context<NodeEnv>): Promise<Answer> {
    const claim = await readClaim(c)
    if (!claim) return { is: 'refused', message: 'This request has expired. Close this window and try again.' }
    const from = fingerprint(`${claim.endUserId} ${service.clientAddress(c.env.incoming)}`)
    const attempts = await service.kv.count(`frame-confirmations:${claim.organizationId}:${from}`, 60)
    if (attempts > attemptsPerMinute)
      return { is: 'refused', message: 'You’ve tried too often. Close this window and try again in a minute.' }
    const known = knownBrowser(c)
    if (known && (await confirmAgain(service, claim, fingerprint(known)))) return { is: 'confirmed' }
    const address = await proof.begin(claim, keepBrowser(c)).catch((error) => {
      log.warn({ err: error, organization: claim.organizationId }, 'Could not begin the confirmation of a browser')
      return null
    })
    if (address) return { is: 'provider', address }
    if (address === null)
      return { is: 'refused', message: 'Your sign-in provider isn’t responding. Try again in a minute.' }
    const message = 'This browser can’t be confirmed: the organization of this site hasn’t set up a way to do it.'
    return { is: 'refused', message }
  }

  async function readClaim(c: Context<NodeEnv>): Promise<FrameClaim | undefined> {
    const body = Body.safeParse(parse(await readText(c.env.incoming, bodyLimit)))
    return body.success ? requests.open(body.data.request) : undefined
  }

  app.get('/embed/confirm/:id/callback', visits, async (c) => {
    const id = c.req.param('id') ?? ''
    const known = knownBrowser(c)
    const search = new URL(c.req.url).searchParams
    const outcome: ProofOutcome = isId(id)
      ? await proof.finish(id, search, known && fingerprint(known))
      : { is: 'ended' }
    if (outcome.is !== 'confirmed')
      log.warn(
        { organization: id, reason: outcome.is, err: 'error' in outcome ? outcome.error : undefined },
        'a browser was not confirmed',
      )
    return showOutcome(c, outcome)
  })

  function showOutcome(c: Context, outcome: ProofOutcome): Response {
    switch (outcome.is) {
      case 'confirmed':
        return show(c, 200, 'done', 'Confirm this browser', 'This browser is confirmed. You can close this window.')
      case 'ended':
        return show(
          c,
          400,
          'failed',
          'This confirmation has expired',
          'It was already completed, took longer than ten minutes, or was started in another browser. Or this browser keeps no cookies for Inlay. Close this window and try again.',
        )
      case 'another_user':
        return show(
          c,
          403,
          'failed',
          'You’re signed in as another user',
          `Your sign-in provider says that you’re another user than on the site. <a href="${escapeHtml(outcome.again)}">Sign in as the same user</a>`,
        )
      case 'failed':
        return show(
          c,
          502,
          'failed',
          'This browser wasn’t confirmed',
          'You cancelled, or your sign-in provider denied it. Close this window and try again. If it still fails, contact the operator of the site.',
        )
    }
  }
  return app
}

const windowHeaders = {
  ...scriptedPageHeaders,
  'content-security-policy': `${scriptedPageHeaders['content-security-policy']}; connect-src 'self'; require-trusted-types-for 'script'`,
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
