import { createPolarCore } from '@polar-sh/sdk/2026-10'
import { createCheckouts } from '@polar-sh/sdk/2026-10/services/checkouts'
import { createCustomerSessions } from '@polar-sh/sdk/2026-10/services/customer_sessions'
import { ingestEvents } from '@polar-sh/sdk/2026-10/services/events'
import { getProducts } from '@polar-sh/sdk/2026-10/services/products'
import { listSubscriptions, updateSubscriptions } from '@polar-sh/sdk/2026-10/services/subscriptions'
import { z } from 'zod'
import type { Config } from '../../kernel/config/config.ts'
import { createSafeFetch, privateNetworks } from '../../kernel/net/safe-fetch.ts'
import {
  BillingFailed,
  type BillingProvider,
  type Customer,
  type ProvidedSubscription,
  type ReportedUsage,
} from '../subscriptions/billing-provider.ts'
import { SubscriptionStatus } from '../subscriptions/contract.ts'

/** Limits a request and its response. A page of subscriptions includes their products. */
const timeoutMs = 10_000
const maxBytes = 8 * 1024 * 1024
const pageSize = 50
/** Far more subscriptions than an organization can have. */
const mostPages = 20
/** Polar's limit for a checkout. */
const mostSeats = 10_000
/** The name of the events that report usage, which the operator's meter selects. */
const usageEvent = 'inlay.model_call'

export interface PolarBilling extends BillingProvider {
  /** Returns the product's name, and whether it can be bought. */
  describeProduct(id: string): Promise<{ name: string; isArchived: boolean }>
}

/** Billing through Polar, https://polar.sh. */
export function createPolarBilling({
  polar,
  publicUrl,
  allowedPrivateNetworks,
}: {
  polar: NonNullable<Config['polar']>
  publicUrl: string
  allowedPrivateNetworks: readonly string[]
}): PolarBilling {
  // The operator chose the address, so it may be private.
  const fetch = createSafeFetch({
    allowedPrivateNetworks: [...privateNetworks, ...allowedPrivateNetworks],
    timeoutMs,
    maxBytes,
  })
  const client = createPolarCore({ accessToken: polar.accessToken, baseUrl: polar.url })
  // The SDK calls the global `fetch`, which follows redirects with the token, and doesn't limit responses.
  client.sendRequest = async ([url, init]) => requireSuccess(await fetch(url, init).catch(explainNoResponse))
  client.parseResponse = async (response) => parseAnswer(await response.text())
  const pageOf = ({ slug }: Customer) => `${publicUrl}/o/${slug}/billing`

  async function readPage(organizationId: string, page: number) {
    const query = { external_customer_id: organizationId, page, limit: pageSize, sorting: ['started_at' as const] }
    return readAnswer(SubscriptionPage, await listSubscriptions(client)(query))
  }

  const readProduct = async (id: string) => readAnswer(ProductAnswer, await getProducts(client)(id))

  return {
    // Polar allows one subscription per customer by default, so another checkout would fail.
    planChanges: 'portal',
    webhookSecret: polar.webhookSecret,

    async checkoutUrl(organization, productId, seats) {
      const { prices } = await readProduct(productId)
      // Polar refuses seats for other products.
      const isBySeat = prices.some(({ amount_type }) => amount_type === 'seat_based')
      const checkout = await createCheckouts(client)({
        products: [productId],
        external_customer_id: organization.id,
        ...(isBySeat && { seats: Math.min(Math.max(seats, 1), mostSeats) }),
        success_url: `${pageOf(organization)}?checkout=done`,
        return_url: pageOf(organization),
      })
      const url = new URL(readAnswer(CheckoutAnswer, checkout).url)
      url.searchParams.set('customerExternalId', organization.id)
      return url.href
    },

    async portalUrl(organization) {
      const session = await createCustomerSessions(client)({
        external_customer_id: organization.id,
        return_url: pageOf(organization),
      })
      return readAnswer(SessionAnswer, session).customer_portal_url
    },

    async listSubscriptions(organizationId) {
      const first = await readPage(organizationId, 1)
      const { max_page, total_count } = first.pagination
      if (max_page > mostPages) throw new BillingFailed(`Polar has more than ${mostPages * pageSize} subscriptions`)
      const found = new Map(first.items.map((item) => [item.id, item]))
      for (let page = 2; page <= max_page; page += 1) {
        for (const item of (await readPage(organizationId, page)).items) found.set(item.id, item)
      }
      // The pages move if a subscription is added or removed while they're read.
      if (found.size !== total_count) throw new BillingFailed('The subscriptions changed while they were read')
      return [...found.values()].map((item) => describeSubscription(item, organizationId))
    },

    async setSeats(subscriptionId, seats) {
      await updateSubscriptions(client)(subscriptionId, { seats })
    },

    async reportUsage(events) {
      await ingestEvents(client)({ events: events.map(describeUsage) })
    },

    async describeProduct(id) {
      const { name, is_archived } = await readProduct(id)
      return { name, isArchived: is_archived }
    },

    close: () => fetch.close(),
  }
}

