import { useNavigate, useSearch } from '@tanstack/react-router'

/** Filters, tabs and sort orders live in the URL. Values that equal the default are left out. */
export function useFilters<Filters extends Record<string, string>>(
  defaults: Filters,
): [Filters, (changes: Partial<Filters>) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>
  const navigate = useNavigate()
  const filters = Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [name, search[name] === undefined ? value : String(search[name])]),
  ) as Filters
  return [
    filters,
    (changes) => {
      const next = Object.entries({ ...filters, ...changes }).filter(([name, value]) => value !== defaults[name])
      void navigate({ to: '.', search: Object.fromEntries(next) as never, replace: true })
    },
  ]
}
