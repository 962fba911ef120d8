import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { Plus, TriangleAlert } from 'lucide-react'
import { useFilters } from '../../lib/filters.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Notice, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Dialog, Sheet } from '../../ui/overlays/overlays.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { words } from '../../ui/words.ts'
import { frameSignInQuery } from '../identity-provider/config.ts'
import { CreateConnector } from './create-connector.tsx'
import { ConnectorDetails } from './details.tsx'
import { type Connector, connectorsQuery } from './queries.ts'
import { t } from './texts.ts'

export default function Connectors() {
  const { isAdmin } = useOrganization()
  const { id } = useParams({ strict: false }) as { id?: string }
  const [{ create, sort }, setFilters] = useFilters({ create: '', sort: 'name' })
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const connectors = useQuery(connectorsQuery)
  const open = connectors.data?.connectors.find((one) => one.id === id)
  const show = (path: string) => void navigate({ to: orgPath(path) })
  const add = isAdmin && (
    <Button variant="primary" icon={Plus} onClick={() => setFilters({ create: 'yes' })}>
      {t.add}
    </Button>
  )
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={add} />
      {!isAdmin && <Notice>{words.adminsOnly}</Notice>}
      {isAdmin && <Unconfirmed connectors={connectors.data?.connectors} />}
      {id && connectors.data && !open && <Notice tone="wait">{t.gone}</Notice>}
      <DataTable<Connector>
        label={t.title}
        rows={connectors.data?.connectors}
        rowId={(one) => one.id}
        error={connectors.error}
        onRetry={connectors.refetch}
        onOpen={(one) => show(`connectors/${one.id}`)}
        sort={sort}
        onSort={(next) => setFilters({ sort: next })}
        columns={[
          {
            id: 'name',
            header: t.name,
            sortBy: ({ name }) => name,
            cell: ({ name }) => <span className="mono font-[550]">{name}</span>,
          },
          {
            id: 'server',
            header: t.url,
            isMinor: true,
            sortBy: ({ server_url }) => server_url,
            cell: ({ server_url }) => <span className="mono text-muted">{server_url}</span>,
          },
          { id: 'kind', header: t.kind, isMinor: true, sortBy: ({ kind }) => kind, cell: ({ kind }) => t.kinds[kind] },
          {
            id: 'status',
            header: t.status,
            sortBy: ({ status }) => status,
            cell: ({ status }) => <Badge tone={status === 'active' ? 'good' : 'plain'}>{t[status]}</Badge>,
          },
        ]}
        empty={<EmptyState title={t.empty} text={t.emptyText} action={add} />}
      />
      <Dialog isWide isOpen={create === 'yes' && isAdmin} onClose={() => setFilters({ create: '' })} title={t.add}>
        <CreateConnector
          onCancel={() => setFilters({ create: '' })}
          onCreated={(connector) => show(`connectors/${connector.id}`)}
        />
      </Dialog>
      <Sheet isOpen={open !== undefined} onClose={() => show('connectors')} title={open?.name ?? ''}>
        {open && (
          <ConnectorDetails key={open.id} connector={open} isAdmin={isAdmin} onDeleted={() => show('connectors')} />
        )}
      </Sheet>
    </>
  )
}

/** Until a client for it is set, end users can’t confirm their browser, so they can’t approve calls in the chat. */
function Unconfirmed({ connectors = [] }: { connectors?: Connector[] | undefined }) {
  const orgPath = useOrgPath()
  const isUsed = connectors.some(({ kind, status }) => kind === 'id_jag' && status === 'active')
  const signIn = useQuery({ ...frameSignInQuery, enabled: isUsed })
  if (!isUsed || signIn.data?.is_active !== false) return null
  return (
    <Notice tone="wait" icon={TriangleAlert}>
      {t.unconfirmed}{' '}
      <Link to={orgPath('identity-provider')} className="underline">
        {t.setUpConfirmation}
      </Link>
    </Notice>
  )
}
