import { createHmac, timingSafeEqual } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { readText } from '../../kernel/http/connections.ts'
import type { Jobs } from '../../kernel/jobs/jobs.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { failure } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import type { Billing } from '../subscriptions/billing-provider.ts'
import { billingSync } from '../subscriptions/subscriptions.ts'

/** A signed message of the billing provider, as specified by Standard Webhooks. */
export interface Delivery {
  id: string
  /** Seconds since the Unix epoch. */
  timestamp: string
  signature: string
  body: string
}

type Outcome = 'accepted' | 'duplicate' | 'ignored'

type Parts = Pick<Service, 'clock' | 'database' | 'log'> & Billing

/** A customer's state includes their benefits and meters. */
const bodyLimit = 256 * 1024
const toleratedSkewSeconds = 5 * 60
const keptDays = 7

/** Receives the provider's webhooks at `POST /billing/webhooks`. */
export function serveBillingWebhooks(service: Parts & { jobs: Jobs }): Hono {
  const app = new Hono()
  app.post('/webhooks', async (c) => {
    const header = (name: string) => c.req.header(`webhook-${name}`) ?? ''
    const { outcome, organizationId } = await receiveDelivery(service, {
      id: header('id'),
      timestamp: header('timestamp'),
      signature: header('signature'),
      body: await readText((c.env as HttpBindings).incoming, bodyLimit),
    })
    // Not awaited: the provider gives up after a few seconds, and the request is stored.
    if (outcome === 'accepted') void service.jobs.run({ organizationId, kind: billingSync })
    return c.json({ status: outcome }, 202)
  })
  return app
}

/**
 * A delivery only says that something has changed. The customer's state is then read from the provider, so that neither
 * the order nor the age of deliveries matters.
 */
export async function receiveDelivery(
  { billing, clock, database, log }: Parts,
  delivery: Delivery,
): Promise<{ outcome: Outcome; organizationId: string }> {
  const problem = billing ? findProblem(delivery, billing.webhookSecret, clock()) : 'There is no billing provider'
  if (problem) throw failure(401, 'INVALID_SIGNATURE', `${problem}. Check POLAR_WEBHOOK_SECRET and the server’s clock.`)
  const organizationId = findOrganization(delivery.body)
  if (!organizationId) return { outcome: 'ignored', organizationId: '' }
  const outcome = await database.asOrg(organizationId, async (sql): Promise<Outcome> => {
    const [known] = await sql`select from organizations where id = current_organization()`
    if (!known) return 'ignored'
    const [added] = await sql`
      insert into billing_deliveries (organization_id, id) values (current_organization(), ${delivery.id})
      on conflict do nothing returning id`
    if (!added) return 'duplicate'
    await sql`delete from billing_deliveries where received_at < now() - ${keptDays} * interval '1 day'`
    await requestJob(sql, billingSync)
    return 'accepted'
  })
  if (outcome === 'ignored') log.info({ customer: organizationId }, 'The billing provider named an unknown customer')
  return { outcome, organizationId }
}

function findProblem({ id, timestamp, signature, body }: Delivery, secret: string, now: number): string | undefined {
  if (!/^[\x21-\x7e]{1,200}$/.test(id)) return 'The header webhook-id is missing or malformed'
  if (!/^\d{1,12}$/.test(timestamp)) return 'The header webhook-timestamp is missing or malformed'
  if (Math.abs(now / 1000 - Number(timestamp)) > toleratedSkewSeconds) {
    return 'The webhook was sent more than five minutes ago or in the future'
  }
  const given = signature.split(' ', 10).map((each) => Buffer.from(each))
  const wanted = keysOf(secret).map((key) => Buffer.from(`v1,${sign(key, { id, timestamp, body })}`))
  const isValid = wanted.some((one) => given.some((two) => one.length === two.length && timingSafeEqual(one, two)))
  return isValid ? undefined : 'The webhook’s signature isn’t valid'
}

/** The shortest key that Standard Webhooks allows. A shorter one could be guessed. */
const leastKeyBytes = 24

/** Polar signs with the characters of the secret; Standard Webhooks specifies the bytes that they encode. */
function keysOf(secret: string): Buffer[] {
  const text = secret.replace(/^whsec_/, '')
  const decoded = Buffer.from(text, 'base64')
  const isEncoded = decoded.length >= leastKeyBytes && decoded.toString('base64') === text
  return [Buffer.from(secret), ...(isEncoded ? [decoded] : [])]
}

const sign = (key: Buffer, { id, timestamp, body }: Omit<Delivery, 'signature'>) =>
  createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')

export const signDelivery = (secret: string, unsigned: Omit<Delivery, 'signature'>): Delivery => ({
  ...unsigned,
  signature: `v1,${sign(Buffer.from(secret), unsigned)}`,
})

const ExternalId = z.string().refine(isId)
const CustomerEvent = z.object({
  type: z.string().startsWith('customer.'),
  data: z.object({ external_id: ExternalId }),
})
const OtherEvent = z.object({ data: z.object({ customer: z.object({ external_id: ExternalId }) }) })

/** Events about a customer, and about their subscriptions and orders. Other events have no organization. */
function findOrganization(body: string): string | undefined {
  const event = parseJson(body)
  return (
    CustomerEvent.safeParse(event).data?.data.external_id ?? OtherEvent.safeParse(event).data?.data.customer.external_id
  )
}

/** Undefined for text that isn't JSON: the signature is valid, so a retry wouldn't help. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
