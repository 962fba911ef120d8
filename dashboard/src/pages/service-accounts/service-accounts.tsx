import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import type { ReactNode } from 'react'
import { useDetails } from '../../lib/details.ts'
import { serviceAccountsQuery } from '../../session/lists.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { AccountSheet } from './account-sheet.tsx'
import { CreateAccount } from './create-account.tsx'
import { useAccountFilters } from './data.ts'
import { State } from './state.tsx'
import { t } from './texts.ts'

export default function ServiceAccounts() {
  const { isAdmin } = useOrganization()
  const [, setFilters] = useAccountFilters()
  const create = (
    <Button variant="primary" icon={Plus} onClick={() => setFilters({ create: 'yes' })}>
      {t.create}
    </Button>
  )
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={isAdmin && create} />
      {isAdmin ? <Accounts create={create} /> : <AdminsOnly />}
    </>
  )
}

function Accounts({ create }: { create: ReactNode }) {
  const [filters, setFilters] = useAccountFilters()
  const { id, open } = useDetails('service-accounts')
  const orgPath = useOrgPath()
  const accounts = useQuery(serviceAccountsQuery)
  return (
    <>
      <DataTable
        label={t.title}
        rows={accounts.data}
        rowId={(account) => account.id}
        error={accounts.error}
        onRetry={accounts.refetch}
        onOpen={(account) => open(account.id)}
        sort={filters.sort}
        onSort={(sort) => setFilters({ sort })}
        columns={[
          {
            id: 'name',
            header: t.name,
            sortBy: ({ name }) => name.toLowerCase(),
            cell: (account) => (
              <Link to={orgPath(`service-accounts/${account.id}`)} search={true} className="font-[550] hover:underline">
                {account.name}
              </Link>
            ),
          },
          { id: 'role', header: t.role, cell: ({ role }) => t.roles[role] },
          {
            id: 'key',
            header: t.key,
            isMinor: true,
            cell: ({ key_last4 }) => <span className="mono text-muted">…{key_last4}</span>,
          },
          {
            id: 'used',
            header: t.lastUsed,
            isMinor: true,
            sortBy: ({ last_used_at }) => last_used_at,
            cell: ({ last_used_at }) => <Ago at={last_used_at} />,
          },
          {
            id: 'expires',
            header: t.expires,
            isMinor: true,
            sortBy: ({ expires_at }) => expires_at,
            cell: ({ expires_at }) => <Time at={expires_at} />,
          },
          { id: 'state', header: t.state, cell: (account) => <State account={account} /> },
        ]}
        empty={<EmptyState title={t.none} text={t.noneText} action={create} />}
      />
      <CreateAccount isOpen={filters.create === 'yes' && !id} onClose={() => setFilters({ create: '' })} />
      <AccountSheet />
    </>
  )
}
