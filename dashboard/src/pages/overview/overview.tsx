import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, TriangleAlert } from 'lucide-react'
import { type DateRange, daysOf, rangeBefore, readRange } from '../../lib/date-range.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatChange, formatCompact, formatDay, formatMoney, formatNumber } from '../../lib/format.ts'
import { api, read } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { buttonClass } from '../../ui/controls/button.tsx'
import { RangePicker } from '../../ui/controls/range.tsx'
import { BarChart, Sparkline } from '../../ui/display/charts.tsx'
import { Badge, PageHeader, Section } from '../../ui/display/layout.tsx'
import { Loaded, Skeleton } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { SetUp } from './set-up.tsx'
import { t } from './texts.ts'

const dailyQuery = (query: DateRange) =>
  read(['usage', 'daily', query], (signal) => api.GET('/usage/daily', { params: { query }, signal }))
const totalsQuery = (query: DateRange) =>
  read(['usage', 'stats', query], (signal) => api.GET('/usage/stats', { params: { query }, signal }))
const usersQuery = (query: DateRange) =>
  read(['usage', 'end-users', 'count', query], (signal) =>
    api.GET('/usage/end-users', { params: { query: { ...query, limit: 1 } }, signal }),
  )
const threadsQuery = read(['threads', 'analytics'], (signal) => api.GET('/threads/analytics', { signal }))
/** Stops while the page is in the background. */
const openTabsQuery = {
  ...read(['hub', 'open-tabs'], (signal) => api.GET('/hub/open-tabs', { signal })),
  refetchInterval: 5_000,
}
const refusalsQuery = read(['refusals', 'latest'], (signal) =>
  api.GET('/diagnostics/refusals', { params: { query: { limit: 5 } }, signal }),
)
const warningsQuery = read(['warnings'], (signal) => api.GET('/diagnostics/warnings', { signal }))

export default function Overview() {
  const [filters, setFilters] = useFilters({ range: '30' })
  const range = readRange(filters.range)
  const orgPath = useOrgPath()
  const { isAdmin } = useOrganization()
  return (
    <>
      <PageHeader
        title={t.title}
        text={t.text}
        actions={
          <>
            <RangePicker value={filters.range} onValue={(next) => setFilters({ range: next })} />
            <Link to={orgPath('keys')} className={buttonClass('primary')}>
              {t.snippet}
            </Link>
          </>
        }
      />
      <OpenTabs />
      <Totals range={range} />
      <div className="mt-3 grid gap-3 xl:grid-cols-[minmax(0,1fr)_340px]">
        <div className="grid min-w-0 content-start gap-3">
          <TokensPerDay range={range} search={filters.range} />
          {isAdmin && <Refusals />}
        </div>
        <div className="grid content-start gap-3">
          <SetUp />
          {isAdmin && <Warnings />}
        </div>
      </div>
    </>
  )
}

/** How many tabs have the widget open right now. If that can't be said, the page does without it. */
function OpenTabs() {
  const { data } = useQuery(openTabsQuery)
  if (!data) return null
  return (
    <p className="mb-3 flex items-center gap-2 text-sm text-muted">
      <span className={`size-2 rounded-full ${data.open_tabs > 0 ? 'bg-accent' : 'bg-line-strong'}`} aria-hidden />
      {data.is_complete ? '' : '≥ '}
      {t.openTabs(formatNumber(data.open_tabs))}
    </p>
  )
}

function Totals({ range }: { range: DateRange }) {
  const totals = useQuery(totalsQuery(range))
  const before = useQuery(totalsQuery(rangeBefore(range)))
  const daily = useQuery(dailyQuery(range))
  const users = useQuery(usersQuery(range))
  const threads = useQuery(threadsQuery)
  const days = daysOf(range)
  type Day = NonNullable<typeof daily.data>[number]
  const course = (value: (day: Day) => number) => {
    const known = new Map(daily.data?.map((day) => [day.date, value(day)]))
    return days.map((day) => known.get(day) ?? 0)
  }
  const change = (name: 'total_requests' | 'total_tokens' | 'total_cost_micro_usd') => {
    if (!totals.data || !before.data) return ''
    return before.data[name] === 0 ? t.noneBefore : t.before(formatChange(before.data[name], totals.data[name]))
  }
  return (
    <Loaded query={totals} lines={4}>
      {(data) => (
        <div className="grid gap-3 sm:grid-cols-2 xl:grid-cols-4">
          <Stat
            name={t.requests}
            value={formatCompact(data.total_requests)}
            note={change('total_requests')}
            course={course((day) => day.total_requests)}
          />
          <Stat
            name={t.tokens}
            value={formatCompact(data.total_tokens)}
            note={change('total_tokens')}
            course={course((day) => day.total_tokens)}
          />
          <Stat
            name={t.cost}
            value={formatMoney(data.total_cost_micro_usd)}
            note={change('total_cost_micro_usd')}
            course={course((day) => day.total_cost_micro_usd)}
            tone="brass"
          />
          <Stat
            name={t.endUsers}
            value={users.data ? formatNumber(users.data.total) : '…'}
            note={threads.data ? t.threads(formatNumber(threads.data.total_threads)) : ''}
          />
        </div>
      )}
    </Loaded>
  )
}

