import { createHmac, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Answer, conforms } from './schemas.ts'

/** A local server that behaves like Polar's API 2026-10. It checks its requests and responses against Polar's schemas. */
export interface PolarStandIn {
  url: string
  accessToken: string
  webhookSecret: string
  /** Products: `team` and `enterprise` have a fixed price, `bySeat` is sold by the seat. */
  products: Record<'team' | 'enterprise' | 'bySeat', string>
  /** Requests in the order of their arrival, such as `GET /v1/subscriptions/`. */
  requests: string[]
  /** IDs of the organizations whose subscriptions were read, in the order of the requests. */
  readings: string[]
  /** Requests and responses that don't conform to Polar's schemas. */
  problems: string[]
  /** Usage events by their external id. */
  events: Map<string, IngestedEvent>
  /** Number of events that were sent more than once. */
  duplicates: number
  /** Decides how a request fails; undefined if it succeeds. */
  trouble: ((request: string, body: unknown) => Trouble | undefined | Promise<Trouble | undefined>) | undefined
  subscribe(organizationId: string, changes?: Partial<PolarSubscription>): PolarSubscription
  change(id: string, changes: Partial<PolarSubscription>): void
  remove(id: string): void
  subscriptionsOf(organizationId: string): PolarSubscription[]
  /** A signed webhook about the customer's state, or another event. */
  webhook(organizationId: string, options?: WebhookOptions): SignedWebhook
  close(): Promise<void>
}

/** A status to respond with, a closed connection, one after the request was processed, or no response at all. */
export type Trouble =
  | { status: number; headers?: Record<string, string>; body?: string }
  | 'hang up'
  | 'hang up late'
  | 'stall'

export interface PolarSubscription {
  id: string
  organizationId: string
  status: string
  product_id: string
  seats: number | null
  pendingSeats: number | null
  current_period_end: string
  cancel_at_period_end: boolean
  ends_at: string | null
  created_at: string
  modified_at: string | null
}

interface IngestedEvent {
  name: string
  external_customer_id: string
  metadata: Record<string, unknown>
}

interface WebhookOptions {
  id?: string
  /** Milliseconds since the Unix epoch. */
  sentAt?: number
  secret?: string
  type?: 'customer.state_changed' | 'subscription.updated'
}

export interface SignedWebhook {
  headers: Record<string, string>
  body: string
}

const polarOrganization = randomUUID()
const now = () => new Date().toISOString()

