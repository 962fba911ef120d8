import type { components } from '@inlay/client'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Download, ShieldAlert, ShieldCheck, ShieldQuestionMark } from 'lucide-react'
import { readRange } from '../../lib/date-range.ts'
import { useDetails } from '../../lib/details.ts'
import { saveFile } from '../../lib/files.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatNumber } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button, buttonClass, CopyButton } from '../../ui/controls/button.tsx'
import { RangePicker } from '../../ui/controls/range.tsx'
import { SearchField } from '../../ui/controls/search-field.tsx'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { DataBlock } from '../../ui/display/code.tsx'
import { Facts, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState, Loaded } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { Sheet } from '../../ui/overlays/overlays.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { useCursorRows } from '../../ui/tables/row-sources.ts'
import { t } from './texts.ts'

type AuditEvent = components['schemas']['AuditEvent']

const planQuery = read(['plan'], (signal) => api.GET('/plan-tiers/current', { signal }))

export default function Audit() {
  const { isAdmin } = useOrganization()
  const plan = useQuery({ ...planQuery, enabled: isAdmin })
  const isIncluded = plan.data?.features?.audit_logs === true
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={isAdmin && isIncluded && <Export />} />
      {isAdmin ? (
        <Loaded query={plan} lines={6}>
          {() => (isIncluded ? <Trail /> : <NotIncluded />)}
        </Loaded>
      ) : (
        <AdminsOnly />
      )}
    </>
  )
}

function NotIncluded() {
  const orgPath = useOrgPath()
  return (
    <div className="card">
      <EmptyState
        title={t.notIncluded}
        text={t.notIncludedText}
        action={
          <Link to={orgPath('billing')} className={buttonClass('primary')}>
            {t.seePlans}
          </Link>
        }
      />
    </div>
  )
}

const defaults = { actor: '', action: '', target: '', range: '30' }

function Trail() {
  const [filters, setFilters] = useFilters(defaults)
  const details = useDetails('audit')
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const { actor, action, target } = filters
  const wanted = {
    ...readRange(filters.range),
    ...(actor && { actor }),
    ...(action && { action }),
    ...(target && { target }),
  }
  const source = useCursorRows<AuditEvent>(['audit-events', 'list', wanted], async (cursor, signal) => {
    const query = { ...wanted, limit: 100, ...(cursor && { cursor }) }
    const { events, next_cursor } = await unwrap(api.GET('/audit-events', { params: { query }, signal }))
    return { rows: events, next_cursor }
  })
  return (
    <>
      <Verification />
      <div className="mb-3 flex flex-wrap gap-2">
        <SearchField
          label={t.anyActor}
          className="w-48"
          value={actor}
          onValue={(next) => setFilters({ actor: next })}
        />
        <SearchField
          label={t.anyAction}
          className="w-68"
          value={action}
          onValue={(next) => setFilters({ action: next })}
        />
        <SearchField
          label={t.anyTarget}
          className="w-48"
          value={target}
          onValue={(next) => setFilters({ target: next })}
        />
        <RangePicker value={filters.range} onValue={(range) => setFilters({ range })} />
      </div>
      <DataTable
        label={t.title}
        rows={source.rows}
        rowId={({ id }) => id}
        error={source.error}
        onRetry={source.refetch}
        onOpen={({ sequence }) => details.open(String(sequence))}
        isFiltered={Object.entries(defaults).some(([name, value]) => filters[name as keyof typeof defaults] !== value)}
        onClearFilters={() => setFilters(defaults)}
        columns={[
          {
            id: 'number',
            header: t.number,
            align: 'right',
            isMinor: true,
            cell: ({ sequence }) => <span className="text-muted">{formatNumber(sequence)}</span>,
          },
          { id: 'action', header: t.action, cell: (event) => <span className="mono font-[550]">{event.action}</span> },
          { id: 'actor', header: t.actor, cell: (event) => event.actor },
          {
            id: 'target',
            header: t.target,
            isMinor: true,
            cell: (event) => <span className="mono text-muted">{event.target}</span>,
          },
          {
            id: 'time',
            header: t.time,
            align: 'right',
            isMinor: true,
            cell: ({ created_at }) => <Ago at={created_at} />,
          },
        ]}
        empty={<EmptyState title={t.none} text={t.noneText} />}
      />
      {details.sheet && (
        <EventSheet
          key={details.sheet.key}
          {...details.sheet.props}
          onFilter={(changes) => void navigate({ to: orgPath('audit'), search: { range: '365', ...changes } as never })}
        />
      )}
    </>
  )
}

const verificationQuery = read(['audit-events', 'verification'], (signal) =>
  api.GET('/audit-events', { params: { query: { limit: 1 } }, signal }),
)

/** The server verifies new events within seconds. */
const lookAgainMs = 3_000

