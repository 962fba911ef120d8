import type { components } from '@inlay/client'
import { Link } from '@tanstack/react-router'
import { useDetails } from '../../lib/details.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatNumber } from '../../lib/format.ts'
import { api, unwrap } from '../../session/api.ts'
import { useOrgPath } from '../../session/me.ts'
import { buttonClass } from '../../ui/button.tsx'
import { type Column, DataTable } from '../../ui/data-table.tsx'
import { PageHeader } from '../../ui/layout.tsx'
import { pageSize, useOffsetRows } from '../../ui/row-sources.ts'
import { SearchField } from '../../ui/search-field.tsx'
import { EmptyState } from '../../ui/states.tsx'
import { Ago } from '../../ui/time.tsx'
import { EndUserSheet } from './end-user-sheet.tsx'
import { t } from './texts.ts'

type EndUser = components['schemas']['EndUser']

export default function EndUsers() {
  const [filters, setFilters] = useFilters({ search: '' })
  const details = useDetails('end-users')
  const orgPath = useOrgPath()
  const source = useOffsetRows<EndUser>(['end-users', 'list', filters.search], async (offset, signal) => {
    const query = { offset, limit: pageSize, ...(filters.search && { search: filters.search }) }
    const { users, total } = await unwrap(api.GET('/end-users', { params: { query }, signal }))
    return { rows: users, total }
  })
  const columns: Column<EndUser>[] = [
    {
      id: 'user',
      header: t.user,
      cell: ({ id, email, external_id }) => (
        <Link
          to={orgPath(`end-users/${id}`)}
          search={true as never}
          resetScroll={false}
          className="font-[550] hover:underline"
        >
          {email || external_id}
        </Link>
      ),
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
        {source.rows && (
          <p role="status" className="text-sm text-muted">
            {(filters.search ? t.found : t.total)(formatNumber(source.rows.count))}
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
      {details.shownId && (
        <EndUserSheet
          key={details.shownId}
          id={details.shownId}
          isOpen={details.id !== undefined}
          onClose={details.close}
        />
      )}
    </>
  )
}
