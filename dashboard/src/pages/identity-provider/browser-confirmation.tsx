import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Trash2 } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input } from '../../ui/controls/form.tsx'
import { CodeBlock } from '../../ui/display/code.tsx'
import { Notice, Section } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { frameSignInQuery } from './config.ts'
import { t } from './texts.ts'

type FrameSignIn = components['schemas']['FrameSignIn']

export function BrowserConfirmation() {
  const signIn = useQuery(frameSignInQuery)
  return (
    <Section title={t.confirmTitle} text={t.confirmText}>
      <Loaded query={signIn} lines={5}>
        {({ is_active, reason, redirect_uri, client }) => (
          <>
            <Notice tone={is_active ? 'good' : 'wait'}>
              {is_active ? t.confirmActive : client ? reason : t.confirmMissing}
            </Notice>
            <div className="grid gap-6">
              <div className="grid gap-1">
                <CodeBlock label={t.redirectUri} code={redirect_uri} isWrapped />
                <p className="text-sm text-muted">{t.redirectUriHint}</p>
              </div>
              <ClientForm key={client?.updated_at} client={client} />
            </div>
          </>
        )}
      </Loaded>
    </Section>
  )
}

function ClientForm({ client }: { client: FrameSignIn['client'] }) {
  const queries = useQueryClient()
  const [isRemoving, setRemoving] = useState(false)
  const [clientId, setClientId] = useState(client?.client_id ?? '')
  const [secret, setSecret] = useState('')
  const keep = (message: string) => (next: FrameSignIn) => {
    queries.setQueryData(frameSignInQuery.queryKey, next)
    setRemoving(false)
    notify(message)
  }
  const save = useMutation({
    mutationFn() {
      const body = { client_id: clientId.trim(), ...(secret && { client_secret: secret }) }
      return unwrap(api.PUT('/identity-providers/frame-sign-in', { body }))
    },
    onSuccess: keep(t.clientSaved),
  })
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/identity-providers/frame-sign-in')),
    onSuccess: keep(t.clientRemoved),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!save.isPending) save.mutate()
  }
  const last4 = client?.client_secret_last4
  return (
    <form onSubmit={submit} aria-label={t.confirmTitle} className="grid max-w-lg gap-3">
      <Field label={t.clientId} error={fieldProblem(save.error, 'client_id')}>
        <Input required maxLength={255} value={clientId} onChange={({ target }) => setClientId(target.value)} />
      </Field>
      <Field
        label={t.clientSecret}
        hint={last4 ? t.storedSecret(last4) : t.newSecret}
        error={fieldProblem(save.error, 'client_secret')}
      >
        <Input
          type="password"
          autoComplete="off"
          maxLength={2000}
          value={secret}
          onChange={({ target }) => setSecret(target.value)}
        />
      </Field>
      <FormError error={save.error} />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" variant="primary" isPending={save.isPending}>
          {t.saveClient}
        </Button>
        {client && (
          <Button variant="danger" icon={Trash2} onClick={() => setRemoving(true)}>
            {t.removeClient}
          </Button>
        )}
      </div>
      <ConfirmDialog
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        title={t.removeClientTitle}
        text={t.removeClientText}
        action={t.removeClient}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </form>
  )
}
