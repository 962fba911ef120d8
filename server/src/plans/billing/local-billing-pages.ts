import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { limitForm, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import type { Jobs } from '../../kernel/jobs/jobs.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { planOfProduct } from '../plans/plans.ts'
import type { Billing } from '../subscriptions/billing-provider.ts'
import { billingSync } from '../subscriptions/subscriptions.ts'
import { billingLink, changeSubscription, readSubscription, subscribe } from './local-billing.ts'
import { receiveDelivery, signDelivery } from './webhooks.ts'

const Form = z.object({
  token: z.string().max(100),
  change: z.enum(['cancel', 'cancel_now', 'resume']).optional(),
})

type Parts = Service & Billing & { jobs: Jobs }

/** Checkout and portal of local billing. Every form carries a single-use token, so it can't be forged or sent twice. */
export function serveLocalBilling(service: Parts): Hono {
  const app = new Hono()
  app.use(limitForm)

  app.get('/checkout', async (c) => {
    const { products = '', customerExternalId, token = '' } = c.req.query()
    const link = await billingLink.read(service.kv, token)
    if (link?.product_id !== products || link.organization_id !== customerExternalId) return showInvalid(c)
    return show(
      c,
      'Checkout',
      `<h1>${nameOf(service, products)}</h1><p>This is a development server. You won’t be charged.</p>
       <form method="post" action="/billing/checkout">${tokenField(token)}<button>Subscribe</button></form>`,
    )
  })

  app.post('/checkout', async (c) => {
    const form = await readChange(c)
    const link = form && (await billingLink.take(service.kv, form.token))
    if (!link?.product_id) return showInvalid(c)
    await subscribe(service, link.organization_id, link.product_id)
    await announceChange(service, link.organization_id)
    return show(
      c,
      'Subscribed',
      `<h1>Subscribed to ${nameOf(service, link.product_id)}</h1><p>Your new plan is active. You can close this page.</p>`,
    )
  })

  app.get('/portal', async (c) => {
    const token = c.req.query('token') ?? ''
    const link = await billingLink.read(service.kv, token)
    if (!link || link.product_id) return showInvalid(c)
    return showPortal(c, service, link.organization_id, token)
  })

  app.post('/portal', async (c) => {
    const form = await readChange(c)
    if (!form?.change) return showInvalid(c)
    const link = await billingLink.take(service.kv, form.token)
    if (!link || link.product_id) return showInvalid(c)
    await changeSubscription(service, link.organization_id, form.change)
    await announceChange(service, link.organization_id)
    return showPortal(c, service, link.organization_id, await billingLink.issue(service.kv, link))
  })
  return app
}

/** Sends a webhook, like a provider on the internet, and waits for its effect, so that the next page shows it. */
async function announceChange(service: Parts, organizationId: string): Promise<void> {
  const now = service.clock()
  const event = {
    type: 'customer.state_changed',
    timestamp: new Date(now).toISOString(),
    data: { external_id: organizationId },
  }
  const delivery = { id: newId(), timestamp: String(Math.floor(now / 1000)), body: JSON.stringify(event) }
  await receiveDelivery(service, signDelivery(service.billing?.webhookSecret ?? '', delivery))
  await service.jobs.run({ organizationId, kind: billingSync })
}

async function showPortal(c: Context, service: Service, organizationId: string, token: string): Promise<Response> {
  const subscription = await readSubscription(service, organizationId)
  if (subscription?.status !== 'active') {
    return show(
      c,
      'Subscription',
      '<h1>No active subscription</h1><p>Your organization has no active subscription to change.</p>',
    )
  }
  const { product_id, current_period_end, cancel_at } = subscription
  const button = (change: string, text: string) => `<button name="change" value="${change}">${text}</button>`
  return show(
    c,
    'Subscription',
    `<h1>${nameOf(service, product_id)}</h1>
     <p>${cancel_at ? 'Ends' : 'Renews'} on ${current_period_end.slice(0, 10)}.</p>
     <form method="post" action="/billing/portal">${tokenField(token)}
       ${cancel_at ? button('resume', 'Resume') : button('cancel', 'Cancel at period end')}
       ${button('cancel_now', 'Cancel now')}
     </form>`,
  )
}

const readChange = async (c: Context) => Form.safeParse(await readForm(c)).data

const nameOf = ({ config }: Service, productId: string) =>
  escapeHtml(planOfProduct(config.plans, productId)?.name ?? productId)

const show = (c: Context, title: string, html: string) => c.body(page(title, html), 200, pageHeaders)

const showInvalid = (c: Context) =>
  c.body(
    page(
      'Link not valid',
      '<h1>This link isn’t valid</h1><p>It was already used, or it has expired: a link works for one hour.</p>',
    ),
    404,
    pageHeaders,
  )
