import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, TriangleAlert } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { Badge, Notice, PageHeader, Section } from '../../ui/display/layout.tsx'
import { Loaded } from '../../ui/display/states.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { UnsavedBar } from '../../ui/overlays/unsaved.tsx'
import {
  type Budgets,
  budgetNames,
  changesOf,
  type Draft,
  type LimitName,
  parseLimit,
  type Scope,
  type ScopeLimits,
  shareNames,
  toText,
} from './draft.ts'
import { LimitField } from './limit-field.tsx'
import { t } from './texts.ts'

const budgetsQuery = read(['budgets'], (signal) => api.GET('/budgets', { signal }))
/** Usage grows while the page is open. */
const refreshMs = 15_000

export default function BudgetsPage() {
  const { isAdmin } = useOrganization()
  const budgets = useQuery({ ...budgetsQuery, enabled: isAdmin, refetchInterval: refreshMs })
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {isAdmin ? (
        <Loaded query={budgets} lines={8}>
          {(data) => <BudgetsForm budgets={data} />}
        </Loaded>
      ) : (
        <AdminsOnly />
      )}
    </>
  )
}

function BudgetsForm({ budgets }: { budgets: Budgets }) {
  const queryClient = useQueryClient()
  const orgPath = useOrgPath()
  // Only the fields that the user has edited. The others show the saved limits, even if another admin changes them.
  const [draft, setDraft] = useState<Draft>({})
  const changes = changesOf(draft, budgets)
  const isDirty = Object.keys(changes).length > 0 || hasProblem(draft)
  const save = useMutation({
    mutationFn: () => unwrap(api.PATCH('/budgets', { body: changes })),
    onSuccess(next) {
      queryClient.setQueryData(budgetsQuery.queryKey, next)
      setDraft({})
      notify(t.saved)
    },
  })
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    if (!hasProblem(draft)) return save.isPending || save.mutate()
    event.currentTarget.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }
  const limits = (scope: Scope) => ({
    texts: draft[scope] ?? {},
    saved: budgets[scope],
    onText(name: LimitName, text: string) {
      save.reset()
      setDraft((known) => ({ ...known, [scope]: { ...known[scope], [name]: text } }))
    },
  })
  const { organization, anonymous } = budgets.state
  const nearly = [organization.day, organization.month, anonymous.day, anonymous.month].some(
    ({ is_nearly_reached }) => is_nearly_reached,
  )
  return (
    <form onSubmit={submit} aria-label={t.title}>
      {nearly && (
        <Notice tone="wait" icon={TriangleAlert}>
          {t.nearlyText}
        </Notice>
      )}
      <div className="grid gap-3">
        <Section
          title={t.organization}
          text={t.organizationText}
          actions={organization.month.is_nearly_reached && <Badge tone="wait">{t.nearly}</Badge>}
        >
          <Limits {...limits('organization')} scope={t.organization} state={organization} />
        </Section>
        <Section title={t.endUser} text={t.endUserText}>
          <Limits {...limits('end_user_default')} scope={t.endUser} />
          <p className="mt-4 text-sm text-muted">
            {t.overrides}{' '}
            <Link to={orgPath('end-users')} className="link inline-flex items-center gap-1">
              {t.toEndUsers} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
            </Link>
          </p>
        </Section>
        <Section title={t.anonymous} text={t.anonymousText}>
          <Limits {...limits('anonymous')} scope={t.anonymous} state={anonymous} />
          <h3 className="mt-6 font-[550]">{t.shares}</h3>
          <p className="mt-0.5 mb-4 text-sm text-muted">{t.sharesText}</p>
          <Limits {...limits('anonymous_shares')} scope={t.shares} names={shareNames} />
        </Section>
      </div>
      <UnsavedBar isDirty={isDirty} isPending={save.isPending} error={save.error} onDiscard={() => setDraft({})} />
    </form>
  )
}

const hasProblem = (draft: Draft) =>
  Object.values(draft).some((texts) =>
    Object.entries(texts).some(([name, text]) => parseLimit(name as LimitName, text) === undefined),
  )

function Limits({
  scope,
  names = budgetNames,
  texts,
  saved,
  state,
  onText,
}: {
  scope: string
  names?: readonly LimitName[]
  texts: Partial<Record<LimitName, string>>
  saved: ScopeLimits
  state?: Budgets['state']['organization']
  onText: (name: LimitName, text: string) => void
}) {
  return (
    <div className="grid gap-x-6 gap-y-5 md:grid-cols-2">
      {names.map((name) => (
        <LimitField
          key={name}
          scope={scope}
          name={name}
          text={texts[name] ?? toText(name, saved[name] ?? null)}
          saved={saved[name] ?? null}
          period={state?.[name.startsWith('day') ? 'day' : 'month']}
          onText={(text) => onText(name, text)}
        />
      ))}
    </div>
  )
}
