import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleCheck, CircleX, ShieldCheck, ShieldOff, TriangleAlert, Zap } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { formatDuration } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input, Switch } from '../../ui/controls/form.tsx'
import { Badge, Facts, Notice, PageHeader, Section } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { UnsavedBar } from '../../ui/overlays/unsaved.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'

type Provider = components['schemas']['GovernanceProvider']
type Config = NonNullable<Provider['config']>
type TestResult = components['schemas']['GovernanceTest']

const governanceQuery = read(['governance'], (signal) => api.GET('/governance/providers/config', { signal }))

export default function Governance() {
  const { isAdmin } = useOrganization()
  const provider = useQuery(governanceQuery)
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {!isAdmin && <Notice>{words.adminsOnly}</Notice>}
      <Loaded query={provider} lines={6}>
        {(data) => (
          <div className="grid gap-3">
            <State provider={data} />
            {isAdmin && <ConnectionForm key={data.config?.created_at} provider={data} />}
            {isAdmin && data.config && <Removal config={data.config} />}
          </div>
        )}
      </Loaded>
    </>
  )
}

const states = {
  active: { icon: ShieldCheck, tone: 'good', color: 'bg-accent-soft text-accent' },
  bypassed: { icon: ShieldOff, tone: 'plain', color: 'bg-sunken text-muted' },
  misconfigured: { icon: TriangleAlert, tone: 'bad', color: 'bg-danger-soft text-danger' },
} as const

function State({ provider: { effective_status, reason, config } }: { provider: Provider }) {
  const { icon: Icon, tone, color } = states[effective_status]
  return (
    <section className="card flex flex-wrap items-start gap-4 p-4" aria-label={t.state}>
      <span className={`grid size-10 shrink-0 place-items-center rounded-control ${color}`}>
        <Icon size={20} strokeWidth={1.5} aria-hidden />
      </span>
      <div className="min-w-0 flex-1">
        <h2 className="flex flex-wrap items-center gap-2 font-semibold">
          {t.states[effective_status]} <Badge tone={tone}>{t.badges[effective_status]}</Badge>
        </h2>
        <p className="text-muted">{reason}</p>
        {config && (
          <div className="mt-3">
            <Facts
              facts={[
                [t.name, config.interceptor_name || words.none],
                [t.url, config.interceptor_url || words.none],
                [t.key, config.has_api_key ? `••••${config.api_key_last4}` : words.none],
                [
                  t.lastTest,
                  config.last_test_at ? (
                    <span key="test">
                      {t.results[config.last_test_status || 'failure']} · <Time at={config.last_test_at} />
                    </span>
                  ) : (
                    words.never
                  ),
                ],
              ]}
            />
          </div>
        )}
      </div>
    </section>
  )
}

const toFields = (config: Config | null) => ({
  name: config?.interceptor_name ?? '',
  url: config?.interceptor_url ?? '',
  key: '',
  isEnabled: config?.is_enabled ?? false,
})

