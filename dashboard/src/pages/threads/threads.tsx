import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Archive } from 'lucide-react'
import { useDetails } from '../../lib/details.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatCompact, formatNumber } from '../../lib/format.ts'
import { api, unwrapPage } from '../../session/api.ts'
import { sitesQuery } from '../../session/lists.ts'
import { useOrgPath } from '../../session/me.ts'
import { Button, buttonClass } from '../../ui/controls/button.tsx'
import { Select } from '../../ui/controls/form.tsx'
import { SearchField } from '../../ui/controls/search-field.tsx'
import { Badge, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { endUserName } from '../../ui/end-user-name.ts'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { DetailsLink } from '../../ui/tables/details-link.tsx'
import { pageSize, useCursorRows } from '../../ui/tables/row-sources.ts'
import { t } from './texts.ts'
import { type Thread, useThreadStatus } from './thread-data.ts'
import { ThreadSheet } from './thread-sheet.tsx'

const tones = { regular: 'good', archived: 'plain', deleted: 'bad' } as const

export default function Threads() {
  const [filters, setFilters] = useFilters({ search: '', status: '' })
  const details = useDetails('threads')
  const orgPath = useOrgPath()
  const changeStatus = useThreadStatus()
  const { data: sites } = useQuery(sitesQuery)
  const status = filters.status in t.statuses ? (filters.status as Thread['status'] | '') : ''
  const source = useCursorRows<Thread>(['threads', 'list', { ...filters, status }], async (cursor, signal) => {
    const query = {
      limit: pageSize,
      ...(cursor && { cursor }),
      ...(filters.search && { search: filters.search }),
      ...(status && { status }),
    }
    const { page, next_cursor } = await unwrapPage(api.GET('/threads', { params: { query }, signal }))
    return { rows: page.threads, next_cursor }
  })
  const originOf = (id: string | null) => sites?.find((site) => site.id === id)?.origin.replace('https://', '')
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      <div className="mb-3 flex flex-wrap gap-2">
        <SearchField label={t.search} value={filters.search} onValue={(search) => setFilters({ search })} />
        <Select
          aria-label={t.status}
          value={status}
          options={Object.entries(t.statuses) as [Thread['status'] | '', string][]}
          onValue={(next) => setFilters({ status: next })}
        />
      </div>
      <DataTable
        label={t.title}
        rows={source.rows}
        rowId={({ id }) => id}
        error={source.error}
        onRetry={source.refetch}
        onOpen={({ id }) => details.open(id)}
        isFiltered={filters.search !== '' || status !== ''}
        onClearFilters={() => setFilters({ search: '', status: '' })}
        bulkActions={(threads, done) => (
          <Button
            icon={Archive}
            onClick={() => {
              changeStatus({ threads, status: 'archived' })
              done()
            }}
          >
            {t.archive}
          </Button>
        )}
        columns={[
          {
            id: 'title',
            header: t.thread,
            cell: ({ title, id, status: own }) => (
              <span className="flex items-center gap-2">
                <DetailsLink path={`threads/${id}`}>
                  {title ?? <span className="text-muted">{t.untitled}</span>}
                </DetailsLink>
                {own !== 'regular' && <Badge tone={tones[own]}>{t.statuses[own]}</Badge>}
              </span>
            ),
          },
          {
            id: 'user',
            header: t.endUser,
            isMinor: true,
            cell: (thread) =>
              thread.end_user_id ? (
                <Link to={orgPath(`end-users/${thread.end_user_id}`)} className="hover:underline">
                  {endUserName(thread)}
                </Link>
              ) : (
                <span className="text-muted">{t.visitor}</span>
              ),
          },
          {
            id: 'site',
            header: t.site,
            isMinor: true,
            cell: ({ site_id }) => <span className="mono text-muted">{originOf(site_id) ?? t.noSite}</span>,
          },
          {
            id: 'messages',
            header: t.messages,
            align: 'right',
            isMinor: true,
            cell: ({ message_count }) => formatNumber(message_count),
          },
          {
            id: 'tokens',
            header: t.tokens,
            align: 'right',
            isMinor: true,
            cell: ({ total_tokens }) => formatCompact(total_tokens),
          },
          {
            id: 'active',
            header: t.active,
            align: 'right',
            isMinor: true,
            cell: ({ last_message_at, created_at }) => <Ago at={last_message_at ?? created_at} />,
          },
        ]}
        empty={
          <EmptyState
            title={t.none}
            text={t.noneText}
            action={
              <Link to={orgPath('keys')} className={buttonClass('primary')}>
                {t.embed}
              </Link>
            }
          />
        }
      />
      {details.sheet && <ThreadSheet key={details.sheet.key} {...details.sheet.props} />}
    </>
  )
}
