import { useMutation, useQueryClient } from '@tanstack/react-query'
import { ExternalLink, Trash2, Zap } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button, buttonClass, CopyButton } from '../../ui/controls/button.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input, Select, Switch, Textarea } from '../../ui/controls/form.tsx'
import { Badge, Facts, Notice } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { TestSteps } from '../../ui/display/test-steps.tsx'
import { Time } from '../../ui/display/time.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { Removal } from '../../ui/overlays/removal.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { LeaveGuard } from '../../ui/overlays/unsaved.tsx'
import { words } from '../../ui/words.ts'
import { type Connector, connectorsQuery, linesOf, wordsOf } from './queries.ts'
import { t } from './texts.ts'

export function ConnectorDetails({
  connector,
  isAdmin,
  onDeleted,
}: {
  connector: Connector
  isAdmin: boolean
  onDeleted: () => void
}) {
  const { id, name, kind, server_url, client_id, status, updated_at } = connector
  return (
    <div className="grid gap-6">
      <Facts
        facts={[
          [
            t.status,
            <Badge key="status" tone={status === 'active' ? 'good' : 'plain'}>
              {t[status]}
            </Badge>,
          ],
          [t.kind, t.kinds[kind]],
          [t.url, server_url],
          [t.clientId, client_id ?? words.none],
          [t.changed, <Time key="time" at={updated_at} />],
        ]}
      />
      <UserSteps connector={connector} />
      {isAdmin && (
        <>
          <Test connector={connector} />
          <EditForm key={updated_at} connector={connector} />
          <Removal
            name={name}
            label={t.delete}
            icon={Trash2}
            title={t.deleteTitle(name)}
            text={t.deleteText}
            removed={t.deleted(name)}
            remove={() => unwrap(api.DELETE('/connectors/{id}', { params: { path: { id } } }))}
            list={connectorsQuery.queryKey}
            onRemoved={onDeleted}
          />
        </>
      )}
    </div>
  )
}

function UserSteps({ connector: { id, kind } }: { connector: Connector }) {
  const link = `${location.origin}/connect/${id}`
  return (
    <section aria-label={t.users}>
      <h3 className="font-semibold">{t.users}</h3>
      <p className="text-muted">{kind === 'oauth' ? t.usersOauth : t.usersIdJag}</p>
      {kind === 'oauth' && (
        <div className="mt-2 flex flex-wrap gap-2">
          <CopyButton text={link} label={t.copyLink} />
          <a href={link} target="_blank" rel="noopener noreferrer" className={buttonClass()}>
            <ExternalLink size={16} strokeWidth={1.5} aria-hidden /> {t.openLink}
          </a>
        </div>
      )}
    </section>
  )
}

function Test({ connector: { id } }: { connector: Connector }) {
  const test = useMutation({
    mutationFn: () => unwrap(api.POST('/connectors/{id}/test', { params: { path: { id } } })),
  })
  return (
    <section aria-label={t.test}>
      <div className="flex flex-wrap items-start justify-between gap-2">
        <div className="min-w-0 flex-1">
          <h3 className="font-semibold">{t.test}</h3>
          <p className="text-muted">{t.testText}</p>
        </div>
        <Button icon={Zap} isPending={test.isPending} onClick={() => test.mutate()}>
          {t.test}
        </Button>
      </div>
      <FormError error={test.error} />
      {test.data && !test.isPending && (
        <div role="status" className="mt-3">
          <Notice tone={test.data.success ? 'good' : 'bad'}>{test.data.success ? t.testOk : t.testFailed}</Notice>
          <TestSteps steps={test.data.steps} names={t.steps} />
        </div>
      )}
    </section>
  )
}

type Audience = Connector['audience_mode']

function EditForm({ connector }: { connector: Connector }) {
  const queryClient = useQueryClient()
  const isOwn = connector.kind === 'id_jag'
  const [name, setName] = useState(connector.name)
  const [secret, setSecret] = useState('')
  const [idpSecret, setIdpSecret] = useState('')
  const [scopes, setScopes] = useState(connector.scopes.join(' '))
  const [audience, setAudience] = useState(connector.audience_mode)
  const [readOnly, setReadOnly] = useState(connector.read_only_tools.join('\n'))
  const [isActive, setActive] = useState(connector.status === 'active')
  const isDirty =
    name !== connector.name ||
    secret !== '' ||
    idpSecret !== '' ||
    scopes !== connector.scopes.join(' ') ||
    audience !== connector.audience_mode ||
    readOnly !== connector.read_only_tools.join('\n') ||
    isActive !== (connector.status === 'active')
  const save = useMutation({
    mutationFn() {
      const body = {
        name: name.trim(),
        ...(secret && { client_secret: secret }),
        ...(idpSecret && { idp_client_secret: idpSecret }),
        scopes: wordsOf(scopes),
        ...(isOwn && { audience_mode: audience }),
        read_only_tools: linesOf(readOnly),
        status: isActive ? ('active' as const) : ('disabled' as const),
      }
      return unwrap(api.PATCH('/connectors/{id}', { params: { path: { id: connector.id } }, body }))
    },
    async onSuccess(saved) {
      await queryClient.invalidateQueries({ queryKey: connectorsQuery.queryKey })
      notify(t.saved(saved.name))
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!save.isPending) save.mutate()
  }
  const problem = (field: string) => fieldProblem(save.error, field)
  return (
    <form onSubmit={submit} className="grid gap-4" aria-label={t.settings}>
      <LeaveGuard isDirty={isDirty} />
      <h3 className="font-semibold">{t.settings}</h3>
      <Switch label={t.enabledLabel} hint={t.enabledHint} checked={isActive} onChecked={setActive} />
      <Field label={t.name} hint={t.nameHint(name.trim())} error={problem('name')}>
        <Input value={name} required maxLength={32} className="mono" onChange={({ target }) => setName(target.value)} />
      </Field>
      {connector.client_id && (
        <Field
          label={t.secret}
          error={problem('client_secret')}
          hint={connector.client_secret_last4 ? t.secretKept(connector.client_secret_last4) : t.secretNew}
        >
          <Input
            type="password"
            value={secret}
            minLength={8}
            maxLength={2000}
            autoComplete="off"
            placeholder={connector.client_secret_last4 ? `••••••••${connector.client_secret_last4}` : ''}
            className="mono"
            onChange={({ target }) => setSecret(target.value)}
          />
        </Field>
      )}
      {connector.idp_client_id && (
        <Field
          label={t.idpSecret}
          error={problem('idp_client_secret')}
          hint={t.secretKept(connector.idp_client_secret_last4 ?? '')}
        >
          <Input
            type="password"
            value={idpSecret}
            minLength={8}
            maxLength={2000}
            autoComplete="off"
            className="mono"
            onChange={({ target }) => setIdpSecret(target.value)}
          />
        </Field>
      )}
      <Field label={t.scopes} hint={t.scopesHint[connector.kind]} error={problem('scopes')}>
        <Input value={scopes} maxLength={2000} className="mono" onChange={({ target }) => setScopes(target.value)} />
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
      <Field label={t.readOnly} hint={t.readOnlyHint} isOptional error={problem('read_only_tools')}>
        <Textarea
          value={readOnly}
          rows={3}
          spellCheck={false}
          className="mono"
          onChange={({ target }) => setReadOnly(target.value)}
        />
      </Field>
      <FormError error={save.error} />
      <FormActions>
        <Button type="submit" variant="primary" isPending={save.isPending}>
          {words.save}
        </Button>
      </FormActions>
    </form>
  )
}
