import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useFilters } from '../../lib/filters.ts'
import { api, unwrap, unwrapPage } from '../../session/api.ts'
import { CopyButton } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { Switch } from '../../ui/controls/form.tsx'
import { Badge, Facts } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { Removal } from '../../ui/overlays/removal.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { pageSize, useCursorRows } from '../../ui/tables/row-sources.ts'
import { Groups } from './groups.tsx'
import { type Directory, directoriesQuery } from './queries.ts'
import { Refusals } from './refusals.tsx'
import { t } from './texts.ts'
import { Tokens } from './tokens.tsx'

export function DirectoryDetails({
  directory,
  isAdmin,
  onDeleted,
}: {
  directory: Directory
  isAdmin: boolean
  onDeleted: () => void
}) {
  const [{ view }, setFilters] = useFilters({ view: 'users' })
  const { id, name, type, domain, scim_base_url, created_at, last_synced_at } = directory
  return (
    <div className="grid gap-5">
      <Facts
        facts={[
          [t.type, t.types[type]],
          [t.domain, domain],
          [t.since, <Time key="time" at={created_at} />],
          [t.lastSync, last_synced_at ? <Ago key="sync" at={last_synced_at} /> : t.neverSynced],
          [
            t.baseUrl,
            <span key="url" className="mono">
              {scim_base_url}
            </span>,
          ],
        ]}
      />
      <div>
        <CopyButton text={scim_base_url} label={t.copyUrl} />
      </div>
      {isAdmin && <Activation directory={directory} />}
      {isAdmin && <Tokens directory={directory} />}
      <div className="grid gap-3">
        <div>
          <Segments
            label={t.view}
            value={view === 'groups' ? 'groups' : 'users'}
            options={[
              ['users', t.users],
              ['groups', t.groups],
            ]}
            onValue={(next) => setFilters({ view: next })}
          />
        </div>
        {view === 'groups' ? <Groups id={directory.id} isAdmin={isAdmin} /> : <Users id={directory.id} />}
      </div>
      {isAdmin && <Refusals directoryId={id} />}
      {isAdmin && (
        <Removal
          name={name}
          label={t.disconnect}
          title={t.disconnectTitle(name)}
          text={t.disconnectText}
          removed={t.disconnected(name)}
          remove={() => unwrap(api.DELETE('/directories/{id}', { params: { path: { id } } }))}
          list={directoriesQuery.queryKey}
          onRemoved={onDeleted}
        />
      )}
    </div>
  )
}

function Activation({ directory: { id, name, status } }: { directory: Directory }) {
  const queryClient = useQueryClient()
  const change = useMutation({
    mutationFn: (next: Directory['status']) =>
      unwrap(api.PATCH('/directories/{id}', { params: { path: { id } }, body: { status: next } })),
    async onSuccess(_, next) {
      await queryClient.invalidateQueries({ queryKey: directoriesQuery.queryKey })
      const before = next === 'active' ? 'inactive' : 'active'
      notify(next === 'active' ? t.activated(name) : t.deactivated(name), { undo: () => change.mutate(before) })
    },
    onError: (error) => notifyError(t.notChanged, error),
  })
  return (
    <Switch
      label={t.accepts}
      hint={t.acceptsHint}
      checked={status === 'active'}
      disabled={change.isPending}
      onChecked={(isActive) => change.mutate(isActive ? 'active' : 'inactive')}
    />
  )
}

function Users({ id }: { id: string }) {
  const source = useCursorRows(['directories', id, 'users'], async (cursor, signal) => {
    const params = { path: { id }, query: { limit: pageSize, ...(cursor && { cursor }) } }
    const { page, next_cursor } = await unwrapPage(api.GET('/directories/{id}/users', { params, signal }))
    return { rows: page.users, next_cursor }
  })
  return (
    <DataTable
      label={t.users}
      rows={source.rows}
      rowId={(user) => user.id}
      error={source.error}
      onRetry={source.refetch}
      columns={[
        { id: 'name', header: t.name, cell: ({ name, user_name }) => name || user_name },
        { id: 'email', header: t.email, cell: ({ email }) => <span className="text-muted">{email}</span> },
        {
          id: 'state',
          header: t.state,
          cell: ({ active }) => <Badge tone={active ? 'good' : 'plain'}>{active ? t.active : t.inactive}</Badge>,
        },
        {
          id: 'role',
          header: t.role,
          cell: ({ role, is_invited }) => (role ? t.roles[role] : is_invited ? t.invited : t.noRole),
        },
      ]}
      empty={<EmptyState title={t.noUsers} text={t.noUsersText} />}
    />
  )
}
