import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, TriangleAlert } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { useFilters } from '../../lib/filters.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Facts, Notice, PageHeader, Section } from '../../ui/display/layout.tsx'
import { EmptyState, Loaded } from '../../ui/display/states.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { tokenSteps } from '../diagnostics/advice.ts'
import { BrowserConfirmation } from './browser-confirmation.tsx'
import { FormerIssuers } from './carry-over.tsx'
import { type Config, configQuery, nothing, saveConfig, undoTo } from './config.ts'
import { ProviderForm } from './provider-form.tsx'
import { t } from './texts.ts'
import { findVendor, type VendorInfo, vendors } from './vendors.ts'

export default function IdentityProvider() {
  const config = useQuery(configQuery)
  const { isAdmin } = useOrganization()
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      <Loaded query={config} lines={6}>
        {(data) => (
          <div className="grid gap-3">
            <Current config={data} />
            {isAdmin && <SetUpProvider config={data} />}
            {isAdmin && data.idp_type && <FormerIssuers key={JSON.stringify(data)} />}
            {isAdmin && data.idp_type && <BrowserConfirmation />}
            {data.idp_type && <NextSteps />}
            <Refusals />
          </div>
        )}
      </Loaded>
    </>
  )
}

function Current({ config }: { config: Config }) {
  const { isAdmin } = useOrganization()
  const [asks, setAsks] = useState(false)
  const vendor = findVendor(config.idp_type)
  const clear = useMutation({
    async mutationFn() {
      await saveConfig(nothing)
      // As it was in this click: the page may already show the new one when this resolves.
      return config
    },
    onSuccess(before) {
      setAsks(false)
      notify(t.removed, { undo: () => undoTo(before) })
    },
  })
  if (!vendor) {
    return (
      <section className="card" aria-label={t.current}>
        <EmptyState title={t.notSet} text={isAdmin ? t.notSetText : t.notSetMember} />
      </section>
    )
  }
  const isComplete = vendor.id === 'custom_oidc' ? config.idp_issuer : (config.idp_domain ?? vendor.isDomainOptional)
  const issuer = vendor.id === 'custom_oidc' ? config.idp_issuer : vendor.issuer(config.idp_domain ?? '')
  return (
    <Section
      title={t.current}
      actions={
        isAdmin && (
          <Button variant="ghost" onClick={() => setAsks(true)}>
            {t.remove}
          </Button>
        )
      }
    >
      {!isComplete && (
        <Notice tone="wait" icon={TriangleAlert}>
          {t.incompleteText}
        </Notice>
      )}
      <Facts
        facts={[
          [
            t.provider,
            <span key="provider" className="flex flex-wrap items-center gap-2">
              {vendor.name}
              <Badge tone={isComplete ? 'good' : 'wait'}>{isComplete ? t.inUse : t.incomplete}</Badge>
            </span>,
          ],
          [t.issuer, isComplete ? <Mono key="issuer">{issuer}</Mono> : words.none],
          ...(vendor.id === 'google'
            ? [[t.hostedDomain, <Mono key="hosted">{config.idp_domain ?? t.anyAccount}</Mono>] as const]
            : []),
          [
            t.audiences,
            config.allowed_audiences?.length ? (
              <Mono key="audiences">{config.allowed_audiences.join(', ')}</Mono>
            ) : vendor.isAudienceOptional ? (
              <Mono key="audiences">{config.idp_domain}</Mono>
            ) : (
              t.anyAudience
            ),
          ],
        ]}
      />
      {!isAdmin && <p className="mt-3 text-sm text-muted">{words.adminsOnly}</p>}
      <ConfirmDialog
        isOpen={asks}
        onClose={() => setAsks(false)}
        title={t.removeTitle(vendor.name)}
        text={t.removeText}
        action={t.remove}
        isPending={clear.isPending}
        error={clear.error}
        onConfirm={() => clear.mutate()}
      />
    </Section>
  )
}

