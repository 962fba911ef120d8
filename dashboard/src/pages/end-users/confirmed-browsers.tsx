import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Trash2 } from 'lucide-react'
import { useState } from 'react'
import { api, read, unwrap } from '../../session/api.ts'
import { IconButton } from '../../ui/controls/button.tsx'
import { Loaded } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { t } from './texts.ts'

const browsersQuery = (id: string) =>
  read(['end-users', 'one', id, 'confirmed-browsers'], (signal) =>
    api.GET('/end-users/{id}/confirmed-browsers', { params: { path: { id } }, signal }),
  )

/** Browsers in which the end user has proven who they are. For admins. */
export function ConfirmedBrowsers({ id }: { id: string }) {
  const queries = useQueryClient()
  const browsers = useQuery(browsersQuery(id))
  const [removing, setRemoving] = useState<string>()
  const remove = useMutation({
    mutationFn: (browser: string) =>
      unwrap(api.DELETE('/confirmed-browsers/{id}', { params: { path: { id: browser } } })),
    async onSuccess() {
      setRemoving(undefined)
      notify(t.browserRemoved)
      await queries.invalidateQueries({ queryKey: browsersQuery(id).queryKey })
    },
  })
  return (
    <Loaded query={browsers}>
      {(data) => (
        <>
          {data.browsers.length === 0 && <p className="text-muted">{t.noBrowsers}</p>}
          <ul className="grid gap-2">
            {data.browsers.map((browser) => (
              <li
                key={browser.id}
                className="flex items-center justify-between gap-2 rounded-control border border-line py-1 pr-1 pl-3 text-sm"
              >
                <span className="flex flex-wrap gap-x-3">
                  <span>
                    {t.browserConfirmed} <Time at={browser.created_at} />
                  </span>
                  <span className="text-muted">
                    {t.browserUsed} <Ago at={browser.last_used_at} />
                  </span>
                  <span className="text-muted">
                    {t.browserExpires} <Time at={browser.expires_at} />
                  </span>
                </span>
                <IconButton icon={Trash2} label={t.removeBrowser} onClick={() => setRemoving(browser.id)} />
              </li>
            ))}
          </ul>
          <ConfirmDialog
            isOpen={removing !== undefined}
            onClose={() => setRemoving(undefined)}
            title={t.removeBrowserTitle}
            text={t.removeBrowserText}
            action={t.removeBrowser}
            isPending={remove.isPending}
            error={remove.error}
            onConfirm={() => removing && remove.mutate(removing)}
          />
        </>
      )}
    </Loaded>
  )
}
