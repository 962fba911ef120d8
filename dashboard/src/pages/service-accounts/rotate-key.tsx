import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Select } from '../../ui/controls/form.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { NewKey } from './create-account.tsx'
import { type Account, refreshAccounts } from './data.ts'
import { t } from './texts.ts'

type Hours = keyof typeof t.overlaps

/** Asks how long the old key shall work, then shows the new one. */
export function RotateKey({ account, isOpen, onClose }: { account: Account; isOpen: boolean; onClose: () => void }) {
  const [hours, setHours] = useState<Hours>('24')
  const rotate = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/service-accounts/{id}/rotate', {
          params: { path: { id: account.id } },
          body: { overlap_hours: Number(hours) },
        }),
      ),
    onSuccess: refreshAccounts,
  })
  function close() {
    onClose()
    rotate.reset()
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!rotate.isPending) rotate.mutate()
  }
  return (
    <Dialog
      isWide
      isOpen={isOpen}
      onClose={close}
      title={rotate.data ? t.rotatedTitle(account.name) : t.rotateTitle(account.name)}
      text={rotate.data ? t.rotatedText(hours !== '0') : t.rotateText}
    >
      {rotate.data ? (
        <NewKey keyText={rotate.data.key} onDone={close} />
      ) : (
        <form onSubmit={submit} className="grid gap-4">
          {account.previous_key && <Notice tone="wait">{t.rotatesAgain(account.previous_key.last4)}</Notice>}
          <Field label={t.overlap} hint={t.overlapHint}>
            <Select value={hours} options={overlaps} onValue={setHours} />
          </Field>
          <FormError error={rotate.error} />
          <FormActions>
            <Button onClick={close}>{words.cancel}</Button>
            <Button type="submit" variant="primary" isPending={rotate.isPending}>
              {t.rotate}
            </Button>
          </FormActions>
        </form>
      )}
    </Dialog>
  )
}

const overlaps = Object.entries(t.overlaps) as [Hours, string][]
