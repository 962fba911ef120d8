import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Check, CircleAlert, Clock, ExternalLink, Minus, RefreshCw } from 'lucide-react'
import { useEffect, useEffectEvent } from 'react'
import { useFilters } from '../../lib/filters.ts'
import { formatNumber, formatTime } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Facts, Notice, PageHeader, Section } from '../../ui/display/layout.tsx'
import { Meter } from '../../ui/display/meter.tsx'
import { FormError, Loaded, Skeleton } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'

type Plan = components['schemas']['Plan']
type Limit = keyof Plan['limits']

const plansQuery = read(['plans'], (signal) => api.GET('/plan-tiers', { signal }))
const planQuery = read(['plan'], (signal) => api.GET('/plan-tiers/current', { signal }))
const planUsageQuery = read(['plan', 'usage'], (signal) => api.GET('/plan-tiers/usage', { signal }))
const statusQuery = read(['subscription', 'status'], (signal) => api.GET('/subscriptions/status', { signal }))
const subscriptionQuery = read(['subscription', 'record'], (signal) => api.GET('/subscriptions', { signal }))
const productsQuery = read(['subscription', 'products'], (signal) => api.GET('/subscriptions/products', { signal }))

/** Links from the billing provider are only followed if they're web addresses. */
function go(url: string): void {
  if (/^https?:/.test(URL.parse(url)?.protocol ?? '')) location.assign(url)
}

export default function Billing() {
  const { isAdmin } = useOrganization()
  const plan = useQuery(planQuery)
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {!isAdmin && <Notice>{words.adminsOnly}</Notice>}
      <State />
      <Loaded query={plan} lines={6}>
        {(data) => (
          <div className="grid gap-3">
            <div className="grid items-start gap-3 lg:grid-cols-2">
              <UsageOfPlan limits={data.limits} />
              <Subscription planName={data.plan.name} />
            </div>
            <Plans currentId={data.plan.id} />
          </div>
        )}
      </Loaded>
    </>
  )
}

const checkEveryMs = 3_000

/** What the administrator should know about the payment. After a checkout, the provider's message may take a moment. */
function State() {
  const queryClient = useQueryClient()
  const [{ checkout }, setFilters] = useFilters({ checkout: '' })
  const isReturning = checkout === 'done'
  const { data } = useQuery({ ...statusQuery, refetchInterval: isReturning ? checkEveryMs : false })
  const record = useQuery(subscriptionQuery)
  const isConfirmed = isReturning && data?.is_active === true
  const confirm = useEffectEvent(() => {
    void queryClient.invalidateQueries({ queryKey: ['plan'] })
    void queryClient.invalidateQueries({ queryKey: ['subscription', 'record'] })
    notify(t.confirmed)
    setFilters({ checkout: '' })
  })
  useEffect(() => {
    if (isConfirmed) confirm()
  }, [isConfirmed])
  if (!data) return null
  const keptUntil = findGrace(record.data?.grace_ends_at)
  const text =
    data.status === 'past_due' && keptUntil
      ? t.inGrace(formatTime(keptUntil))
      : t.problems[data.status as keyof typeof t.problems]
  return (
    <div role="status">
      {isReturning && !data.is_active && (
        <Notice tone="wait" icon={Clock}>
          {t.confirming}
        </Notice>
      )}
      {text && !isReturning && (
        <Notice tone={tones[data.status]} icon={CircleAlert}>
          {text}
        </Notice>
      )}
    </div>
  )
}

/** Until when the plan is kept although a payment failed, if that time hasn't passed. */
const findGrace = (endsAt: string | null | undefined): string | null =>
  endsAt && Date.parse(endsAt) > Date.now() ? endsAt : null

function UsageOfPlan({ limits }: { limits: Plan['limits'] | undefined }) {
  const usage = useQuery(planUsageQuery)
  return (
    <Section title={t.usage} text={t.usageText}>
      <Loaded query={usage} lines={4}>
        {(used) => (
          <ul className="grid gap-4">
            {(Object.keys(t.limits) as Limit[]).map((name) => {
              const limit = limits?.[name] ?? 0
              const text =
                limit === 0
                  ? t.unlimited(formatNumber(used[name]))
                  : t.usedOf(formatNumber(used[name]), formatNumber(limit))
              return (
                <li key={name} className="grid gap-1.5">
                  <p className="flex justify-between gap-2">
                    <span>{t.limits[name]}</span>
                    <span className="flex items-center gap-2 text-muted">
                      {limit > 0 && used[name] >= limit && <Badge tone="bad">{t.full}</Badge>}
                      {text}
                    </span>
                  </p>
                  {limit > 0 && <Meter label={t.limits[name]} value={used[name]} limit={limit} text={text} />}
                </li>
              )
            })}
          </ul>
        )}
      </Loaded>
    </Section>
  )
}

const tones = {
  active: 'good',
  trialing: 'good',
  past_due: 'bad',
  unpaid: 'bad',
  incomplete: 'wait',
  incomplete_expired: 'bad',
  canceled: 'plain',
  paused: 'wait',
  none: 'plain',
} as const

