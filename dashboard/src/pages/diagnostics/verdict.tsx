import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ArrowRight, Check, CircleAlert, Info } from 'lucide-react'
import { texts } from '../../lib/texts.ts'
import { keysQuery } from '../../session/lists.ts'
import { useOrgPath } from '../../session/me.ts'
import { configQuery } from '../identity-provider/config.ts'
import { domainsQuery } from '../keys/data.ts'
import { checkOrigin, isAllowed } from '../keys/origins/origins.ts'

export const t = texts('diagnosticsVerdict', {
  title: 'What the settings say',
  keyActive: 'The key is active.',
  keyRevoked: 'The key is revoked, so every request with it is refused. Use another key in the page.',
  notOrigin: 'This isn’t a complete origin yet.',
  byKey: 'The key’s allowed origins include it.',
  byDomains: 'The key has no origins of its own, and the organization’s allowed domains include it.',
  anywhere: 'The key works on any website. Add allowed origins to restrict it.',
  notByKey: (allowed: string) => `The key doesn’t allow this origin. It allows ${allowed}.`,
  notByDomains: (allowed: string) => `The allowed domains don’t include this origin. They are ${allowed}.`,
  openKey: 'Open the key',
  openDomains: 'Open the allowed domains',
  provider: 'An identity provider is trusted, so ID tokens can be checked.',
  noProvider: 'No identity provider is trusted. Visitors can connect, but ID tokens are refused.',
  openProvider: 'Open the identity provider',
})

interface Finding {
  kind: 'ok' | 'problem' | 'note'
  text: string
  link?: { name: string; path: string; search?: Record<string, string> }
}

const icons = { ok: Check, problem: CircleAlert, note: Info }
const tones = { ok: 'text-accent', problem: 'text-danger', note: 'text-brass' }

/** Checks an origin and a key against the current settings, in the server's order. */
export function Verdict({ origin, keyId }: { origin: string; keyId: string }) {
  const orgPath = useOrgPath()
  const keys = useQuery(keysQuery)
  const domains = useQuery(domainsQuery)
  const provider = useQuery(configQuery)
  const key = keys.data?.find(({ id }) => id === keyId)
  if (!key || !domains.data || !provider.data) return null

  const ofKey = { name: t.openKey, path: `keys/${key.id}` }
  const ofDomains = { name: t.openDomains, path: 'keys', search: { view: 'domains' } }
  function findOrigin(own: string[], shared: string[]): Finding {
    if (checkOrigin(origin).problem) return { kind: 'note', text: t.notOrigin }
    if (own.length > 0) {
      return isAllowed(origin, own)
        ? { kind: 'ok', text: t.byKey }
        : { kind: 'problem', text: t.notByKey(own.join(', ')), link: ofKey }
    }
    if (shared.length === 0) return { kind: 'note', text: t.anywhere, link: ofKey }
    return isAllowed(origin, shared)
      ? { kind: 'ok', text: t.byDomains }
      : { kind: 'problem', text: t.notByDomains(shared.join(', ')), link: ofDomains }
  }
  const findings: Finding[] = key.revoked_at
    ? [{ kind: 'problem', text: t.keyRevoked, link: { name: t.openKey, path: 'keys' } }]
    : [
        { kind: 'ok', text: t.keyActive },
        findOrigin(key.allowed_origins, domains.data.allowed_domains),
        provider.data.idp_type
          ? { kind: 'ok', text: t.provider }
          : { kind: 'note', text: t.noProvider, link: { name: t.openProvider, path: 'identity-provider' } },
      ]
  return (
    <section aria-label={t.title} aria-live="polite" className="mt-4 border-t border-line pt-4">
      <h3 className="mb-2 font-[550]">{t.title}</h3>
      <ul className="grid gap-2">
        {findings.map(({ kind, text, link }) => {
          const Icon = icons[kind]
          return (
            <li key={text} className="grid grid-cols-[16px_minmax(0,1fr)] gap-2">
              <Icon size={16} strokeWidth={1.5} className={`mt-0.5 ${tones[kind]}`} aria-hidden />
              <p className="wrap-anywhere">
                {text}{' '}
                {link && (
                  <Link
                    to={orgPath(link.path)}
                    search={(link.search ?? {}) as never}
                    className="link inline-flex items-center gap-1"
                  >
                    {link.name} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
                  </Link>
                )}
              </p>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
