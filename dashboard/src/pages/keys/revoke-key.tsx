import { useMutation } from '@tanstack/react-query'
import { api, unwrap } from '../../session/api.ts'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { type Key, refreshKeys, useOpenKey } from './data.ts'
import { t } from './texts.ts'

/** Asks before a key is revoked, and closes its details afterwards. */
export function RevokeKey({ found, isOpen, onClose }: { found: Key; isOpen: boolean; onClose: () => void }) {
  const open = useOpenKey()
  const revoke = useMutation({
    mutationFn: () => unwrap(api.DELETE('/publishable-keys/{id}', { params: { path: { id: found.id } } })),
    async onSuccess() {
      await refreshKeys()
      notify(t.revoked(found.name))
      open()
    },
  })
  return (
    isOpen && (
      <ConfirmDialog
        isOpen
        onClose={onClose}
        title={t.revokeTitle(found.name)}
        text={t.revokeText}
        action={t.revoke}
        typed={found.name}
        isPending={revoke.isPending}
        error={revoke.error}
        onConfirm={() => revoke.mutate()}
      />
    )
  )
}
