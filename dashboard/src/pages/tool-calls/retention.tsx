import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Archive } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, read, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'

const settingsQuery = read(['tool-calls', 'settings'], (signal) => api.GET('/tool-calls/settings', { signal }))

/** Says how long arguments and results are kept, and lets admins change it. */
export function Retention() {
  const { data } = useQuery(settingsQuery)
  const [isOpen, setOpen] = useState(false)
  if (!data) return null
  const { contents_days: days } = data
  return (
    <>
      <Notice icon={Archive}>
        {days === 0 ? t.keptNever : t.keptFor(days)}{' '}
        <button type="button" className="link underline" onClick={() => setOpen(true)}>
          {t.change}
        </button>
      </Notice>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title={t.retentionTitle} text={t.retentionText}>
        <RetentionForm days={days} onDone={() => setOpen(false)} />
      </Dialog>
    </>
  )
}

function RetentionForm({ days, onDone }: { days: number; onDone: () => void }) {
  const queries = useQueryClient()
  const [text, setText] = useState(String(days))
  const next = /^\d{1,3}$/.test(text.trim()) ? Number(text) : Number.NaN
  const isValid = next >= 0 && next <= 365
  const save = useMutation({
    mutationFn: () => unwrap(api.PATCH('/tool-calls/settings', { body: { contents_days: next } })),
    onSuccess() {
      notify(t.saved)
      onDone()
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ['tool-calls'] }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (isValid && !save.isPending) save.mutate()
  }
  return (
    <form onSubmit={submit} className="grid gap-3">
      <Field label={t.days} hint={t.daysHint} error={isValid ? undefined : t.daysWrong}>
        <Input value={text} inputMode="numeric" onChange={({ target }) => setText(target.value)} />
      </Field>
      <FormError error={save.error} />
      <FormActions>
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={save.isPending} disabled={!isValid}>
          {t.save}
        </Button>
      </FormActions>
    </form>
  )
}
