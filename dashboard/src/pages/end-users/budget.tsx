import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Pencil } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { formatMoney, formatNumber } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { Badge } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'

type Budget = components['schemas']['EndUserBudget']
type Limit = keyof typeof t.limits

const limits = Object.keys(t.limits) as Limit[]
const isMoney = (limit: Limit) => limit.endsWith('usd')
const describe = (limit: Limit, value: number | null) =>
  value === null ? t.unlimited : isMoney(limit) ? formatMoney(value) : formatNumber(value)

function usedOf({ state }: Budget, limit: Limit): number {
  const period = limit.startsWith('day') ? state.day : state.month
  return isMoney(limit) ? period.used_cost_micro_usd : period.used_tokens
}

const budgetQuery = (id: string) =>
  read(['end-users', 'one', id, 'budget'], (signal) =>
    api.GET('/end-users/{id}/budget', { params: { path: { id } }, signal }),
  )

/** What an end user has used of each limit, and limits of their own. */
export function EndUserBudget({ id, name }: { id: string; name: string }) {
  const budget = useQuery(budgetQuery(id))
  const [isOpen, setOpen] = useState(false)
  return (
    <section aria-label={t.budget}>
      <div className="mb-2 flex items-center justify-between gap-2">
        <h3 className="font-semibold">{t.budget}</h3>
        <Button icon={Pencil} disabled={!budget.data} onClick={() => setOpen(true)}>
          {t.changeBudget}
        </Button>
      </div>
      <Loaded query={budget}>
        {(data) => (
          <>
            <ul className="grid gap-2">
              {limits.map((limit) => (
                <LimitMeter key={limit} budget={data} limit={limit} />
              ))}
            </ul>
            <p className="mt-2 text-sm text-muted">
              {t.resetsDaily} <Time at={data.state.day.resets_at} />. {t.resetsMonthly}{' '}
              <Time at={data.state.month.resets_at} />.
            </p>
            <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title={t.budgetTitle(name)} text={t.budgetText}>
              <BudgetForm id={id} budget={data} onDone={() => setOpen(false)} />
            </Dialog>
          </>
        )}
      </Loaded>
    </section>
  )
}

const nearly = 0.8

function LimitMeter({ budget, limit }: { budget: Budget; limit: Limit }) {
  const used = usedOf(budget, limit)
  const most = budget.effective[limit]
  const part = most === null ? 0 : most === 0 ? 1 : Math.min(used / most, 1)
  return (
    <li className="text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <span>{t.limits[limit]}</span>
        {budget[limit] !== null && <Badge>{t.own}</Badge>}
        {part >= nearly && <Badge tone={part < 1 ? 'wait' : 'bad'}>{t.nearly}</Badge>}
        <span className="ml-auto text-muted">
          {most === null
            ? t.withoutLimit(describe(limit, used))
            : t.usedOf(describe(limit, used), describe(limit, most))}
        </span>
      </div>
      {most !== null && (
        <div className="mt-1 h-1 rounded-full bg-sunken" aria-hidden>
          <div
            className={`h-1 rounded-full ${part >= nearly ? 'bg-brass' : 'bg-accent'}`}
            style={{ width: `${part * 100}%` }}
          />
        </div>
      )}
    </li>
  )
}

const write = (limit: Limit, value: number | null) =>
  value === null ? '' : isMoney(limit) ? String(value / 1_000_000) : String(value)

/** Null for an empty field, undefined for a text that isn't a limit. */
function readLimit(limit: Limit, text: string): number | null | undefined {
  const tidy = text.trim().replace(',', '.')
  if (tidy === '') return null
  if (!(isMoney(limit) ? /^\d{1,9}(\.\d{1,6})?$/ : /^\d{1,15}$/).test(tidy)) return undefined
  return isMoney(limit) ? Math.round(Number(tidy) * 1_000_000) : Number(tidy)
}

const defaultsQuery = read(['budgets'], (signal) => api.GET('/budgets', { signal }))

function BudgetForm({ id, budget, onDone }: { id: string; budget: Budget; onDone: () => void }) {
  const queries = useQueryClient()
  const { data: budgets } = useQuery(defaultsQuery)
  const [fields, setFields] = useState(() =>
    Object.fromEntries(limits.map((limit) => [limit, write(limit, budget[limit])])),
  )
  const values = limits.map((limit) => [limit, readLimit(limit, fields[limit] ?? '')] as const)
  const isValid = values.every(([, value]) => value !== undefined)
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        api.PATCH('/end-users/{id}/budget', {
          params: { path: { id } },
          body: Object.fromEntries(values) as Partial<Record<Limit, number | null>>,
        }),
      ),
    onSuccess() {
      notify(t.budgetSaved)
      onDone()
      return queries.invalidateQueries({ queryKey: ['end-users', 'one', id, 'budget'] })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (isValid && !save.isPending) save.mutate()
  }
  return (
    <form onSubmit={submit} className="grid gap-3">
      {values.map(([limit, value]) => (
        <Field
          key={limit}
          label={t.limits[limit]}
          {...(budgets && { hint: t.defaultIs(describe(limit, budgets.end_user_default[limit])) })}
          error={value === undefined ? (isMoney(limit) ? t.wrongMoney : t.wrongTokens) : undefined}
        >
          <Input
            value={fields[limit]}
            inputMode="decimal"
            onChange={({ target }) => setFields((known) => ({ ...known, [limit]: target.value }))}
          />
        </Field>
      ))}
      <FormError error={save.error} />
      <FormActions>
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={save.isPending} disabled={!isValid}>
          {words.save}
        </Button>
      </FormActions>
    </form>
  )
}