const looks = {
  intact: { Icon: ShieldCheck, badge: 'bg-accent-soft text-accent', title: '' },
  broken: { Icon: ShieldAlert, badge: 'bg-danger-soft text-danger', title: 'text-danger' },
  unverified: { Icon: ShieldQuestionMark, badge: 'bg-sunken text-muted', title: '' },
}

/** What the server's latest verification of the chain has found, and whether events came since. */
function Verification() {
  const query = useQuery({
    ...verificationQuery,
    refetchInterval: ({ state }) => ((state.data?.verification.newer_events ?? 0) > 0 ? lookAgainMs : false),
  })
  return (
    <section className="card mb-3 p-4" aria-label={t.title}>
      <Loaded query={query} lines={2}>
        {({ verification: { status, length, head, broken_at, verified_at, newer_events } }) => {
          const { Icon, badge, title } = looks[status]
          return (
            <div className="flex flex-wrap items-center gap-3">
              <span aria-hidden className={`grid size-9 shrink-0 place-items-center rounded-full ${badge}`}>
                <Icon size={20} strokeWidth={1.5} />
              </span>
              <div className="min-w-0 flex-1 basis-72">
                <h2 className={`font-semibold ${title}`}>{t[status]}</h2>
                <p className="text-sm text-muted">
                  {status === 'intact' && `${t.intactText(formatNumber(length))} ${t.headText}`}
                  {status === 'broken' && t.brokenText(formatNumber(broken_at ?? length + 1))}
                  {status === 'unverified' && t.unverifiedText}
                </p>
                <p className="mt-1 text-sm text-muted">
                  {verified_at && (
                    <>
                      {t.verified} <Ago at={verified_at} />
                      {' · '}
                    </>
                  )}
                  {status !== 'broken' &&
                    (newer_events > 0 ? t.newer(newer_events, formatNumber(newer_events)) : t.noneNewer)}
                </p>
              </div>
              {length > 0 && <CopyButton text={head} label={t.head} />}
            </div>
          )
        }}
      </Loaded>
    </section>
  )
}

const eventQuery = (number: number) =>
  read(['audit-events', 'one', number], (signal) =>
    // Events are numbered without gaps, so the first one before the next number is this one.
    api.GET('/audit-events', { params: { query: { limit: 1, cursor: String(number + 1) } }, signal }),
  )

function EventSheet({
  id,
  isOpen,
  onClose,
  onFilter,
}: {
  id: string
  isOpen: boolean
  onClose: () => void
  onFilter: (filters: Partial<typeof defaults>) => void
}) {
  const sequence = /^\d{1,14}$/.test(id) ? Number(id) : 0
  const query = useQuery(eventQuery(sequence))
  const found = query.data?.events.find((event) => event.sequence === sequence)
  return (
    <Sheet isOpen={isOpen} onClose={onClose} title={found?.action ?? t.title}>
      <Loaded query={query} lines={8}>
        {() =>
          found ? (
            <div className="grid grid-cols-1 gap-4">
              <Facts
                facts={[
                  [t.actor, found.actor],
                  [
                    t.actorId,
                    <span key="actor" className="mono">
                      {found.actor_id ?? '–'}
                    </span>,
                  ],
                  [
                    t.target,
                    <span key="target" className="mono">
                      {found.target}
                    </span>,
                  ],
                  [t.time, <Time key="time" at={found.created_at} />],
                  [t.number, formatNumber(found.sequence)],
                  [
                    t.id,
                    <span key="id" className="mono">
                      {found.id}
                    </span>,
                  ],
                  [
                    t.hash,
                    <span key="hash" className="mono">
                      {found.hash}
                    </span>,
                  ],
                ]}
              />
              <div className="flex flex-wrap gap-2">
                <Button onClick={() => onFilter({ target: found.target })}>{t.sameTarget}</Button>
                <Button onClick={() => onFilter({ actor: found.actor })}>{t.sameActor}</Button>
              </div>
              {Object.keys(found.data).length > 0 ? (
                <DataBlock label={t.data} text={JSON.stringify(found.data)} />
              ) : (
                <p className="text-muted">{t.noData}</p>
              )}
            </div>
          ) : (
            <EmptyState title={t.gone} text={t.goneText} />
          )
        }
      </Loaded>
    </Sheet>
  )
}

/** The whole trail, for a SIEM or to verify it elsewhere. */
function Export() {
  const save = useMutation({
    async mutationFn() {
      const text = await unwrap(api.GET('/audit-events/export', { parseAs: 'text' }))
      saveFile(`audit-log-${new Date().toISOString().slice(0, 10)}.jsonl`, 'application/jsonl', text as string)
    },
    onSuccess: () => notify(t.exported),
    onError: (error) => notifyError(t.exportFailed, error),
  })
  return (
    <Button icon={Download} isPending={save.isPending} onClick={() => save.mutate()}>
      {t.export}
    </Button>
  )
}