export async function startPolar(): Promise<PolarStandIn> {
  const products: PolarStandIn['products'] = { team: randomUUID(), enterprise: randomUUID(), bySeat: randomUUID() }
  const customers = new Map<string, { id: string; created_at: string }>()
  const subscriptions = new Map<string, PolarSubscription>()
  const server = createServer((request, response) => void serve(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const polar: PolarStandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    accessToken: `polar_oat_${randomUUID()}`,
    webhookSecret: `polar_whs_${randomUUID()}`,
    products,
    requests: [],
    readings: [],
    problems: [],
    events: new Map(),
    duplicates: 0,
    trouble: undefined,
    subscribe(organizationId, changes = {}) {
      customerOf(organizationId)
      const subscription: PolarSubscription = {
        id: randomUUID(),
        organizationId,
        status: 'active',
        product_id: products.team,
        seats: null,
        pendingSeats: null,
        current_period_end: new Date(Date.now() + 30 * 24 * 60 * 60 * 1000).toISOString(),
        cancel_at_period_end: false,
        ends_at: null,
        created_at: now(),
        modified_at: null,
        ...changes,
      }
      subscriptions.set(subscription.id, subscription)
      return subscription
    },
    change(id, changes) {
      const subscription = subscriptions.get(id)
      if (subscription) Object.assign(subscription, { modified_at: now() }, changes)
    },
    remove: (id) => void subscriptions.delete(id),
    subscriptionsOf,
    webhook(organizationId, { id = randomUUID(), sentAt = Date.now(), secret, type = 'customer.state_changed' } = {}) {
      const [newest] = subscriptionsOf(organizationId)
      const data = type === 'customer.state_changed' || !newest ? stateOf(organizationId) : describe(newest)
      const body = JSON.stringify({ type, timestamp: new Date(sentAt).toISOString(), data })
      const schema =
        type === 'customer.state_changed' ? 'WebhookCustomerStateChangedPayload' : 'WebhookSubscriptionUpdatedPayload'
      note(`webhook ${type}`, conforms(schema, JSON.parse(body)))
      const timestamp = String(Math.floor(sentAt / 1000))
      const signature = createHmac('sha256', secret ?? polar.webhookSecret).update(`${id}.${timestamp}.${body}`)
      return {
        body,
        headers: {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          'webhook-signature': `v1,${signature.digest('base64')}`,
        },
      }
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }

  function customerOf(organizationId: string) {
    const known = customers.get(organizationId) ?? { id: randomUUID(), created_at: now() }
    customers.set(organizationId, known)
    return known
  }

  function subscriptionsOf(organizationId: string) {
    return [...subscriptions.values()].filter((subscription) => subscription.organizationId === organizationId)
  }

  const note = (where: string, problem: string | undefined) => {
    if (problem) polar.problems.push(`${where}: ${problem}`)
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', polar.url)
    const name = `${request.method} ${pathname.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}')}`
    const text = await readAll(request)
    const body = text === '' ? undefined : JSON.parse(text)
    polar.requests.push(name)
    if (request.headers['polar-version'] !== '2026-10') note(name, 'asked for another version of the API')
    const trouble = await polar.trouble?.(name, body)
    if (trouble === 'stall') return
    if (trouble === 'hang up') return void request.socket.destroy()
    if (trouble && trouble !== 'hang up late') {
      return void response.writeHead(trouble.status, trouble.headers).end(trouble.body ?? '{"detail":"trouble"}')
    }
    const isAuthorized = request.headers.authorization === `Bearer ${polar.accessToken}`
    const answer = isAuthorized ? route(name, pathname, searchParams, body) : unauthorized
    note(`${name} response`, answer.schema && conforms(answer.schema, answer.body))
    if (trouble === 'hang up late') return void request.socket.destroy()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))
  }

  function route(name: string, pathname: string, query: URLSearchParams, body: unknown): Answer {
    const id = pathname.split('/').at(-1) ?? ''
    switch (name) {
      case 'GET /v1/subscriptions/':
        return listSubscriptions(query)
      case 'PATCH /v1/subscriptions/{id}':
        return updateSeats(id, body as { seats: number })
      case 'POST /v1/checkouts/':
        return createCheckout(body as { products: string[]; external_customer_id: string })
      case 'POST /v1/customer-sessions/':
        return createSession(body as { external_customer_id: string })
      case 'POST /v1/events/ingest':
        return ingest(body as { events: (IngestedEvent & { external_id: string })[] })
      case 'GET /v1/products/{id}':
        return Object.values(products).includes(id)
          ? { status: 200, schema: 'Product', body: describeProduct(id, id === products.bySeat) }
          : missing
      default:
        note(name, 'this stand-in has no such operation')
        return missing
    }
  }

  function listSubscriptions(query: URLSearchParams): Answer {
    const [page, limit] = [Number(query.get('page')), Number(query.get('limit'))]
    if (!(page >= 1 && limit >= 1 && limit <= 100)) return refusal('page or limit out of range')
    const organizationId = query.get('external_customer_id') ?? ''
    polar.readings.push(organizationId)
    const found = subscriptionsOf(organizationId)
    return {
      status: 200,
      schema: 'ListResource_Subscription_',
      body: {
        items: found.slice((page - 1) * limit, page * limit).map(describe),
        pagination: { total_count: found.length, max_page: Math.ceil(found.length / limit) },
      },
    }
  }

  function updateSeats(id: string, body: { seats: number }): Answer {
    const problem = conforms('SubscriptionUpdateSeats', body)
    const subscription = subscriptions.get(id)
    if (!subscription) return missing
    if (problem || subscription.seats === null || body.seats < 1) return refusal(problem ?? 'not sold by the seat')
    polar.change(id, { seats: body.seats })
    return { status: 200, schema: 'Subscription', body: describe(subscription) }
  }

  function createCheckout(body: { products: string[]; external_customer_id: string; seats?: number }): Answer {
    const problem = conforms('CheckoutCreate', body)
    const [product = ''] = body.products
    if (problem || !Object.values(products).includes(product)) return refusal(problem ?? 'no such product')
    if (body.seats !== undefined && product !== products.bySeat) return refusal('not sold by the seat')
    return { status: 201, schema: 'Checkout', body: describeCheckout(body, product) }
  }

  function createSession(body: { external_customer_id: string }): Answer {
    const problem = conforms('CustomerSessionCustomerExternalIDCreate', body)
    const customer = customers.get(body.external_customer_id)
    if (problem || !customer) return refusal(problem ?? 'Customer does not exist.')
    const token = `polar_cst_${randomUUID()}`
    return {
      status: 201,
      schema: 'CustomerSession',
      body: {
        ...dates(),
        id: randomUUID(),
        token,
        expires_at: now(),
        return_url: null,
        customer_portal_url: `https://polar.sh/demo/portal?customer_session_token=${token}`,
        customer_id: customer.id,
        customer: describeCustomer(body.external_customer_id),
      },
    }
  }

  function ingest(body: { events: (IngestedEvent & { external_id: string })[] }): Answer {
    const problem = conforms('EventsIngest', body)
    if (problem) return refusal(problem)
    let inserted = 0
    for (const event of body.events) {
      if (polar.events.has(event.external_id)) continue
      polar.events.set(event.external_id, event)
      inserted += 1
    }
    const duplicates = body.events.length - inserted
    polar.duplicates += duplicates
    return { status: 200, schema: 'EventsIngestResponse', body: { inserted, duplicates } }
  }

  function describeCustomer(organizationId: string) {
    const { id, created_at } = customerOf(organizationId)
    return {
      id,
      created_at,
      modified_at: null,
      metadata: {},
      external_id: organizationId,
      email: 'billing@customer.example',
      email_verified: false,
      type: 'individual',
      name: null,
      billing_name: null,
      billing_address: null,
      tax_id: null,
      organization_id: polarOrganization,
      deleted_at: null,
      first_user_event_at: null,
      avatar_url: null,
    }
  }

  /** As at Polar, the state has no subscriptions that are past due or ended. */
  function stateOf(organizationId: string) {
    const active = subscriptionsOf(organizationId).filter(({ status }) => status === 'active' || status === 'trialing')
    return {
      ...describeCustomer(organizationId),
      active_subscriptions: active.map(({ organizationId: _, pendingSeats, seats, ...subscription }) => ({
        ...subscription,
        metadata: {},
        amount: 1000,
        currency: 'usd',
        recurring_interval: 'month',
        current_period_start: subscription.created_at,
        trial_start: null,
        trial_end: null,
        canceled_at: null,
        started_at: subscription.created_at,
        discount_id: null,
        meters: [],
      })),
      granted_benefits: [],
      active_meters: [],
    }
  }

  function describe({ organizationId, pendingSeats, ...subscription }: PolarSubscription) {
    return {
      ...subscription,
      amount: 1000,
      currency: 'usd',
      recurring_interval: 'month',
      recurring_interval_count: 1,
      current_period_start: subscription.created_at,
      current_meter_period_start: null,
      current_meter_period_end: null,
      trial_start: null,
      trial_end: null,
      canceled_at: null,
      started_at: subscription.created_at,
      ended_at: null,
      past_due_at: null,
      pause_at_period_end: false,
      paused_at: null,
      resumes_at: null,
      customer_id: customerOf(organizationId).id,
      discount_id: null,
      checkout_id: null,
      customer_cancellation_reason: null,
      customer_cancellation_comment: null,
      metadata: {},
      customer: describeCustomer(organizationId),
      product: describeProduct(subscription.product_id),
      discount: null,
      prices: [],
      meters: [],
      pending_update:
        pendingSeats === null
          ? null
          : { ...dates(), id: randomUUID(), applies_at: now(), product_id: null, seats: pendingSeats },
    }
  }
  return polar
}

