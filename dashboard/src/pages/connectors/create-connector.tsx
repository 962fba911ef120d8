import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ChoiceCards } from '../../ui/controls/choice.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input, Select, Switch } from '../../ui/controls/form.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { type Connector, connectorsQuery, wordsOf } from './queries.ts'
import { t } from './texts.ts'

type Kind = Connector['kind']
type Audience = Connector['audience_mode']

const start = {
  name: '',
  url: '',
  clientId: '',
  secret: '',
  hasIdpClient: false,
  idpClientId: '',
  idpSecret: '',
  scopes: '',
}

export function CreateConnector({
  onCancel,
  onCreated,
}: {
  onCancel: () => void
  onCreated: (connector: Connector) => void
}) {
  const queryClient = useQueryClient()
  const [kind, setKind] = useState<Kind>('id_jag')
  const [audience, setAudience] = useState<Audience>('resource')
  const [fields, setFields] = useState(start)
  const isOwn = kind === 'id_jag'
  const create = useMutation({
    mutationFn() {
      const { name, url, clientId, secret, hasIdpClient, idpClientId, idpSecret } = fields
      const scopes = wordsOf(fields.scopes)
      const body = {
        name: name.trim(),
        kind,
        server_url: url.trim(),
        ...(clientId.trim() && { client_id: clientId.trim() }),
        ...(secret && { client_secret: secret }),
        ...(isOwn && hasIdpClient && { idp_client_id: idpClientId.trim(), idp_client_secret: idpSecret }),
        ...(scopes.length > 0 && { scopes }),
        audience_mode: isOwn ? audience : ('resource' as const),
      }
      return unwrap(api.POST('/connectors', { body }))
    },
    async onSuccess(connector) {
      await queryClient.invalidateQueries({ queryKey: connectorsQuery.queryKey })
      notify(t.created(connector.name))
      onCreated(connector)
    },
  })
  const change = (changes: Partial<typeof start>) => setFields((known) => ({ ...known, ...changes }))
  const problem = (field: string) => fieldProblem(create.error, field)
  const badName = fields.name !== '' && !/^[a-z0-9][a-z0-9-]{0,31}$/.test(fields.name.trim()) ? t.badName : undefined
  const badUrl = fields.url !== '' && !/^https?:\/\/[^\s?#]+$/.test(fields.url.trim()) ? t.badUrl : undefined
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!badName && !badUrl && !create.isPending) create.mutate()
  }
  return (
    <form onSubmit={submit} className="grid gap-4">
      <ChoiceCards
        label={t.kind}
        value={kind}
        onValue={setKind}
        options={(['id_jag', 'oauth'] as const).map((value) => ({
          value,
          name: t.kinds[value],
          text: t.kindTexts[value],
        }))}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label={t.name} hint={t.nameHint(fields.name.trim())} error={badName ?? problem('name')}>
          <Input
            value={fields.name}
            required
            maxLength={32}
            spellCheck={false}
            autoComplete="off"
            className="mono"
            onChange={({ target }) => change({ name: target.value })}
          />
        </Field>
        <Field label={t.url} hint={t.urlHint} error={badUrl ?? problem('server_url')}>
          <Input
            value={fields.url}
            required
            inputMode="url"
            maxLength={2000}
            spellCheck={false}
            placeholder="https://tools.example.com/mcp"
            className="mono"
            onChange={({ target }) => change({ url: target.value })}
          />
        </Field>
        <Field label={t.clientId} hint={t.clientIdHint[kind]} isOptional={!isOwn} error={problem('client_id')}>
          <Input
            value={fields.clientId}
            required={isOwn}
            maxLength={255}
            spellCheck={false}
            autoComplete="off"
            className="mono"
            onChange={({ target }) => change({ clientId: target.value })}
          />
        </Field>
        <Field label={t.secret} hint={t.secretNew} isOptional={!isOwn} error={problem('client_secret')}>
          <Input
            type="password"
            value={fields.secret}
            required={isOwn}
            minLength={8}
            maxLength={2000}
            autoComplete="off"
            className="mono"
            onChange={({ target }) => change({ secret: target.value })}
          />
        </Field>
      </div>
      {isOwn && (
        <>
          <Switch
            label={t.idpClient}
            checked={fields.hasIdpClient}
            onChecked={(hasIdpClient) => change({ hasIdpClient })}
          />
          {fields.hasIdpClient && (
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label={t.idpClientId} error={problem('idp_client_id')}>
                <Input
                  value={fields.idpClientId}
                  required
                  maxLength={255}
                  autoComplete="off"
                  className="mono"
                  onChange={({ target }) => change({ idpClientId: target.value })}
                />
              </Field>
              <Field label={t.idpSecret} error={problem('idp_client_secret')}>
                <Input
                  type="password"
                  value={fields.idpSecret}
                  required
                  minLength={8}
                  maxLength={2000}
                  autoComplete="off"
                  className="mono"
                  onChange={({ target }) => change({ idpSecret: target.value })}
                />
              </Field>
            </div>
          )}
        </>
      )}
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label={t.scopes} hint={t.scopesHint[kind]} isOptional error={problem('scopes')}>
          <Input
            value={fields.scopes}
            maxLength={2000}
            spellCheck={false}
            className="mono"
            onChange={({ target }) => change({ scopes: target.value })}
          />
        </Field>
        {isOwn && (
          <Field label={t.audience}>
            <Select
              value={audience}
              options={Object.entries(t.audiences) as [Audience, string][]}
              onValue={setAudience}
            />
          </Field>
        )}
      </div>
      <FormError error={create.error} />
      <FormActions>
        <Button onClick={onCancel}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={create.isPending}>
          {t.add}
        </Button>
      </FormActions>
    </form>
  )
}
