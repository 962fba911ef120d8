import { useMutation, useQueryClient } from '@tanstack/react-query'
import { formatNumber } from '../../lib/format.ts'
import { api, unwrap, unwrapPage } from '../../session/api.ts'
import { Select } from '../../ui/controls/form.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { pageSize, useCursorRows } from '../../ui/tables/row-sources.ts'
import type { DirectoryGroup } from './queries.ts'
import { t } from './texts.ts'

type Role = NonNullable<DirectoryGroup['role']>

/** The groups, and the role that each gives its users. */
export function Groups({ id, isAdmin }: { id: string; isAdmin: boolean }) {
  const source = useCursorRows(['directories', id, 'groups'], async (cursor, signal) => {
    const params = { path: { id }, query: { limit: pageSize, ...(cursor && { cursor }) } }
    const { page, next_cursor } = await unwrapPage(api.GET('/directories/{id}/groups', { params, signal }))
    return { rows: page.groups, next_cursor }
  })
  return (
    <DataTable
      label={t.groups}
      rows={source.rows}
      rowId={(group) => group.id}
      error={source.error}
      onRetry={source.refetch}
      columns={[
        {
          id: 'name',
          header: t.name,
          cell: ({ display_name }) => (
            <span className="block max-w-36 truncate sm:max-w-none" title={display_name}>
              {display_name}
            </span>
          ),
        },
        {
          id: 'members',
          header: t.users,
          align: 'right',
          isMinor: true,
          cell: ({ member_count }) => formatNumber(member_count),
        },
        {
          id: 'role',
          header: t.role,
          cell: (group) =>
            isAdmin ? <GroupRole directoryId={id} group={group} /> : group.role ? t.roles[group.role] : t.noRole,
        },
      ]}
      empty={<EmptyState title={t.noGroups} text={t.noGroupsText} />}
    />
  )
}

function GroupRole({ directoryId, group }: { directoryId: string; group: DirectoryGroup }) {
  const queryClient = useQueryClient()
  const change = useMutation({
    mutationFn: (role: Role | null) =>
      unwrap(
        api.PATCH('/directories/{id}/groups/{group_id}', {
          params: { path: { id: directoryId, group_id: group.id } },
          body: { role },
        }),
      ),
    async onSuccess(_, role) {
      await queryClient.invalidateQueries({ queryKey: ['directories', directoryId] })
      const before = group.role
      const message = role ? t.roleGiven(group.display_name, t.roles[role]) : t.roleTaken(group.display_name)
      notify(message, { undo: () => change.mutate(before) })
    },
    onError: (error) => notifyError(t.roleFailed, error),
  })
  return (
    <Select
      aria-label={t.roleOf(group.display_name)}
      value={group.role ?? ''}
      disabled={change.isPending}
      options={[['', t.noRole], ...(Object.entries(t.roles) as [Role, string][])]}
      onValue={(role) => change.mutate(role || null)}
    />
  )
}
