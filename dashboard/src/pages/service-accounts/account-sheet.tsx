import { useMutation, useQuery } from '@tanstack/react-query'
import { Pencil, RefreshCw, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { useDetails } from '../../lib/details.ts'
import { api, unwrap } from '../../session/api.ts'
import { serviceAccountsQuery } from '../../session/lists.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Facts, Notice } from '../../ui/display/layout.tsx'
import { EmptyState, Loaded } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { ConfirmDialog, Dialog, Sheet } from '../../ui/overlays/overlays.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { AccountForm, type Draft } from './account-form.tsx'
import { type Account, refreshAccounts } from './data.ts'
import { RotateKey } from './rotate-key.tsx'
import { Snippets } from './snippets.tsx'
import { State } from './state.tsx'
import { t } from './texts.ts'

/** The details of the account in the URL. */
export function AccountSheet() {
  const { id, shownId, close } = useDetails('service-accounts')
  const accounts = useQuery(serviceAccountsQuery)
  const found = accounts.data?.find((account) => account.id === shownId)
  return (
    <Sheet isOpen={id !== undefined} onClose={close} title={found?.name ?? t.account}>
      <Loaded query={accounts}>
        {() =>
          found ? (
            <Details key={found.id} account={found} onDeleted={close} />
          ) : (
            <EmptyState title={t.missing} text={t.missingText} />
          )
        }
      </Loaded>
    </Sheet>
  )
}

function Details({ account, onDeleted }: { account: Account; onDeleted: () => void }) {
  const [asks, setAsks] = useState<'edit' | 'rotate' | 'delete' | 'end'>()
  const stopAsking = () => setAsks(undefined)
  return (
    <div className="grid gap-5">
      <Facts
        facts={[
          [t.state, <State key="state" account={account} />],
          [t.role, t.roles[account.role]],
          [
            t.key,
            <span key="key" className="mono">
              …{account.key_last4}
            </span>,
          ],
          [t.keyCreated, <Time key="key-created" at={account.key_created_at} />],
          [t.lastUsed, <Ago key="used" at={account.last_used_at} />],
          [t.expires, <Time key="expires" at={account.expires_at} />],
          [t.inAuditLog, `service-account:${account.name}`],
          [t.createdBy, account.created_by],
          [t.created, <Time key="created" at={account.created_at} />],
        ]}
      />
      {account.previous_key && (
        <Notice tone="wait" icon={RefreshCw}>
          <p>
            {t.previousKey(account.previous_key.last4)} <Time at={account.previous_key.expires_at} />
          </p>
          <p>
            {account.previous_key.last_used_at ? (
              <>
                {t.previousUsed} <Ago at={account.previous_key.last_used_at} />
              </>
            ) : (
              t.previousUnused
            )}
          </p>
          <button type="button" className="font-[550] underline" onClick={() => setAsks('end')}>
            {t.endPrevious}
          </button>
        </Notice>
      )}
      <Snippets keyText={`sk_…${account.key_last4}`} />
      <div className="flex flex-wrap gap-2 border-t border-line pt-4">
        <Button icon={Pencil} onClick={() => setAsks('edit')}>
          {t.edit}
        </Button>
        <Button icon={RefreshCw} onClick={() => setAsks('rotate')}>
          {t.rotate}
        </Button>
        <Button icon={Trash2} className="text-danger" onClick={() => setAsks('delete')}>
          {t.delete}
        </Button>
      </div>
      <Dialog isWide isOpen={asks === 'edit'} onClose={stopAsking} title={t.editTitle}>
        <EditForm account={account} onDone={stopAsking} />
      </Dialog>
      <RotateKey account={account} isOpen={asks === 'rotate'} onClose={stopAsking} />
      <EndPrevious account={account} isOpen={asks === 'end'} onClose={stopAsking} />
      {asks === 'delete' && <DeleteAccount account={account} onClose={stopAsking} onDeleted={onDeleted} />}
    </div>
  )
}

function EditForm({ account, onDone }: { account: Account; onDone: () => void }) {
  const { id, name, role, expires_at } = account
  const change = (draft: Draft) => {
    // An expiry in the past can't be set again, so one that stays the same isn't sent.
    const { expires_at: next, ...rest } = draft
    const body = next === expires_at ? rest : draft
    return unwrap(api.PATCH('/service-accounts/{id}', { params: { path: { id } }, body }))
  }
  const undo = () =>
    void unwrap(
      api.PATCH('/service-accounts/{id}', { params: { path: { id } }, body: { name, role, expires_at } }),
    ).then(refreshAccounts, (error) => notifyError(t.notUndone, error))
  const save = useMutation({
    mutationFn: change,
    async onSuccess() {
      await refreshAccounts()
      onDone()
      notify(t.saved, { undo })
    },
  })
  return (
    <AccountForm
      initial={{ name, role, expires_at }}
      action={t.save}
      isPending={save.isPending}
      error={save.error}
      onSubmit={(draft) => save.mutate(draft)}
      onCancel={onDone}
    />
  )
}

function EndPrevious({ account, isOpen, onClose }: { account: Account; isOpen: boolean; onClose: () => void }) {
  const end = useMutation({
    mutationFn: () =>
      unwrap(api.DELETE('/service-accounts/{id}/previous-key', { params: { path: { id: account.id } } })),
    async onSuccess() {
      onClose()
      await refreshAccounts()
      notify(t.previousEnded)
    },
  })
  return (
    <ConfirmDialog
      isOpen={isOpen}
      onClose={onClose}
      title={t.endTitle}
      text={t.endText}
      action={t.endAction}
      isPending={end.isPending}
      error={end.error}
      onConfirm={() => end.mutate()}
    />
  )
}

function DeleteAccount({
  account: { id, name },
  onClose,
  onDeleted,
}: {
  account: Account
  onClose: () => void
  onDeleted: () => void
}) {
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/service-accounts/{id}', { params: { path: { id } } })),
    async onSuccess() {
      onDeleted()
      notify(t.deleted(name))
      await refreshAccounts()
    },
  })
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={t.deleteTitle(name)}
      text={t.deleteText}
      action={t.delete}
      typed={name}
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
    />
  )
}
