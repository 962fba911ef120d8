import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useFilters } from '../../lib/filters.ts'
import { api, unwrap } from '../../session/api.ts'
import { Button, CopyButton } from '../../ui/button.tsx'
import { Segments } from '../../ui/choice.tsx'
import { DataTable } from '../../ui/data-table.tsx'
import { Switch } from '../../ui/form.tsx'
import { Badge, Facts } from '../../ui/layout.tsx'
import { ConfirmDialog } from '../../ui/overlays.tsx'
import { pageSize, useOffsetRows } from '../../ui/row-sources.ts'
import { EmptyState } from '../../ui/states.tsx'
import { Time } from '../../ui/time.tsx'
import { notify, notifyError } from '../../ui/toasts.tsx'
import { words } from '../../ui/words.ts'
import { type Directory, directoriesQuery } from './queries.ts'
import { t } from './texts.ts'

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
  const { type, domain, scim_base_url, created_at } = directory
  return (
    <div className="grid gap-5">
      <Facts
        facts={[
          [t.type, t.types[type]],
          [t.domain, domain],
          [t.since, <Time key="time" at={created_at} />],
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
        {view === 'groups' ? <Groups id={directory.id} /> : <Users id={directory.id} />}
      </div>
      {isAdmin && <Disconnection directory={directory} onDeleted={onDeleted} />}
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
  const source = useOffsetRows(['directories', id, 'users'], async (offset, signal) => {
    const params = { path: { id }, query: { offset, limit: pageSize } }
    const { users, total } = await unwrap(api.GET('/directories/{id}/users', { params, signal }))
    return { rows: users, total }
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
      ]}
      empty={<EmptyState title={t.noUsers} text={t.noUsersText} />}
    />
  )
}

function Groups({ id }: { id: string }) {
  const source = useOffsetRows(['directories', id, 'groups'], async (offset, signal) => {
    const params = { path: { id }, query: { offset, limit: pageSize } }
    const { groups, total } = await unwrap(api.GET('/directories/{id}/groups', { params, signal }))
    return { rows: groups, total }
  })
  return (
    <DataTable
      label={t.groups}
      rows={source.rows}
      rowId={(group) => group.id}
      error={source.error}
      onRetry={source.refetch}
      columns={[{ id: 'name', header: t.name, cell: ({ display_name }) => display_name }]}
      empty={<EmptyState title={t.noGroups} text={t.noGroupsText} />}
    />
  )
}

function Disconnection({ directory: { id, name }, onDeleted }: { directory: Directory; onDeleted: () => void }) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/directories/{id}', { params: { path: { id } } })),
    async onSuccess() {
      onDeleted()
      notify(t.disconnected(name))
      await queryClient.invalidateQueries({ queryKey: directoriesQuery.queryKey })
    },
  })
  return (
    <div className="border-t border-line pt-4">
      <Button onClick={() => setAsking(true)}>{t.disconnect}</Button>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.disconnectTitle(name)}
        text={t.disconnectText}
        action={words.delete}
        typed={name}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </div>
  )
}
