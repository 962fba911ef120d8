import type { components } from '@inlay/client'
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { ApiError, api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input, Textarea } from '../../ui/controls/form.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { TestSteps } from '../../ui/display/test-steps.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { type Config, type Settings, saveConfig, undoTo } from './config.ts'
import { t } from './texts.ts'
import type { VendorInfo } from './vendors.ts'

/** Domains are often copied from the address bar. */
const tidyDomain = (text: string) =>
  text
    .trimStart()
    .replace(/^https?:\/\//i, '')
    .replace(/\/+$/, '')

const linesOf = (text: string) => [...new Set(text.split(/[\s,]+/).filter(Boolean))]

/** The message about one field, if the server refused it. */
const problemOf = (error: Error | null, field: keyof Settings): string | undefined =>
  error instanceof ApiError && String(error.data.field ?? '').startsWith(field)
    ? String(error.data.details ?? error.message)
    : undefined

const fields: (keyof Settings)[] = ['idp_type', 'idp_domain', 'idp_issuer', 'allowed_audiences']

/** The fields that the vendor needs, with a test that saves nothing. */
export function ProviderForm({ vendor, config }: { vendor: VendorInfo; config: Config }) {
  const isCurrent = config.idp_type === vendor.id
  const [domain, setDomain] = useState((isCurrent && config.idp_domain) || '')
  const [issuer, setIssuer] = useState((isCurrent && config.idp_issuer) || '')
  const [audiences, setAudiences] = useState((isCurrent && config.allowed_audiences?.join('\n')) || '')
  const isCustom = vendor.id === 'custom_oidc'
  const allowed = linesOf(audiences)
  const settings: Settings = {
    idp_type: vendor.id,
    idp_domain: isCustom ? null : domain.trim() || null,
    idp_issuer: isCustom ? issuer.trim() || null : null,
    allowed_audiences: allowed.length > 0 ? allowed : null,
  }
  const test = useMutation({
    mutationFn: () => unwrap(api.POST('/identity-providers/test', { body: { ...settings, idp_type: vendor.id } })),
  })
  const save = useMutation({
    async mutationFn() {
      await saveConfig(settings)
      // As it was in this click: the page may already show the new one when this resolves.
      return config
    },
    onSuccess: (before) => notify(t.saved(vendor.name), { text: t.savedText, undo: () => undoTo(before) }),
  })
  const error = test.error ?? save.error
  const isFieldError = fields.some((field) => problemOf(error, field))
  const expected = isCustom ? settings.idp_issuer : vendor.issuer(domain.trim())
  const isExpected = isCustom || domain.trim() !== '' || vendor.isDomainOptional

  function change(set: (text: string) => void, text: string) {
    set(text)
    test.reset()
    save.reset()
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    test.reset()
    if (!save.isPending) save.mutate()
  }
  function runTest() {
    save.reset()
    if (!test.isPending) test.mutate()
  }
  return (
    <form onSubmit={submit} className="grid content-start gap-4" aria-label={t.here}>
      <h3 className="-mb-2 font-semibold">{t.here}</h3>
      {isCustom ? (
        <Field label={t.issuerLabel} hint={t.issuerHint} error={problemOf(error, 'idp_issuer')}>
          <Input
            type="url"
            className="mono"
            value={issuer}
            onChange={(event) => change(setIssuer, event.target.value)}
            placeholder="https://login.example.com/realms/acme"
            required
            maxLength={500}
            autoComplete="off"
            spellCheck={false}
          />
        </Field>
      ) : (
        <Field
          label={vendor.domain ?? ''}
          isOptional={vendor.isDomainOptional ?? false}
          hint={isExpected && expected ? t.expects(expected) : undefined}
          error={problemOf(error, 'idp_domain')}
        >
          <Input
            className="mono"
            value={domain}
            onChange={(event) => change(setDomain, tidyDomain(event.target.value))}
            placeholder={vendor.domainExample}
            required={!vendor.isDomainOptional}
            maxLength={255}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
          />
        </Field>
      )}
      <Field
        label={vendor.audience}
        isOptional={vendor.isAudienceOptional ?? false}
        hint={allowed.length > 0 || vendor.isAudienceOptional ? t.audienceHint : t.noAudience}
        error={problemOf(error, 'allowed_audiences')}
      >
        <Textarea
          className="mono"
          rows={Math.min(Math.max(allowed.length, 1), 6)}
          value={audiences}
          onChange={(event) => change(setAudiences, event.target.value)}
          placeholder={vendor.audienceExample}
          autoComplete="off"
          spellCheck={false}
        />
      </Field>
      <div aria-live="polite">
        {test.isPending && <p className="text-sm text-muted">{t.testing}</p>}
        {test.data && <TestResult result={test.data} issuer={expected ?? ''} />}
      </div>
      {!isFieldError && <FormError error={error} />}
      <FormActions>
        <Button isPending={test.isPending} onClick={runTest}>
          {t.test}
        </Button>
        <Button type="submit" variant="primary" isPending={save.isPending}>
          {t.save}
        </Button>
      </FormActions>
    </form>
  )
}

type Result = components['schemas']['IdentityProviderTest']

function TestResult({ result: { success, error, steps = [] }, issuer }: { result: Result; issuer: string }) {
  const document = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const hasPassed = success && steps.every(({ status }) => status === 'ok')
  return (
    <section aria-label={t.result}>
      <Notice tone={hasPassed ? 'good' : 'bad'}>
        <p className="font-[550]">{hasPassed ? t.ok : t.failed}</p>
        {steps.length === 0 && error && <p className="wrap-anywhere">{error}</p>}
      </Notice>
      <TestSteps steps={steps} names={t.steps} />
      <p className="mt-3 text-sm text-muted">{hasPassed ? t.unsavedTest : t.tips}</p>
      {!success && /^https?:\/\//.test(document) && (
        <p className="mt-1 text-sm">
          <a href={document} target="_blank" rel="noopener noreferrer" className="link">
            {t.tryDocument}
          </a>
        </p>
      )}
    </section>
  )
}
