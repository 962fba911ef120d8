import { useMutation, useQuery } from '@tanstack/react-query'
import { ChevronDown, Download } from 'lucide-react'
import { readRange } from '../../lib/date-range.ts'
import { useDetails } from '../../lib/details.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatDuration, formatNumber } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { membersQuery } from '../../session/lists.ts'
import { useOrganization } from '../../session/me.ts'
import { Select } from '../../ui/controls/form.tsx'
import { RangePicker } from '../../ui/controls/range.tsx'
import { SearchField } from '../../ui/controls/search-field.tsx'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { Badge, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { Menu } from '../../ui/overlays/menu.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { useCursorRows } from '../../ui/tables/row-sources.ts'
import { CallSheet } from './call-sheet.tsx'
import { type Call, type CallFilters, exportCalls, type Outcome, outcomeTones, placeOf } from './calls.ts'
import { Retention } from './retention.tsx'
import { t } from './texts.ts'

const defaults = { tool: '', outcome: '', user: '', range: '30' }

export default function ToolCalls() {
  const { isAdmin } = useOrganization()
  if (isAdmin) return <CallsPage />
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      <AdminsOnly />
    </>
  )
}

function CallsPage() {
  const [filters, setFilters] = useFilters(defaults)
  const details = useDetails('tool-calls')
  const outcome = filters.outcome in t.outcomes ? (filters.outcome as Outcome) : ''
  const wanted: CallFilters = {
    ...readRange(filters.range),
    ...(filters.tool && { tool: filters.tool }),
    ...(outcome && { outcome }),
    ...(filters.user && { user_id: filters.user }),
  }
  const source = useCursorRows<Call>(['tool-calls', 'list', wanted], async (cursor, signal) => {
    const query = { ...wanted, limit: 100, ...(cursor && { cursor }) }
    const { tool_calls, next_cursor } = await unwrap(api.GET('/tool-calls', { params: { query }, signal }))
    return { rows: tool_calls, next_cursor }
  })
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={<Export filters={wanted} />} />
      <Retention />
      <div className="mb-3 flex flex-wrap gap-2">
        <SearchField label={t.anyTool} className="w-52" value={filters.tool} onValue={(tool) => setFilters({ tool })} />
        <Select
          aria-label={t.outcome}
          value={outcome}
          options={[['', t.anyOutcome], ...(Object.entries(t.outcomes) as [Outcome, string][])]}
          onValue={(next) => setFilters({ outcome: next })}
        />
        <UserFilter value={filters.user} onValue={(user) => setFilters({ user })} />
        <RangePicker value={filters.range} onValue={(range) => setFilters({ range })} />
      </div>
      <DataTable
        label={t.title}
        rows={source.rows}
        rowId={({ id }) => id}
        error={source.error}
        onRetry={source.refetch}
        onOpen={(call) => details.open(placeOf(call))}
        isFiltered={filters.tool !== '' || outcome !== '' || filters.user !== '' || filters.range !== defaults.range}
        onClearFilters={() => setFilters(defaults)}
        columns={[
          { id: 'tool', header: t.tool, cell: ({ tool }) => <span className="mono font-[550]">{tool}</span> },
          {
            id: 'outcome',
            header: t.outcome,
            cell: ({ outcome: own }) => <Badge tone={outcomeTones[own]}>{t.outcomes[own]}</Badge>,
          },
          {
            id: 'approval',
            header: t.approval,
            isMinor: true,
            cell: ({ approval }) => <span className="text-muted">{t.approvals[approval]}</span>,
          },
          {
            id: 'user',
            header: t.user,
            isMinor: true,
            cell: ({ user_email, user_id }) => user_email || <span className="mono text-muted">{user_id}</span>,
          },
          {
            id: 'source',
            header: t.source,
            isMinor: true,
            cell: ({ source: from }) => (
              <span className="mono text-muted">{from?.replace('https://', '') ?? t.notFound}</span>
            ),
          },
          {
            id: 'duration',
            header: t.duration,
            align: 'right',
            isMinor: true,
            cell: ({ duration_ms }) => formatDuration(duration_ms),
          },
          { id: 'at', header: t.time, align: 'right', isMinor: true, cell: ({ at }) => <Ago at={at} /> },
        ]}
        empty={<EmptyState title={t.none} text={t.noneText} />}
      />
      {details.sheet && <CallSheet key={details.sheet.key} {...details.sheet.props} />}
    </>
  )
}

const endUserQuery = (id: string) =>
  read(['end-users', 'one', id], (signal) => api.GET('/end-users/{id}', { params: { path: { id } }, signal }))

/** Members, and the end user that the URL names: there may be too many end users for a list. */
function UserFilter({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  const members = useQuery(membersQuery)
  const options = (members.data ?? []).map(({ user }) => [user.id, user.email] as const)
  const isOther = value !== '' && !options.some(([id]) => id === value)
  const endUser = useQuery({ ...endUserQuery(value), enabled: isOther && members.isSuccess, retry: false })
  const name = endUser.data ? endUser.data.email || endUser.data.external_id : t.someUser(value)
  return (
    <Select
      aria-label={t.user}
      className="max-w-60"
      value={value}
      options={[['', t.anyUser], ...(isOther ? [[value, name] as const] : []), ...options]}
      onValue={onValue}
    />
  )
}

function Export({ filters }: { filters: CallFilters }) {
  const save = useMutation({
    mutationFn: (format: 'csv' | 'jsonl') => exportCalls(filters, format),
    onSuccess({ count, isCut }) {
      const number = formatNumber(count)
      notify(t.exported(number), isCut ? { text: t.cut(number) } : {})
    },
    onError: (error) => notifyError(t.exportFailed, error),
  })
  return (
    <Menu
      trigger={{ className: 'button', disabled: save.isPending }}
      entries={[
        { name: t.csv, onClick: () => save.mutate('csv') },
        { name: t.jsonl, onClick: () => save.mutate('jsonl') },
      ]}
    >
      <Download size={16} strokeWidth={1.5} aria-hidden />
      {save.isPending ? t.exporting : t.export}
      <ChevronDown size={14} strokeWidth={1.5} aria-hidden />
    </Menu>
  )
}
