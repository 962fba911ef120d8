import { useMutation, useQuery } from '@tanstack/react-query'
import { Trash2 } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { keysQuery, sitesQuery } from '../../session/lists.ts'
import { useOrganization } from '../../session/me.ts'
import { IconButton } from '../../ui/controls/button.tsx'
import { Badge } from '../../ui/display/layout.tsx'
import { EmptyState } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { DataTable } from '../../ui/tables/data-table.tsx'
import { words } from '../../ui/words.ts'
import { domainsQuery, refreshKeys, type Site, useKeyFilters } from './data.ts'
import { t } from './texts.ts'

/** Every origin that is or was allowed, and what allows it. */
export function Sites() {
  const [filters, setFilters] = useKeyFilters()
  const { isAdmin } = useOrganization()
  const sites = useQuery(sitesQuery)
  const keys = useQuery(keysQuery)
  const domains = useQuery(domainsQuery)
  const [leaving, setLeaving] = useState<Site>()
  const isKnown = keys.data !== undefined && domains.data !== undefined
  const allowedBy = (origin: string) => [
    ...(domains.data?.allowed_domains.includes(origin) ? [t.organizationDomains] : []),
    ...(keys.data ?? [])
      .filter(({ revoked_at, allowed_origins }) => !revoked_at && allowed_origins.includes(origin))
      .map(({ name }) => name),
  ]
  return (
    <>
      <DataTable
        label={t.views.sites}
        rows={sites.data}
        rowId={({ id }) => id}
        error={sites.error}
        onRetry={sites.refetch}
        sort={filters.sort}
        onSort={(sort) => setFilters({ sort })}
        columns={[
          {
            id: 'origin',
            header: t.site,
            sortBy: ({ origin }) => origin,
            cell: ({ origin }) => <span className="mono">{origin}</span>,
          },
          {
            id: 'seen',
            header: t.lastSeen,
            sortBy: ({ last_seen_at }) => last_seen_at,
            cell: ({ last_seen_at }) => <Ago at={last_seen_at} />,
          },
          {
            id: 'allowed',
            header: t.allowedBy,
            cell({ origin }) {
              const names = allowedBy(origin)
              if (!isKnown) return null
              return names.length > 0 ? names.join(', ') : <Badge tone="wait">{t.noLonger}</Badge>
            },
          },
          {
            id: 'created',
            header: t.created,
            isMinor: true,
            sortBy: ({ created_at }) => created_at,
            cell: ({ created_at }) => <Time at={created_at} />,
          },
          ...(isAdmin
            ? [
                {
                  id: 'delete',
                  header: words.delete,
                  align: 'right' as const,
                  cell: (site: Site) =>
                    isKnown &&
                    allowedBy(site.origin).length === 0 && (
                      <IconButton icon={Trash2} label={t.deleteSite(site.origin)} onClick={() => setLeaving(site)} />
                    ),
                },
              ]
            : []),
        ]}
        empty={<EmptyState title={t.noSites} text={t.noSitesText} />}
      />
      {leaving && <DeleteSite site={leaving} onClose={() => setLeaving(undefined)} />}
    </>
  )
}

function DeleteSite({ site: { id, origin }, onClose }: { site: Site; onClose: () => void }) {
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/sites/{id}', { params: { path: { id } } })),
    onSuccess() {
      onClose()
      void refreshKeys()
      notify(t.siteDeleted(origin))
    },
  })
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={t.deleteSiteTitle(origin)}
      text={t.deleteSiteText}
      action={words.delete}
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
    />
  )
}