function Stat({
  name,
  value,
  note,
  course,
  tone,
}: {
  name: string
  value: string
  note: string
  course?: number[]
  tone?: 'brass'
}) {
  return (
    <section className="card min-w-0 px-4 py-3.5" aria-label={name}>
      <h2 className="text-muted">{name}</h2>
      <div className="mt-1.5 flex items-end justify-between gap-2">
        <div className="min-w-0">
          <p className="text-2xl leading-8 font-semibold tracking-[-0.02em]">{value}</p>
          <p className="min-h-4 text-xs text-faint">{note}</p>
        </div>
        {course && <Sparkline values={course} {...(tone && { tone })} />}
      </div>
    </section>
  )
}

function TokensPerDay({ range, search }: { range: DateRange; search: string }) {
  const daily = useQuery(dailyQuery(range))
  const orgPath = useOrgPath()
  const days = daysOf(range)
  return (
    <Section
      title={t.tokensPerDay}
      actions={
        <Link
          to={orgPath('usage')}
          search={{ range: search } as never}
          className="link flex items-center gap-1 text-sm"
        >
          {t.details} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
        </Link>
      }
    >
      <Loaded query={daily} lines={6}>
        {(data) => {
          const known = new Map(data.map((day) => [day.date, day.total_tokens]))
          const values = days.map((day) => known.get(day) ?? 0)
          return (
            <BarChart
              title={t.tokensPerDay}
              labels={days}
              series={[{ name: t.tokens, values }]}
              format={formatCompact}
              formatLabel={formatDay}
            />
          )
        }}
      </Loaded>
    </Section>
  )
}

function Refusals() {
  const refusals = useQuery(refusalsQuery)
  const orgPath = useOrgPath()
  return (
    <Section
      title={t.refused}
      actions={
        <Link to={orgPath('diagnostics')} className="link flex items-center gap-1 text-sm">
          {t.why} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
        </Link>
      }
    >
      <Loaded query={refusals}>
        {({ refusals: list }) =>
          list.length === 0 ? (
            <p className="text-muted">{t.noRefusals}</p>
          ) : (
            <ul className="-mb-2">
              {list.map(({ id, code, message, origin, count, last_at }) => (
                <li
                  key={id}
                  className="grid gap-x-3 gap-y-1 border-t border-line py-2.5 sm:grid-cols-[auto_minmax(0,1fr)_auto]"
                >
                  <Badge tone="bad">{code}</Badge>
                  <div className="min-w-0">
                    <p className="wrap-anywhere">{message}</p>
                    <p className="mono truncate text-muted">{origin}</p>
                  </div>
                  <p className="text-sm text-muted sm:text-right">
                    <Ago at={last_at} />
                    {count > 1 && <span className="block">{t.times(count)}</span>}
                  </p>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  )
}

/** Settings that work but shouldn't stay as they are. Without any, the section isn't shown. */
function Warnings() {
  const { data, isPending } = useQuery(warningsQuery)
  if (isPending) return <Skeleton className="card p-4" />
  if (!data || data.warnings.length === 0) return null
  return (
    <Section title={t.warnings}>
      <ul className="grid gap-3">
        {data.warnings.map(({ code, message, publishable_key_id }) => (
          <li key={`${code} ${publishable_key_id}`} className="flex gap-2 text-sm">
            <TriangleAlert size={16} strokeWidth={1.5} className="mt-px shrink-0 text-brass" aria-hidden />
            <span className="min-w-0 wrap-anywhere">{message}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}