function Subscription({ planName }: { planName: string }) {
  const { isAdmin } = useOrganization()
  const queryClient = useQueryClient()
  const status = useQuery(statusQuery)
  const record = useQuery(subscriptionQuery)
  const products = useQuery(productsQuery)
  const hasBilling = (products.data?.products.length ?? 0) > 0
  const keptUntil = findGrace(record.data?.grace_ends_at)
  const portal = useMutation({ mutationFn: () => unwrap(api.GET('/subscriptions/portal')), onSuccess: go })
  const sync = useMutation({
    mutationFn: () => unwrap(api.POST('/subscriptions/sync')),
    async onSuccess({ synced }) {
      await Promise.all(['plan', 'subscription'].map((key) => queryClient.invalidateQueries({ queryKey: [key] })))
      notify(t.synced(synced))
    },
    onError: (error) => notifyError(t.syncFailed, error),
  })
  return (
    <Section
      title={t.subscription}
      actions={status.data && <Badge tone={tones[status.data.status]}>{t.statuses[status.data.status]}</Badge>}
    >
      <Loaded query={status}>
        {({ current_period_end, cancel_at, has_subscription, is_active }) => (
          <div className="grid gap-4">
            <Facts
              facts={[
                [t.plan, planName],
                ...(record.data?.seats ? [[t.paidSeats, formatNumber(record.data.seats)] as const] : []),
                ...(has_subscription && cancel_at ? [[t.ends, <Time key="end" at={cancel_at} />] as const] : []),
                ...(keptUntil ? [[t.keptUntil, <Time key="grace" at={keptUntil} />] as const] : []),
                ...(is_active && !cancel_at && current_period_end
                  ? [[t.renews, <Time key="end" at={current_period_end} />] as const]
                  : []),
              ]}
            />
            {products.data && !hasBilling && <p className="text-muted">{t.noBilling}</p>}
            {hasBilling && (
              <div className="flex flex-wrap gap-2">
                {isAdmin && has_subscription && (
                  <Button icon={ExternalLink} isPending={portal.isPending} onClick={() => portal.mutate()}>
                    {t.portal}
                  </Button>
                )}
                <Button icon={RefreshCw} isPending={sync.isPending} onClick={() => sync.mutate()}>
                  {t.sync}
                </Button>
              </div>
            )}
            {hasBilling && <p className="text-sm text-muted">{t.syncHint}</p>}
            <FormError error={portal.error} />
          </div>
        )}
      </Loaded>
    </Section>
  )
}

function Plans({ currentId }: { currentId: string }) {
  const plans = useQuery(plansQuery)
  const products = useQuery(productsQuery)
  if (!plans.data) return plans.error ? <FormError error={plans.error} /> : <Skeleton lines={6} />
  return (
    <section aria-label={t.plans} className="mt-3">
      <h2 className="mb-3 text-lg font-semibold">{t.plans}</h2>
      <div className="grid gap-3 md:grid-cols-3">
        {plans.data.plans.map((plan) => (
          <PlanCard
            key={plan.id}
            plan={plan}
            isCurrent={plan.id === currentId}
            productId={products.data?.products.find(({ plan_id }) => plan_id === plan.id)?.product_id}
          />
        ))}
      </div>
    </section>
  )
}

function PlanCard({ plan, isCurrent, productId }: { plan: Plan; isCurrent: boolean; productId: string | undefined }) {
  const { isAdmin } = useOrganization()
  const status = useQuery(statusQuery)
  const products = useQuery(productsQuery)
  const hasEnded = ['none', 'canceled', 'incomplete_expired'].includes(status.data?.status ?? 'none')
  const usesPortal = !hasEnded && products.data?.plan_changes === 'portal'
  const checkout = useMutation({
    mutationFn: (product_id: string) =>
      usesPortal
        ? unwrap(api.GET('/subscriptions/portal'))
        : unwrap(api.GET('/subscriptions/checkout', { params: { query: { product_id } } })),
    onSuccess: go,
  })
  return (
    <article aria-label={plan.name} className={`card flex flex-col gap-4 p-4 ${isCurrent ? 'border-accent' : ''}`}>
      <div>
        <h3 className="flex items-center justify-between gap-2 text-lg font-semibold">
          {plan.name} {isCurrent && <Badge tone="good">{t.current}</Badge>}
        </h3>
        <p className="text-muted">{plan.description}</p>
      </div>
      <ul className="grid gap-1.5 text-sm">
        {(Object.keys(t.limits) as Limit[]).map((name) => (
          <li key={name} className="flex justify-between gap-2">
            <span className="text-muted">{t.limits[name]}</span>
            <span className="font-[550]">{plan.limits[name] === 0 ? t.noLimit : formatNumber(plan.limits[name])}</span>
          </li>
        ))}
      </ul>
      <ul className="grid gap-1.5 text-sm">
        {(Object.keys(t.features) as (keyof typeof t.features)[]).map((name) => (
          <li key={name} className={`flex items-center gap-2 ${plan.features[name] ? '' : 'text-faint'}`}>
            {plan.features[name] ? (
              <Check size={16} strokeWidth={2} className="text-accent" aria-hidden />
            ) : (
              <Minus size={16} strokeWidth={1.5} aria-hidden />
            )}
            {t.features[name]}
            <span className="sr-only">{plan.features[name] ? t.included : t.notIncluded}</span>
          </li>
        ))}
      </ul>
      {isAdmin && productId && !isCurrent && status.data && (
        <Button
          variant="primary"
          className="mt-auto"
          isPending={checkout.isPending}
          onClick={() => checkout.mutate(productId)}
        >
          {t.choose(plan.name)}
        </Button>
      )}
      <FormError error={checkout.error} />
    </article>
  )
}