const Mono = ({ children }: { children: ReactNode }) => <span className="mono wrap-anywhere">{children}</span>

function SetUpProvider({ config }: { config: Config }) {
  const [filters, setFilters] = useFilters({ vendor: config.idp_type ?? '' })
  const vendor = findVendor(filters.vendor)
  return (
    <Section title={t.choose}>
      <div role="radiogroup" aria-label={t.choose} className="grid grid-cols-2 gap-2 sm:grid-cols-3 lg:grid-cols-5">
        {vendors.map(({ id, name }) => (
          <label
            key={id}
            className="relative flex min-h-11 items-center rounded-control border border-line px-3 py-2 hover:border-line-strong has-checked:border-accent has-checked:bg-accent-soft has-checked:font-[550] has-checked:text-accent has-focus-visible:outline-2 has-focus-visible:outline-accent"
          >
            <input
              type="radio"
              name="vendor"
              className="absolute inset-0 cursor-pointer appearance-none rounded-control outline-none"
              checked={vendor?.id === id}
              onChange={() => setFilters({ vendor: id })}
            />
            {name}
          </label>
        ))}
      </div>
      {vendor && (
        <div className="mt-5 grid gap-6 border-t border-line pt-5 lg:grid-cols-2">
          <Guide vendor={vendor} />
          <ProviderForm key={vendor.id} vendor={vendor} config={config} />
        </div>
      )}
    </Section>
  )
}

/** What to do at the vendor. */
function Guide({ vendor }: { vendor: VendorInfo }) {
  const title = vendor.id === 'custom_oidc' ? t.thereOther : t.there(vendor.name)
  return (
    <section aria-label={title}>
      <h3 className="mb-2 font-semibold">{title}</h3>
      <ol className="grid gap-2.5">
        {[...vendor.steps, t.scopes].map((step, index) => (
          <li key={step} className="grid grid-cols-[20px_minmax(0,1fr)] gap-2.5">
            <span
              className="mt-px grid size-[18px] place-items-center rounded-full bg-sunken text-xs text-muted"
              aria-hidden
            >
              {index + 1}
            </span>
            <p className="wrap-anywhere">
              {step.split('*').map((part, at) =>
                at % 2 === 1 ? (
                  <b key={part} className="font-[550]">
                    {part}
                  </b>
                ) : (
                  part
                ),
              )}
            </p>
          </li>
        ))}
      </ol>
      {vendor.note && <p className="mt-3 text-sm text-muted">{vendor.note}</p>}
      {vendor.console && (
        <p className="mt-3">
          <a href={vendor.console} target="_blank" rel="noopener noreferrer" className="link">
            {t.openConsole(vendor.name)}
          </a>
        </p>
      )}
    </section>
  )
}

function NextSteps() {
  const orgPath = useOrgPath()
  const steps = [
    { name: t.nextSnippet, text: t.nextSnippetText, path: 'keys', search: { auth: 'yes' } },
    { name: t.nextDiagnose, text: t.nextDiagnoseText, path: 'diagnostics', search: {} },
  ]
  return (
    <Section title={t.next}>
      <ul className="grid gap-3 sm:grid-cols-2">
        {steps.map(({ name, text, path, search }) => (
          <li key={path}>
            <Link to={orgPath(path)} search={search as never} className="link inline-flex items-center gap-1">
              {name} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
            </Link>
            <p className="text-sm text-muted">{text}</p>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Refusals() {
  return (
    <details className="card p-4">
      <summary className="font-semibold">{t.refusals}</summary>
      <p className="mt-1 mb-3 text-sm text-muted">{t.refusalsText}</p>
      <dl className="grid gap-x-6 gap-y-2 text-sm sm:grid-cols-[auto_minmax(0,1fr)]">
        {tokenSteps.map(([step, text]) => (
          <div key={step} className="contents">
            <dt className="mono">{step}</dt>
            <dd className="text-muted">{text}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}