function ConnectionForm({ provider: { config } }: { provider: Provider }) {
  const queryClient = useQueryClient()
  const [fields, setFields] = useState(() => toFields(config))
  const saved = toFields(config)
  const isDirty = JSON.stringify(fields) !== JSON.stringify(saved)
  const hasNewHost =
    config !== null &&
    config.interceptor_url !== '' &&
    URL.parse(fields.url.trim())?.origin !== URL.parse(config.interceptor_url)?.origin
  const connection = {
    ...(fields.name !== saved.name && { interceptor_name: fields.name.trim() }),
    ...(fields.url !== saved.url && { interceptor_url: fields.url.trim() }),
    ...(fields.key && { api_key: fields.key }),
  }
  const save = useMutation({
    mutationFn() {
      const body = {
        ...(config === null && { provider_key: 'byo' as const }),
        ...connection,
        ...(fields.isEnabled !== saved.isEnabled && { is_enabled: fields.isEnabled }),
      }
      return unwrap(api.PATCH('/governance/providers/config', { body }))
    },
    onSuccess(next) {
      queryClient.setQueryData(governanceQuery.queryKey, next)
      setFields(toFields(next.config))
      notify(t.saved)
    },
  })
  const test = useMutation({
    mutationFn: () => unwrap(api.POST('/governance/providers/test', { body: connection })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: governanceQuery.queryKey }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!save.isPending) save.mutate()
  }
  const change = (changes: Partial<typeof fields>) => {
    save.reset()
    setFields((known) => ({ ...known, ...changes }))
  }
  const problem = (field: string) => fieldProblem(save.error ?? test.error, field)
  return (
    <form onSubmit={submit} aria-label={t.connection}>
      <Section
        title={t.connection}
        text={t.connectionText}
        actions={
          <Button icon={Zap} isPending={test.isPending} disabled={!fields.url} onClick={() => test.mutate()}>
            {t.test}
          </Button>
        }
      >
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={t.name} error={problem('interceptor_name')}>
            <Input
              value={fields.name}
              required
              maxLength={200}
              placeholder={t.nameExample}
              onChange={({ target }) => change({ name: target.value })}
            />
          </Field>
          <Field label={t.url} hint={t.urlHint} error={problem('interceptor_url')}>
            <Input
              value={fields.url}
              required
              inputMode="url"
              maxLength={2000}
              spellCheck={false}
              placeholder="https://governance.example.com/validate"
              className="mono"
              onChange={({ target }) => change({ url: target.value })}
            />
          </Field>
          <Field
            label={t.key}
            error={problem('api_key')}
            hint={
              hasNewHost
                ? t.keyNewHost
                : config?.has_api_key && !fields.key
                  ? t.keyKept(config.api_key_last4)
                  : t.keyNew
            }
          >
            <Input
              type="password"
              value={fields.key}
              required={!config?.has_api_key || hasNewHost}
              minLength={8}
              maxLength={2000}
              autoComplete="off"
              placeholder={config?.has_api_key ? `••••••••${config.api_key_last4}` : ''}
              className="mono"
              onChange={({ target }) => change({ key: target.value })}
            />
          </Field>
          <div className="self-center">
            <Switch
              label={t.enable}
              hint={t.enableHint}
              checked={fields.isEnabled}
              onChecked={(isEnabled) => change({ isEnabled })}
            />
          </div>
        </div>
        <div className="mt-3 grid gap-3">
          <FormError error={test.error} />
          {test.data && !test.isPending && <Result result={test.data} />}
        </div>
      </Section>
      <UnsavedBar
        isDirty={isDirty}
        isPending={save.isPending}
        error={save.error}
        onDiscard={() => {
          save.reset()
          setFields(saved)
        }}
      />
    </form>
  )
}

function Result({ result: { status, message, violations, latency_ms } }: { result: TestResult }) {
  const tone = status === 'success' ? 'good' : status === 'notify' ? 'wait' : 'bad'
  return (
    <div role="status">
      <Notice tone={tone} icon={status === 'failure' ? CircleX : CircleCheck}>
        <p className="font-[550]">
          {t.results[status]} · {formatDuration(latency_ms)}
        </p>
        <p className="wrap-anywhere">{message}</p>
        {violations.length > 0 && (
          <ul className="mt-1 list-disc pl-4">
            {violations.map(({ policy_id, details }) => (
              <li key={policy_id} className="wrap-anywhere">
                <span className="mono">{policy_id}</span> {details}
              </li>
            ))}
          </ul>
        )}
      </Notice>
    </div>
  )
}

function Removal({ config }: { config: Config }) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/governance/providers/config')),
    onSuccess(next) {
      setAsking(false)
      queryClient.setQueryData(governanceQuery.queryKey, next)
      notify(t.removed)
    },
  })
  return (
    <Section
      title={t.removal}
      text={t.removalText}
      actions={<Button onClick={() => setAsking(true)}>{t.remove}</Button>}
    >
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.removeTitle}
        text={t.removeText}
        action={words.remove}
        {...(config.is_enabled && config.interceptor_name && { typed: config.interceptor_name })}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </Section>
  )
}
