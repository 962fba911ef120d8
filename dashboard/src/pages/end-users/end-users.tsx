import type { components } from '@inlay/client'
import { Link } from '@tanstack/react-router'
import { useDetails } from '../../lib/details.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatNumber } from '../../lib/format.ts'
import { api, unwrapPage } from '../../session/api.ts'
import { useOrgPath } from '../../session/me.ts'
import { buttonClass } from '../../ui/controls/button.tsx'
import { SearchField } from '../../ui/controls/search-field.tsx'
import { PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { endUserName } from '../../ui/end-user-name.ts'
import { type Column, DataTable } from '../../ui/tables/data-table.tsx'
import { DetailsLink } from '../../ui/tables/details-link.tsx'
import { pageSize, useCursorRows } from '../../ui/tables/row-sources.ts'
import { EndUserSheet } from './end-user-sheet.tsx'
import { t } from './texts.ts'

type EndUser = components['schemas']['EndUser']

/** A search counts no more. */
const mostCounted = 5_000

/** Outside of the component, so that rows that are shown aren't rendered again while others are loaded. */
const columns: Column<EndUser>[] = [
  {
    id: 'user',
    header: t.user,
    cell: (user) => <DetailsLink path={`end-users/${user.id}`}>{endUserName(user)}</DetailsLink>,
  },
  {
    id: 'external',
    header: t.externalId,
    isMinor: true,
    cell: ({ external_id }) => <span className="mono text-muted">{external_id}</span>,
  },
  {
    id: 'created',
    header: t.firstSeen,
    align: 'right',
    isMinor: true,
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
  {
    id: 'active',
    header: t.lastActive,
    align: 'right',
    cell: ({ last_activity_at }) => <Ago at={last_activity_at} />,
  },
]

export default function EndUsers() {
  const [filters, setFilters] = useFilters({ search: '' })
  const details = useDetails('end-users')
  const orgPath = useOrgPath()
  const source = useCursorRows<EndUser>(['end-users', 'list', filters.search], async (cursor, signal) => {
    const query = { limit: pageSize, ...(cursor && { cursor }), ...(filters.search && { search: filters.search }) }
    const { page, next_cursor } = await unwrapPage(api.GET('/end-users', { params: { query }, signal }))
    return { rows: page.users, total: page.total, next_cursor }
  })
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      <div className="mb-3 flex flex-wrap items-center gap-3">
        <SearchField
          label={t.search}
          className="w-72"
          value={filters.search}
          onValue={(search) => setFilters({ search })}
        />
        {source.total !== undefined && (
          <p role="status" className="text-sm text-muted">
            {(filters.search ? t.found : t.total)(
              formatNumber(source.total) + (filters.search && source.total === mostCounted ? '+' : ''),
            )}
          </p>
        )}
      </div>
      <DataTable
        label={t.title}
        rows={source.rows}
        rowId={({ id }) => id}
        error={source.error}
        onRetry={source.refetch}
        onOpen={({ id }) => details.open(id)}
        isFiltered={filters.search !== ''}
        onClearFilters={() => setFilters({ search: '' })}
        columns={columns}
        empty={
          <EmptyState
            title={t.none}
            text={t.noneText}
            action={
              <Link to={orgPath('identity-provider')} className={buttonClass('primary')}>
                {t.trust}
              </Link>
            }
          />
        }
      />
      {details.sheet && <EndUserSheet key={details.sheet.key} {...details.sheet.props} />}
    </>
  )
}
