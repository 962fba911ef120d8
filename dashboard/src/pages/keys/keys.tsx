import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { keysQuery } from '../../session/lists.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { Select } from '../../ui/controls/form.tsx'
import { Badge, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { AllowedDomains } from './allowed-domains.tsx'
import { CreateKey } from './create-key.tsx'
import { domainsQuery, type Key, useKeyFilters, useOpenKey } from './data.ts'
import { KeySheet } from './key-sheet.tsx'
import { Sites } from './sites.tsx'
import { t } from './texts.ts'

type View = keyof typeof t.views
type State = keyof typeof t.states

export default function Keys() {
  const [filters, setFilters] = useKeyFilters()
  const { id } = useParams({ strict: false }) as { id?: string }
  const { isAdmin } = useOrganization()
  const view = filters.view in t.views ? (filters.view as View) : 'keys'
  return (
    <>
      <PageHeader
        title={t.title}
        text={t.text}
        actions={
          isAdmin && (
            <Button variant="primary" icon={Plus} onClick={() => setFilters({ create: 'yes' })}>
              {t.create}
            </Button>
          )
        }
      />
      <div className="mb-3">
        <Segments
          label={t.view}
          value={view}
          options={Object.entries(t.views) as [View, string][]}
          onValue={(next) => setFilters({ view: next })}
        />
      </div>
      {view === 'keys' && <KeyTable />}
      {view === 'sites' && <Sites />}
      {view === 'domains' && <AllowedDomains />}
      {isAdmin && <CreateKey isOpen={filters.create === 'yes' && !id} onClose={() => setFilters({ create: '' })} />}
      <KeySheet />
    </>
  )
}

function KeyTable() {
  const [filters, setFilters] = useKeyFilters()
  const keys = useQuery(keysQuery)
  const open = useOpenKey()
  const orgPath = useOrgPath()
  const { isAdmin } = useOrganization()
  const state = filters.state in t.states ? (filters.state as State) : 'active'
  const all = keys.data
  const rows = all?.filter(({ revoked_at }) => state === 'all' || (state === 'revoked') === (revoked_at !== null))
  const hasRevoked = all?.some(({ revoked_at }) => revoked_at)
  return (
    <>
      {(hasRevoked || state !== 'active') && (
        <div className="mb-3 flex">
          <Select
            aria-label={t.state}
            value={state}
            options={Object.entries(t.states) as [State, string][]}
            onValue={(next) => setFilters({ state: next })}
          />
        </div>
      )}
      <DataTable
        label={t.views.keys}
        rows={rows}
        rowId={({ id }) => id}
        error={keys.error}
        onRetry={keys.refetch}
        onOpen={({ id }) => open(id)}
        sort={filters.sort}
        onSort={(sort) => setFilters({ sort })}
        isFiltered={(all?.length ?? 0) > 0}
        onClearFilters={() => setFilters({ state: 'all' })}
        columns={[
          {
            id: 'name',
            header: t.name,
            sortBy: ({ name }) => name.toLowerCase(),
            cell: ({ id, name }) => (
              <Link to={orgPath(`keys/${id}`)} search={true} className="font-[550] hover:underline">
                {name}
              </Link>
            ),
          },
          {
            id: 'prefix',
            header: t.prefix,
            isMinor: true,
            cell: ({ key_prefix }) => <span className="mono text-muted">{key_prefix}…</span>,
          },
          { id: 'origins', header: t.origins, isMinor: true, cell: (key) => <Origins keyRow={key} /> },
          {
            id: 'used',
            header: t.lastUsed,
            isMinor: true,
            sortBy: ({ last_used_at }) => last_used_at,
            cell: ({ last_used_at }) => <Ago at={last_used_at} />,
          },
          {
            id: 'created',
            header: t.created,
            isMinor: true,
            sortBy: ({ created_at }) => created_at,
            cell: ({ created_at }) => <Time at={created_at} />,
          },
          {
            id: 'state',
            header: t.state,
            cell: ({ revoked_at }) =>
              revoked_at ? <Badge>{t.states.revoked}</Badge> : <Badge tone="good">{t.states.active}</Badge>,
          },
        ]}
        empty={
          <EmptyState
            title={t.none}
            text={t.noneText}
            action={
              isAdmin && (
                <Button variant="primary" icon={Plus} onClick={() => setFilters({ create: 'yes' })}>
                  {t.create}
                </Button>
              )
            }
          />
        }
      />
    </>
  )
}

/** Where a key works, in short. */
function Origins({ keyRow: { allowed_origins, revoked_at } }: { keyRow: Key }) {
  const domains = useQuery(domainsQuery)
  const [first, ...others] = allowed_origins
  if (first) {
    return (
      <>
        <span className="mono">{first}</span>{' '}
        {others.length > 0 && (
          <span className="text-muted" title={others.join('\n')}>
            {t.andMore(others.length)}
          </span>
        )}
      </>
    )
  }
  if (revoked_at || !domains.data) return null
  return domains.data.allowed_domains.length > 0 ? (
    <span className="text-muted">{t.organizationDomains}</span>
  ) : (
    <Badge tone="wait">{t.anyWebsite}</Badge>
  )
}
