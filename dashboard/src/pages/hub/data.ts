import { useFilters } from '../../lib/filters.ts'
import { api, read } from '../../session/api.ts'

/** Milliseconds between requests, because pages open and close while the user watches. */
const refetchInterval = 3_000

const loadSources = (signal: AbortSignal) => api.GET('/hub/sources', { signal })
const loadTools = (signal: AbortSignal) =>
  api.GET('/hub/tools', { params: { query: { include_sources: 'true' } }, signal })

export const sourcesQuery = { ...read(['hub', 'sources'], loadSources), refetchInterval }
export const toolsQuery = { ...read(['hub', 'tools'], loadTools), refetchInterval }

export type Source = NonNullable<Awaited<ReturnType<typeof loadSources>>['data']>['sources'][number]
export type Tool = NonNullable<Awaited<ReturnType<typeof loadTools>>['data']>['tools'][number]

/** Which tool is open is part of the URL: its name, and one of the pages that offer it. */
export const useHubFilters = () => useFilters({ search: '', source: '', tool: '', on: '' })

/** Distinguishes tools with the same name, which different pages may define differently. */
export const firstSourceOf = ({ sources }: Tool): string => sources?.[0]?.sourceId ?? ''

/** As the widget decides it: whether a call runs without asking the user. */
export const runsUnasked = ({ annotations }: Tool): boolean =>
  annotations?.readOnlyHint === true && !annotations.destructiveHint && !annotations.consequentialHint
