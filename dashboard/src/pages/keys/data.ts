import type { components } from '@inlay/client'
import { useNavigate } from '@tanstack/react-router'
import { useFilters } from '../../lib/filters.ts'
import { api, queryClient, read } from '../../session/api.ts'
import { useOrgPath } from '../../session/me.ts'

export const domainsQuery = read(['allowed-domains'], (signal) =>
  api.GET('/organizations/current/allowed-domains', { signal }),
)

export type Key = components['schemas']['PublishableKey']
export type Site = components['schemas']['Site']

/** A change of keys or domains also changes the sites, and what is refused or warned about. */
export const refreshKeys = (): Promise<unknown> =>
  Promise.all(
    ['keys', 'sites', 'allowed-domains', 'identity-provider', 'warnings'].map((name) =>
      queryClient.invalidateQueries({ queryKey: [name] }),
    ),
  )

const defaults = { view: 'keys', state: 'active', sort: '', create: '', rotate: '', snippet: 'html', auth: '' }

/** What the page's URL says, besides the key that is open. */
export const useKeyFilters = () => useFilters(defaults)

/** Opens the details of a key, or closes them. What was begun with the former key isn't kept. */
export function useOpenKey(): (id?: string, search?: Record<string, string>) => void {
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const [{ create, rotate, ...filters }] = useKeyFilters()
  const kept = Object.entries(filters).filter(([name, value]) => value !== defaults[name as keyof typeof defaults])
  return (id, search = {}) =>
    void navigate({
      to: orgPath(id ? `keys/${id}` : 'keys'),
      search: { ...Object.fromEntries(kept), ...search } as never,
    })
}

/** The newest key that replaces another: it's newer, has the same origins, and its name begins with the other's. */
export const successorOf = ({ id, name, created_at, allowed_origins }: Key, keys: readonly Key[]): Key | undefined =>
  keys.find(
    (other) =>
      other.id !== id &&
      !other.revoked_at &&
      other.created_at > created_at &&
      other.name.startsWith(`${name} `) &&
      [...other.allowed_origins].sort().join() === [...allowed_origins].sort().join(),
  )
