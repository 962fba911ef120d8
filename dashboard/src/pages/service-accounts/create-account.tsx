import { useMutation } from '@tanstack/react-query'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { FullKey } from '../../ui/display/code.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { AccountForm, type Draft } from './account-form.tsx'
import { refreshAccounts } from './data.ts'
import { Snippets } from './snippets.tsx'
import { t } from './texts.ts'

/** The form for a new account. Then it shows the key and how to use it. */
export function CreateAccount({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const create = useMutation({
    mutationFn: (body: Draft) => unwrap(api.POST('/service-accounts', { body })),
    onSuccess: refreshAccounts,
  })
  function close() {
    onClose()
    create.reset()
  }
  const { data: created } = create
  return (
    <Dialog
      isWide
      isOpen={isOpen}
      onClose={close}
      title={created ? t.createdTitle(created.name) : t.createTitle}
      text={created ? t.keyText : t.createText}
    >
      {created ? (
        <NewKey keyText={created.key} onDone={close} />
      ) : (
        <AccountForm
          initial={{ name: '', role: 'member', expires_at: null }}
          action={t.create}
          isPending={create.isPending}
          error={create.error}
          onSubmit={(draft) => create.mutate(draft)}
          onCancel={close}
        />
      )}
    </Dialog>
  )
}

/** A key that is shown this once, and how to use it. */
export function NewKey({ keyText, onDone }: { keyText: string; onDone: () => void }) {
  return (
    <div className="grid gap-5">
      <FullKey text={keyText} copy={t.copyKey} note={t.keyOnce} />
      <Snippets keyText={keyText} />
      <FormActions>
        <Button variant="primary" onClick={onDone}>
          {t.done}
        </Button>
      </FormActions>
    </div>
  )
}