const dates = () => ({ created_at: now(), modified_at: null })

const seatPrice = (product_id: string) => ({
  ...dates(),
  id: randomUUID(),
  source: 'catalog',
  amount_type: 'seat_based',
  price_currency: 'usd',
  tax_behavior: null,
  is_archived: false,
  product_id,
  seat_tiers: {
    seat_tier_type: 'volume',
    tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1000 }],
    minimum_seats: 1,
    maximum_seats: null,
  },
})

const describeProduct = (id: string, isBySeat = false) => ({
  ...dates(),
  id,
  trial_interval: null,
  trial_interval_count: null,
  name: 'Product',
  description: null,
  visibility: 'public',
  recurring_interval: 'month',
  recurring_interval_count: 1,
  meter_interval: null,
  meter_interval_count: null,
  is_recurring: true,
  is_archived: false,
  organization_id: polarOrganization,
  metadata: {},
  prices: isBySeat ? [seatPrice(id)] : [],
  benefits: [],
  medias: [],
  attached_custom_fields: [],
})

function describeCheckout({ external_customer_id }: { external_customer_id: string }, product: string) {
  const secret = `polar_c_${randomUUID()}`
  const nothing = [
    ...['success_url', 'return_url', 'embed_origin', 'discount_id', 'customer_id', 'customer_name', 'customer_email'],
    ...['customer_ip_address', 'customer_billing_name', 'customer_billing_address', 'customer_tax_id', 'trial_end'],
    ...['active_trial_interval', 'active_trial_interval_count', 'trial_interval', 'trial_interval_count', 'discount'],
    ...['product_price', 'product_price_id', 'subscription_id', 'prices', 'tax_amount', 'tax_behavior'],
    ...['attached_custom_fields', 'payment_method_type'],
  ]
  const { metadata, organization_id, attached_custom_fields, ...shown } = describeProduct(product)
  return {
    ...Object.fromEntries(nothing.map((name) => [name, null])),
    ...dates(),
    id: randomUUID(),
    payment_processor: 'stripe',
    status: 'open',
    client_secret: secret,
    url: `https://polar.sh/checkout/${secret}`,
    expires_at: now(),
    success_url: 'https://inlay.example.com',
    amount: 1000,
    discount_amount: 0,
    net_amount: 1000,
    total_amount: 1000,
    currency: 'usd',
    allow_trial: null,
    organization_id,
    product_id: product,
    allow_discount_codes: true,
    require_billing_address: false,
    is_discount_applicable: false,
    is_free_product_price: false,
    is_payment_required: true,
    is_payment_setup_required: true,
    is_payment_form_required: true,
    is_business_customer: false,
    payment_processor_metadata: {},
    billing_address_fields: {
      country: 'required',
      state: 'optional',
      city: 'optional',
      postal_code: 'optional',
      line1: 'optional',
      line2: 'disabled',
    },
    metadata: {},
    external_customer_id,
    products: [{ ...shown, organization_id }],
    product: { ...shown, organization_id },
    customer_metadata: {},
  }
}

const unauthorized: Answer = {
  status: 401,
  body: { error: 'invalid_token', error_description: 'The token is invalid' },
}
const missing: Answer = {
  status: 404,
  schema: 'ResourceNotFound',
  body: { error: 'ResourceNotFound', detail: 'Not found' },
}
const refusal = (msg: string): Answer => ({
  status: 422,
  schema: 'HTTPValidationError',
  body: { detail: [{ loc: ['body'], msg, type: 'value_error' }] },
})

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
