import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useFilters } from '../../lib/filters.ts'
import { formatNumber } from '../../lib/format.ts'
import { api, read } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Notice, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Dialog, Sheet } from '../../ui/overlays/overlays.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { words } from '../../ui/words.ts'
import { ConnectDirectory } from './connect-directory.tsx'
import { DirectoryDetails } from './details.tsx'
import { type Directory, directoriesQuery } from './queries.ts'
import { t } from './texts.ts'

const featuresQuery = read(['plan'], (signal) => api.GET('/plan-tiers/current', { signal }))

export default function DirectoryPage() {
  const { isAdmin } = useOrganization()
  const { id } = useParams({ strict: false }) as { id?: string }
  const [{ create }, setFilters] = useFilters({ create: '' })
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const directories = useQuery(directoriesQuery)
  const plan = useQuery(featuresQuery)
  const isInPlan = plan.data?.features?.scim !== false
  const open = directories.data?.directories.find((one) => one.id === id)
  const show = (path: string) => void navigate({ to: orgPath(path) })
  const close = () => setFilters({ create: '' })
  const connect = isAdmin && isInPlan && (
    <Button variant="primary" icon={Plus} onClick={() => setFilters({ create: 'yes' })}>
      {t.connect}
    </Button>
  )
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={connect} />
      {!isAdmin && <Notice>{words.adminsOnly}</Notice>}
      {!isInPlan && (
        <Notice tone="wait">
          {t.notInPlan}{' '}
          <Link to={orgPath('billing')} className="font-[550] underline">
            {t.toPlans}
          </Link>
        </Notice>
      )}
      {id && directories.data && !open && <Notice tone="wait">{t.gone}</Notice>}
      <DataTable<Directory>
        label={t.title}
        rows={directories.data?.directories}
        rowId={(one) => one.id}
        error={directories.error}
        onRetry={directories.refetch}
        onOpen={(one) => show(`directory/${one.id}`)}
        columns={[
          { id: 'name', header: t.name, cell: ({ name }) => <span className="font-[550]">{name}</span> },
          { id: 'type', header: t.type, isMinor: true, cell: ({ type }) => t.types[type] },
          { id: 'domain', header: t.domain, isMinor: true, cell: ({ domain }) => domain },
          { id: 'users', header: t.users, align: 'right', cell: ({ user_count }) => formatNumber(user_count) },
          {
            id: 'groups',
            header: t.groups,
            align: 'right',
            isMinor: true,
            cell: ({ group_count }) => formatNumber(group_count),
          },
          {
            id: 'status',
            header: t.status,
            cell: ({ status }) => <Badge tone={status === 'active' ? 'good' : 'plain'}>{t[status]}</Badge>,
          },
        ]}
        empty={<EmptyState title={t.empty} text={t.emptyText} action={connect} />}
      />
      <Dialog isOpen={create === 'yes' && isAdmin} onClose={close} title={t.connect}>
        <ConnectDirectory onClose={close} />
      </Dialog>
      <Sheet isOpen={open !== undefined} onClose={() => show('directory')} title={open?.name ?? ''}>
        {open && <DirectoryDetails directory={open} isAdmin={isAdmin} onDeleted={() => show('directory')} />}
      </Sheet>
    </>
  )
}