const WebUrl = z.url({ protocol: /^https?$/ })
const Time = z.string().transform((text, context) => {
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) context.addIssue('Must be a timestamp')
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString()
})

/** The parts of Polar's responses that are used. What the SDK returns is unchecked. */
const CheckoutAnswer = z.object({ url: WebUrl })
const SessionAnswer = z.object({ customer_portal_url: WebUrl })
const ProductAnswer = z.object({
  name: z.string(),
  is_archived: z.boolean(),
  prices: z.array(z.object({ amount_type: z.string() })),
})
const PolarSubscription = z.object({
  id: z.string().min(1).max(200),
  status: SubscriptionStatus,
  product_id: z.string().min(1).max(200),
  customer_id: z.string().min(1).max(200),
  customer: z.object({ external_id: z.string().nullable() }),
  seats: z.int().min(0).nullish(),
  pending_update: z.object({ seats: z.int().min(0).nullish() }).nullish(),
  cancel_at_period_end: z.boolean(),
  current_period_end: Time.nullable(),
  ends_at: Time.nullable(),
  created_at: Time,
  modified_at: Time.nullable(),
})
const SubscriptionPage = z.object({
  items: z.array(PolarSubscription).max(pageSize),
  pagination: z.object({ total_count: z.int().min(0), max_page: z.int().min(0) }),
})

function readAnswer<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { data, error } = schema.safeParse(answer)
  if (error) throw new BillingFailed(`Polar sent an unexpected response: ${z.prettifyError(error)}`, { cause: error })
  return data
}

function describeSubscription(
  subscription: z.infer<typeof PolarSubscription>,
  organizationId: string,
): ProvidedSubscription {
  const { id, status, product_id, customer_id, customer, seats, pending_update, ...rest } = subscription
  if (customer.external_id !== organizationId) throw new BillingFailed('Polar sent another customer’s subscription')
  const { current_period_end, ends_at, cancel_at_period_end, created_at, modified_at } = rest
  return {
    id,
    status,
    product_id,
    customer_id,
    // A change of seats can be scheduled for the next period.
    seats: seats == null ? null : (pending_update?.seats ?? seats),
    current_period_end,
    cancel_at: ends_at ?? (cancel_at_period_end ? current_period_end : null),
    created_at,
    updated_at: modified_at ?? created_at,
  }
}

const describeUsage = (event: ReportedUsage) => ({
  name: usageEvent,
  external_id: event.id,
  external_customer_id: event.organization_id,
  timestamp: event.created_at,
  metadata: {
    model: event.model,
    prompt_tokens: event.prompt_tokens,
    completion_tokens: event.completion_tokens,
    total_tokens: event.prompt_tokens + event.completion_tokens,
    ...(event.cost_micro_usd !== null && { cost_micro_usd: event.cost_micro_usd }),
  },
})

function explainNoResponse(cause: Error): never {
  throw new BillingFailed(`Polar can’t be reached: ${cause.message}`, { cause })
}

function parseAnswer<T>(text: string): T {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new BillingFailed('Polar sent a response that isn’t JSON', { cause })
  }
}

/** The beginning of Polar's explanation is enough for the log. */
const shownCharacters = 500

async function requireSuccess(response: Response): Promise<Response> {
  const { status, ok, headers } = response
  if (ok) return response
  const text = (await response.text()).slice(0, shownCharacters)
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  throw new BillingFailed(`Polar responded with ${status}: ${text}`, {
    status,
    retryAfterSeconds: Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined,
  })
}
