import { useMutation, useQuery } from '@tanstack/react-query'
import { TriangleAlert } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { FullKey } from '../../ui/display/code.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { domainsQuery, refreshKeys } from './data.ts'
import { OriginsField, useOrigins } from './origins/origins-field.tsx'
import { Snippets } from './snippets/snippets.tsx'
import { t } from './texts.ts'

type Created = Awaited<ReturnType<typeof createKey>>

const createKey = (body: { name: string; allowed_origins: string[] }) => unwrap(api.POST('/publishable-keys', { body }))

/** The form for a new key. Then it shows the key and what to do with it. */
export function CreateKey({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [created, setCreated] = useState<Created>()
  function close() {
    onClose()
    setCreated(undefined)
  }
  return (
    <Dialog
      isWide
      isOpen={isOpen}
      onClose={close}
      title={created ? t.createdTitle(created.name) : t.createTitle}
      text={created ? t.createdText : t.createText}
    >
      {created ? (
        <div className="grid gap-5">
          <FullKey text={created.key} copy={t.copyKey} note={created.can_reveal ? t.showAgain : t.showNever} />
          <section aria-label={t.snippet}>
            <h3 className="mb-2 font-semibold">{t.snippet}</h3>
            <Snippets keyText={created.key} />
          </section>
          <FormActions>
            <Button variant="primary" onClick={close}>
              {t.done}
            </Button>
          </FormActions>
        </div>
      ) : (
        <KeyForm onCancel={close} onCreated={setCreated} />
      )}
    </Dialog>
  )
}

function KeyForm({ onCancel, onCreated }: { onCancel: () => void; onCreated: (created: Created) => void }) {
  const [name, setName] = useState('')
  const origins = useOrigins([])
  const domains = useQuery(domainsQuery)
  const create = useMutation({
    mutationFn: createKey,
    onSuccess(created) {
      onCreated(created)
      void refreshKeys()
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    const allowed_origins = origins.finish()
    if (allowed_origins && !create.isPending) create.mutate({ name, allowed_origins })
  }
  const isOpenToAll = origins.origins.length === 0 && origins.draft === ''
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field label={t.name} hint={t.nameHint}>
        <Input
          value={name}
          onChange={(event) => setName(event.target.value)}
          placeholder={t.namePlaceholder}
          required
          maxLength={100}
          autoComplete="off"
        />
      </Field>
      <OriginsField label={t.origins} hint={t.originsHint} value={origins} max={20} isOptional />
      {isOpenToAll && domains.data && (
        <Notice {...(domains.data.allowed_domains.length === 0 && { tone: 'wait' as const, icon: TriangleAlert })}>
          {t.noOrigins(domains.data.allowed_domains.length)}
        </Notice>
      )}
      <FormError error={create.error} />
      <FormActions>
        <Button onClick={onCancel}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={create.isPending}>
          {t.create}
        </Button>
      </FormActions>
    </form>
  )
}
