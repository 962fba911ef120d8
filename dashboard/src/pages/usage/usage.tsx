import { useQueries, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Download } from 'lucide-react'
import { type DateRange, daysOf, readRange } from '../../lib/date-range.ts'
import { saveFile, toCsv } from '../../lib/files.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatCompact, formatDay, formatMoney, formatNumber } from '../../lib/format.ts'
import { texts } from '../../lib/texts.ts'
import { api, read, unwrapPage } from '../../session/api.ts'
import { useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { Select } from '../../ui/controls/form.tsx'
import { RangePicker } from '../../ui/controls/range.tsx'
import { BarChart, mostSeries, type Series } from '../../ui/display/charts.tsx'
import { PageHeader, Section } from '../../ui/display/layout.tsx'
import { EmptyState, ErrorState, Skeleton } from '../../ui/display/states.tsx'
import { endUserName } from '../../ui/end-user-name.ts'
import { type Column, DataTable } from '../../ui/tables/data-table.tsx'
import { pageSize, useCursorRows } from '../../ui/tables/row-sources.ts'

export const t = texts('usage', {
  title: 'Usage',
  text: 'Tokens and cost of every call to a model, per day, site, end user and model.',
  perDay: { tokens: 'Tokens per day', cost: 'Cost per day', requests: 'Requests per day' },
  measure: 'Measure',
  measures: { tokens: 'Tokens', cost: 'Cost', requests: 'Requests' },
  by: 'Table',
  views: { sites: 'By site', 'end-users': 'By end user', models: 'By model' },
  site: 'Site',
  allSites: 'All sites',
  noSite: 'Without a site',
  others: 'Other sites',
  endUser: 'End user',
  upTo: 'Can be up to ten minutes old if you have many end users.',
  model: 'Model',
  requests: 'Requests',
  prompt: 'Input tokens',
  completion: 'Output tokens',
  tokens: 'Tokens',
  cost: 'Cost',
  csv: 'Download CSV',
  none: 'No usage in this period',
  noneText: 'As soon as someone talks to the agent, its tokens and cost appear here.',
})

type Measure = keyof typeof t.measures
type View = keyof typeof t.views

const fields = { tokens: 'total_tokens', cost: 'total_cost_micro_usd', requests: 'total_requests' } as const
const formats = { tokens: formatCompact, cost: formatMoney, requests: formatCompact }

export default function Usage() {
  const [filters, setFilters] = useFilters({ range: '30', measure: 'tokens', view: 'sites', site: '' })
  const range = readRange(filters.range)
  const sites = useQuery(sitesQuery(range))
  const measure = filters.measure in fields ? (filters.measure as Measure) : 'tokens'
  const view = filters.view in t.views ? (filters.view as View) : 'sites'
  const options = (sites.data?.sites ?? []).map(({ site_id, origin }) => [site_id ?? '', origin ?? t.noSite] as const)
  return (
    <>
      <PageHeader title={t.title} text={t.text} actions={<Export range={range} />} />
      <div className="mb-3 flex flex-wrap gap-2">
        <RangePicker value={filters.range} onValue={(next) => setFilters({ range: next })} />
        <Select
          aria-label={t.site}
          value={filters.site}
          options={[['', t.allSites], ...options.filter(([id]) => id !== '')]}
          onValue={(site) => setFilters({ site })}
        />
        <Select
          aria-label={t.measure}
          value={measure}
          options={Object.entries(t.measures) as [Measure, string][]}
          onValue={(next) => setFilters({ measure: next })}
        />
      </div>
      <Section title={t.perDay[measure]}>
        <DailyChart range={range} measure={measure} site={filters.site} />
      </Section>
      <div className="mt-6 mb-3">
        <Segments
          label={t.by}
          value={view}
          options={Object.entries(t.views) as [View, string][]}
          onValue={(next) => setFilters({ view: next })}
        />
      </div>
      {view === 'sites' && <SiteTable range={range} />}
      {view === 'end-users' && <EndUserTable range={range} />}
      {view === 'models' && <ModelTable range={range} />}
    </>
  )
}

const sitesQuery = (query: DateRange) =>
  read(['usage', 'sites', 'top', query], (signal) =>
    api.GET('/usage/sites', { params: { query: { ...query, limit: 100 } }, signal }),
  )
const dailyQuery = (query: DateRange & { site_id?: string }) =>
  read(['usage', 'daily', query], (signal) => api.GET('/usage/daily', { params: { query }, signal }))

/** One series per site, as far as they can be told apart. What remains of the total is one more. */
function DailyChart({ range, measure, site }: { range: DateRange; measure: Measure; site: string }) {
  const days = daysOf(range)
  const sites = useQuery(sitesQuery(range))
  const total = useQuery(dailyQuery(site ? { ...range, site_id: site } : range))
  const largest = site ? [] : (sites.data?.sites ?? []).filter(({ site_id }) => site_id).slice(0, mostSeries - 1)
  const parts = useQueries({ queries: largest.map(({ site_id }) => dailyQuery({ ...range, site_id: site_id ?? '' })) })
  const error = total.error ?? sites.error
  if (error) return <ErrorState error={error} onRetry={() => Promise.all([total.refetch(), sites.refetch()])} />
  if (!total.data || !sites.data || parts.some(({ data }) => !data)) return <Skeleton lines={7} />

  const course = (data: NonNullable<typeof total.data>) => {
    const known = new Map(data.map((day) => [day.date, day[fields[measure]]]))
    return days.map((day) => known.get(day) ?? 0)
  }
  const named = parts.map(({ data }, index) => ({
    name: largest[index]?.origin ?? t.noSite,
    values: course(data ?? []),
  }))
  const rest = course(total.data).map(
    (value, day) => value - named.reduce((sum, { values }) => sum + (values[day] ?? 0), 0),
  )
  const hasRest = rest.some((value) => value > 0)
  const restName =
    named.length > 0
      ? t.others
      : (sites.data.sites.find(({ site_id }) => site_id === site)?.origin ?? t.measures[measure])
  const series: Series[] = hasRest || named.length === 0 ? [...named, { name: restName, values: rest }] : named
  return (
    <BarChart
      title={t.perDay[measure]}
      labels={days}
      series={series}
      format={formats[measure]}
      formatLabel={formatDay}
      height={220}
    />
  )
}

interface Totals {
  total_requests: number
  total_prompt_tokens: number
  total_completion_tokens: number
  total_tokens: number
  total_cost_micro_usd: number
}

const amounts: Column<Totals>[] = [
  {
    id: 'requests',
    header: t.requests,
    align: 'right',
    isMinor: true,
    cell: (row) => formatNumber(row.total_requests),
  },
  {
    id: 'prompt',
    header: t.prompt,
    align: 'right',
    isMinor: true,
    cell: (row) => formatNumber(row.total_prompt_tokens),
  },
  {
    id: 'completion',
    header: t.completion,
    align: 'right',
    isMinor: true,
    cell: (row) => formatNumber(row.total_completion_tokens),
  },
  { id: 'tokens', header: t.tokens, align: 'right', cell: (row) => formatNumber(row.total_tokens) },
  { id: 'cost', header: t.cost, align: 'right', cell: (row) => formatMoney(row.total_cost_micro_usd) },
]

const empty = <EmptyState title={t.none} text={t.noneText} />

function SiteTable({ range }: { range: DateRange }) {
  const source = useCursorRows(['usage', 'sites', range], async (cursor, signal) => {
    const query = { ...range, limit: pageSize, ...(cursor && { cursor }) }
    const { page, next_cursor } = await unwrapPage(api.GET('/usage/sites', { params: { query }, signal }))
    return { rows: page.sites, next_cursor }
  })
  return (
    <DataTable
      label={t.views.sites}
      rows={source.rows}
      rowId={({ site_id }) => site_id ?? 'none'}
      error={source.error}
      onRetry={source.refetch}
      columns={[
        { id: 'site', header: t.site, cell: ({ origin }) => <span className="mono">{origin ?? t.noSite}</span> },
        ...amounts,
      ]}
      empty={empty}
    />
  )
}

function EndUserTable({ range }: { range: DateRange }) {
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const source = useCursorRows(['usage', 'end-users', range], async (cursor, signal) => {
    const query = { ...range, limit: pageSize, ...(cursor && { cursor }) }
    const { page, next_cursor } = await unwrapPage(api.GET('/usage/end-users', { params: { query }, signal }))
    return { rows: page.users, next_cursor }
  })
  return (
    <>
      <DataTable
        label={t.views['end-users']}
        rows={source.rows}
        rowId={({ end_user_id }) => end_user_id}
        error={source.error}
        onRetry={source.refetch}
        onOpen={({ end_user_id }) => void navigate({ to: orgPath(`end-users/${end_user_id}`) })}
        columns={[{ id: 'user', header: t.endUser, cell: endUserName }, ...amounts]}
        empty={empty}
      />
      <p className="mt-2 text-sm text-muted">{t.upTo}</p>
    </>
  )
}

function ModelTable({ range }: { range: DateRange }) {
  const source = useCursorRows(['usage', 'models', range], async (cursor, signal) => {
    const query = { ...range, limit: pageSize, ...(cursor && { cursor }) }
    const { page, next_cursor } = await unwrapPage(api.GET('/usage/models', { params: { query }, signal }))
    return { rows: page.models, next_cursor }
  })
  return (
    <DataTable
      label={t.views.models}
      rows={source.rows}
      rowId={({ model }) => model}
      error={source.error}
      onRetry={source.refetch}
      columns={[
        { id: 'model', header: t.model, cell: ({ model }) => <span className="mono">{model}</span> },
        ...amounts,
      ]}
      empty={empty}
    />
  )
}

/** The daily totals as a file for spreadsheets. */
function Export({ range }: { range: DateRange }) {
  const daily = useQuery(dailyQuery(range))
  const save = () =>
    daily.data &&
    saveFile(
      `usage-${range.start_date}-${range.end_date}.csv`,
      'text/csv',
      toCsv(daily.data as Record<string, unknown>[]),
    )
  return (
    <Button icon={Download} disabled={!daily.data} onClick={save}>
      {t.csv}
    </Button>
  )
}
