import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, TriangleAlert } from 'lucide-react'
import { useFilters } from '../../lib/filters.ts'
import { keysQuery } from '../../session/lists.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input, Select } from '../../ui/controls/form.tsx'
import { Badge, PageHeader, Section } from '../../ui/display/layout.tsx'
import { EmptyState, Loaded } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { words } from '../../ui/words.ts'
import { adviceFor } from './advice.ts'
import { type Refusal, refusalsQuery, warningsQuery } from './data.ts'
import { t } from './texts.ts'
import { Verdict } from './verdict.tsx'

type Surface = keyof typeof t.surfaces
const defaults = { origin: '', key: '', surface: '' }

export default function Diagnostics() {
  const { isAdmin } = useOrganization()
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {isAdmin ? (
        <div className="grid gap-3">
          <Question />
          <Warnings />
          <Refusals />
        </div>
      ) : (
        <div className="card">
          <EmptyState title={t.adminsOnly} text={t.adminsOnlyText} />
        </div>
      )}
    </>
  )
}

/** Asks for the page and the key, and answers from the settings. The same filters apply to what was refused. */
function Question() {
  const [filters, setFilters] = useFilters(defaults)
  const keys = useQuery(keysQuery)
  const refusals = useQuery(refusalsQuery)
  const origins = [...new Set(refusals.data?.flatMap(({ origin }) => origin ?? []))]
  const names = (keys.data ?? []).map(({ id, name, key_prefix }) => [id, `${name} (${key_prefix}…)`] as const)
  return (
    <Section title={t.why} text={t.whyText}>
      <div className="grid gap-3 sm:grid-cols-2 lg:grid-cols-[minmax(0,1fr)_minmax(0,1fr)_auto]">
        <Field label={t.origin}>
          <Input
            className="mono"
            list="refused-origins"
            value={filters.origin}
            onChange={(event) => setFilters({ origin: event.target.value.trim() })}
            placeholder="https://app.example.com"
            autoComplete="off"
            spellCheck={false}
          />
        </Field>
        <datalist id="refused-origins">
          {origins.map((origin) => (
            <option key={origin} value={origin} />
          ))}
        </datalist>
        <Field label={t.key}>
          <Select
            className="w-full"
            value={filters.key}
            options={[['', t.anyKey], ...names]}
            onValue={(key) => setFilters({ key })}
          />
        </Field>
        <Field label={t.surface}>
          <Select
            className="w-full"
            value={filters.surface}
            options={[['', t.anySurface], ...(Object.entries(t.surfaces) as [Surface, string][])]}
            onValue={(surface) => setFilters({ surface })}
          />
        </Field>
      </div>
      {filters.origin && filters.key && <Verdict origin={filters.origin} keyId={filters.key} />}
    </Section>
  )
}

function Refusals() {
  const [filters, setFilters] = useFilters(defaults)
  const refusals = useQuery(refusalsQuery)
  const wanted = filters.origin.toLowerCase()
  const matches = (refusal: Refusal) =>
    (!wanted || [refusal.origin, refusal.seen].some((text) => text?.toLowerCase().includes(wanted))) &&
    (!filters.key || refusal.publishable_key_id === filters.key) &&
    (!filters.surface || refusal.surface === filters.surface)
  return (
    <Section title={t.refused} text={t.refusedText}>
      <Loaded query={refusals} lines={6}>
        {(all) => {
          const found = all.filter(matches)
          if (all.length === 0) return <EmptyState title={t.none} text={t.noneText} />
          if (found.length === 0) {
            return (
              <EmptyState
                title={words.nothingFound}
                text={t.noMatch}
                action={<Button onClick={() => setFilters(defaults)}>{words.clear}</Button>}
              />
            )
          }
          return (
            <ul aria-label={t.refused}>
              {found.map((refusal) => (
                <RefusalItem key={refusal.id} refusal={refusal} />
              ))}
            </ul>
          )
        }}
      </Loaded>
    </Section>
  )
}

function RefusalItem({ refusal }: { refusal: Refusal }) {
  const orgPath = useOrgPath()
  const keys = useQuery(keysQuery)
  const { surface, step, code, message, expected, seen, origin, publishable_key_id, directory_name } = refusal
  const { count, first_at, last_at } = refusal
  const advice = adviceFor(refusal)
  const key = keys.data?.find(({ id }) => id === publishable_key_id)
  return (
    <li className="grid gap-2 border-t border-line py-4 last:pb-0">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Badge tone="bad">{code}</Badge>
        <Badge>{t.surfaces[surface]}</Badge>
        <span className="mono text-muted" title={t.step}>
          {step}
        </span>
        <span className="ml-auto text-sm text-muted">
          <Ago at={last_at} />
          {count > 1 && <> · {t.times(count)}</>}
        </span>
      </div>
      <p className="wrap-anywhere">{message}</p>
      {(origin || key || directory_name) && (
        <p className="text-sm text-muted">
          {origin && <span className="mono wrap-anywhere">{origin}</span>}
          {origin && key && ' · '}
          {key && t.withKey(key.name)}
          {directory_name && t.ofDirectory(directory_name)}
          {count > 1 && (
            <>
              {' · '}
              {t.since} <Time at={first_at} />
            </>
          )}
        </p>
      )}
      {(expected || seen) && (
        <dl className="grid gap-2 sm:grid-cols-2">
          <Value name={t.expected} value={expected} tone="text-accent" />
          <Value name={t.seen} value={seen} tone="text-danger" />
        </dl>
      )}
      <p className="text-sm">
        <span className="font-[550]">{t.whatToDo}</span> {advice.text}{' '}
        {advice.link && (
          <Link to={orgPath(advice.link.path)} className="link inline-flex items-center gap-1">
            {advice.link.name} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
          </Link>
        )}
      </p>
    </li>
  )
}

function Value({ name, value, tone }: { name: string; value: string | null; tone: string }) {
  return (
    <div className="rounded-control bg-sunken px-3 py-2">
      <dt className={`text-xs ${tone}`}>{name}</dt>
      <dd className="mono wrap-anywhere">{value ?? words.none}</dd>
    </div>
  )
}

/** Settings that work, but shouldn't stay as they are. */
function Warnings() {
  const warnings = useQuery(warningsQuery)
  const orgPath = useOrgPath()
  if (!warnings.data || warnings.data.warnings.length === 0) return null
  return (
    <Section title={t.warnings}>
      <ul className="grid gap-4">
        {warnings.data.warnings.map(({ code, message, publishable_key_id, origins }) => (
          <li key={`${code} ${publishable_key_id}`} className="flex gap-2">
            <TriangleAlert size={16} strokeWidth={1.5} className="mt-0.5 shrink-0 text-brass" aria-hidden />
            <div className="min-w-0">
              <p className="wrap-anywhere">{message}</p>
              {origins.length > 0 && (
                <p className="text-sm text-muted">
                  {t.usedOn}{' '}
                  {origins.map(({ origin, count }, index) => (
                    <span key={origin}>
                      {index > 0 && ', '}
                      <span className="mono wrap-anywhere">{origin}</span> ({t.times(count)})
                    </span>
                  ))}
                </p>
              )}
              <Link to={orgPath(`keys/${publishable_key_id}`)} className="link text-sm">
                {t.openKey}
              </Link>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )
}
