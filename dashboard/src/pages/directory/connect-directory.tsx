import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input, Select } from '../../ui/controls/form.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { NewToken } from './new-token.tsx'
import { type Directory, directoriesQuery } from './queries.ts'
import { t } from './texts.ts'

type Type = Directory['type']

/** Asks for the directory's name, then shows what to enter there. */
export function ConnectDirectory({ onClose }: { onClose: () => void }) {
  const queryClient = useQueryClient()
  const [name, setName] = useState('')
  const [type, setType] = useState<Type>('okta')
  const [domain, setDomain] = useState('')
  const create = useMutation({
    mutationFn: () => unwrap(api.POST('/directories', { body: { name: name.trim(), type, domain: domain.trim() } })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: directoriesQuery.queryKey }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!create.isPending) create.mutate()
  }
  if (create.data) {
    const { scim_base_url, bearer_token } = create.data
    return <NewToken text={t.tokenText} baseUrl={scim_base_url} token={bearer_token} onClose={onClose} />
  }
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field label={t.name} hint={t.nameHint} error={fieldProblem(create.error, 'name')}>
        <Input value={name} required maxLength={100} onChange={({ target }) => setName(target.value)} />
      </Field>
      <Field label={t.type}>
        <Select value={type} options={Object.entries(t.types) as [Type, string][]} onValue={setType} />
      </Field>
      <Field label={t.domain} hint={t.domainHint} error={fieldProblem(create.error, 'domain')}>
        <Input
          value={domain}
          required
          maxLength={253}
          spellCheck={false}
          autoComplete="off"
          onChange={({ target }) => setDomain(target.value)}
        />
      </Field>
      <FormError error={create.error} />
      <FormActions>
        <Button onClick={onClose}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={create.isPending}>
          {t.connect}
        </Button>
      </FormActions>
    </form>
  )
}
