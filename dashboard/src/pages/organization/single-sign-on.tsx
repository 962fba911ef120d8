import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Trash2 } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, read, unwrap } from '../../session/api.ts'
import { Button, IconButton } from '../../ui/controls/button.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input, Switch } from '../../ui/controls/form.tsx'
import { CodeBlock } from '../../ui/display/code.tsx'
import { Badge, Notice, Section } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './single-sign-on-texts.ts'

type SignIn = components['schemas']['OrganizationSignIn']
type Domain = components['schemas']['SignInDomain']

const signInQuery = read(['organization-sign-in'], (signal) => api.GET('/organizations/current/sign-in', { signal }))

export function SingleSignOn() {
  const signIn = useQuery(signInQuery)
  return (
    <Section title={t.title} text={t.text}>
      <Loaded query={signIn} lines={5}>
        {(data) => (
          <div className="grid gap-6">
            <Notice tone={data.reason ? 'wait' : 'good'}>{data.reason ?? t.active}</Notice>
            <div className="grid gap-1">
              <CodeBlock label={t.redirectUri} code={data.redirect_uri} isWrapped />
              <p className="text-muted">{t.redirectUriHint}</p>
            </div>
            <ProviderForm key={data.provider?.updated_at} provider={data.provider} />
            <Domains domains={data.domains} />
          </div>
        )}
      </Loaded>
    </Section>
  )
}

function ProviderForm({ provider }: { provider: SignIn['provider'] }) {
  const queries = useQueryClient()
  const [isRemoving, setRemoving] = useState(false)
  const [fields, setFields] = useState({
    issuer: provider?.issuer ?? '',
    client_id: provider?.client_id ?? '',
    client_secret: '',
    joins_on_first_sign_in: provider?.joins_on_first_sign_in ?? false,
  })
  const change = (changes: Partial<typeof fields>) => setFields((known) => ({ ...known, ...changes }))
  const keep = (message: string) => (next: SignIn) => {
    queries.setQueryData(signInQuery.queryKey, next)
    setRemoving(false)
    notify(message)
  }
  const save = useMutation({
    mutationFn() {
      const { client_secret, ...rest } = fields
      const body = { ...rest, ...(client_secret && { client_secret }) }
      return unwrap(api.PUT('/organizations/current/sign-in', { body }))
    },
    onSuccess: keep(t.saved),
  })
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/organizations/current/sign-in')),
    onSuccess: keep(t.removed),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!save.isPending) save.mutate()
  }
  const last4 = provider?.client_secret_last4
  return (
    <form onSubmit={submit} aria-label={t.title} className="grid max-w-lg gap-3">
      <Field label={t.issuer} hint={t.issuerHint} error={fieldProblem(save.error, 'issuer')}>
        <Input
          required
          type="url"
          maxLength={500}
          value={fields.issuer}
          onChange={({ target }) => change({ issuer: target.value })}
        />
      </Field>
      <Field label={t.clientId} error={fieldProblem(save.error, 'client_id')}>
        <Input
          required
          maxLength={255}
          value={fields.client_id}
          onChange={({ target }) => change({ client_id: target.value })}
        />
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
          value={fields.client_secret}
          onChange={({ target }) => change({ client_secret: target.value })}
        />
      </Field>
      <Switch
        label={t.joins}
        hint={t.joinsHint}
        checked={fields.joins_on_first_sign_in}
        onChecked={(joins_on_first_sign_in) => change({ joins_on_first_sign_in })}
      />
      <FormError error={save.error} />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" variant="primary" isPending={save.isPending}>
          {t.save}
        </Button>
        {provider && (
          <Button variant="danger" icon={Trash2} onClick={() => setRemoving(true)}>
            {t.remove}
          </Button>
        )}
      </div>
      <ConfirmDialog
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        title={t.removeTitle}
        text={t.removeText}
        action={t.remove}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </form>
  )
}

function Domains({ domains }: { domains: Domain[] }) {
  const queries = useQueryClient()
  const [domain, setDomain] = useState('')
  const add = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations/current/sign-in/domains', { body: { domain: domain.trim() } })),
    async onSuccess() {
      setDomain('')
      await queries.invalidateQueries({ queryKey: signInQuery.queryKey })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!add.isPending) add.mutate()
  }
  return (
    <div className="grid gap-3">
      <h3 className="font-semibold">{t.domains}</h3>
      {domains.length === 0 && <p className="text-muted">{t.noDomains}</p>}
      <ul className="grid gap-4">
        {domains.map((one) => (
          <DomainItem key={one.id} domain={one} />
        ))}
      </ul>
      <form onSubmit={submit} aria-label={t.addDomain} className="grid max-w-lg gap-3">
        <Field label={t.domain} error={fieldProblem(add.error, 'domain')}>
          <Input required maxLength={253} value={domain} onChange={({ target }) => setDomain(target.value)} />
        </Field>
        <FormError error={add.error} />
        <div>
          <Button type="submit" isPending={add.isPending}>
            {t.addDomain}
          </Button>
        </div>
      </form>
    </div>
  )
}

const tones = { pending: 'plain', verified: 'good', missing: 'bad' } as const

function DomainItem({ domain: { id, domain, status, record_name, record_value, problem } }: { domain: Domain }) {
  const queries = useQueryClient()
  const [isRemoving, setRemoving] = useState(false)
  const path = { params: { path: { id } } }
  const refresh = () => queries.invalidateQueries({ queryKey: signInQuery.queryKey })
  const verify = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations/current/sign-in/domains/{id}/verify', path)),
    onSuccess: refresh,
  })
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/organizations/current/sign-in/domains/{id}', path)),
    onSuccess: refresh,
  })
  return (
    <li className="grid gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <span className="font-medium wrap-anywhere">{domain}</span>
        <Badge tone={tones[status]}>{t.statuses[status]}</Badge>
        <Button aria-label={t.verifyOf(domain)} isPending={verify.isPending} onClick={() => verify.mutate()}>
          {t.verify}
        </Button>
        <IconButton icon={Trash2} label={t.removeDomain(domain)} onClick={() => setRemoving(true)} />
      </div>
      {status !== 'verified' && <CodeBlock label={t.record(record_name)} code={record_value} isWrapped />}
      {problem && <p className="text-danger">{problem}</p>}
      <FormError error={verify.error} />
      <ConfirmDialog
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        title={t.removeDomainTitle(domain)}
        text={t.removeDomainText}
        action={words.remove}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </li>
  )
}
