import type { Context, Next } from 'hono'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { page, pageHeaders } from '../../kernel/http/pages.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'

/** A sign-in takes about six requests, so a hundred users behind one address can sign in within a minute. */
const visitsPerMinute = 600
/** A day's worth is less than the registrations kept (accounts/access/records.ts), so one address can't evict all others. */
const registrationsPerHour = 100

const minute = 60
const hour = 60 * minute

/** For pages that store something for visitors who aren't signed in. */
export const limitVisits =
  ({ kv, clientAddress }: Service) =>
  async (c: Context<NodeEnv>, next: Next) => {
    const address = fingerprint(clientAddress(c.env.incoming))
    if ((await kv.count(`sign-in-visits:${address}`, minute)) <= visitsPerMinute) return next()
    const html =
      '<h1>Too many requests</h1><p>Too many users on your network are signing in right now. Try again in a minute.</p>'
    return c.body(page('Too many requests', html), 429, { ...pageHeaders, 'retry-after': String(minute) })
  }

/** Anyone may register clients, so their number per address is limited. */
export const limitRegistrations =
  ({ kv, clientAddress }: Service) =>
  async (c: Context<NodeEnv>, next: Next) => {
    const address = fingerprint(clientAddress(c.env.incoming))
    if ((await kv.count(`client-registrations:${address}`, hour)) <= registrationsPerHour) return next()
    const error_description = `Your network has registered ${registrationsPerHour} clients within an hour. Try again later, or use a client ID that you have registered before.`
    const headers = { 'retry-after': String(hour), 'cache-control': 'no-store' }
    return c.json({ error: 'temporarily_unavailable', error_description }, 429, headers)
  }
