import { useMutation, useQuery } from '@tanstack/react-query'
import { TriangleAlert } from 'lucide-react'
import type { FormEvent } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Notice, Section } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { domainsQuery, refreshKeys } from './data.ts'
import { OriginsField, useOrigins } from './origins/origins-field.tsx'
import { t } from './texts.ts'

const putDomains = (allowed_domains: string[]) =>
  unwrap(api.PUT('/organizations/current/allowed-domains', { body: { allowed_domains } }))

/** The origins for keys without origins of their own. */
export function AllowedDomains() {
  const domains = useQuery(domainsQuery)
  const { isAdmin } = useOrganization()
  return (
    <Section title={t.domainsTitle} text={t.domainsText} className="max-w-2xl">
      <Loaded query={domains}>
        {({ allowed_domains }) => (
          <>
            {allowed_domains.length === 0 && (
              <Notice tone="wait" icon={TriangleAlert}>
                {t.noDomains}
              </Notice>
            )}
            {isAdmin ? (
              <DomainForm saved={allowed_domains} />
            ) : (
              <>
                <ul className="mono mb-3">
                  {allowed_domains.map((origin) => (
                    <li key={origin}>{origin}</li>
                  ))}
                </ul>
                <p className="text-sm text-muted">{words.adminsOnly}</p>
              </>
            )}
          </>
        )}
      </Loaded>
    </Section>
  )
}

function DomainForm({ saved }: { saved: string[] }) {
  const origins = useOrigins(saved)
  const save = useMutation({
    mutationFn: putDomains,
    async onSuccess({ allowed_domains }) {
      await refreshKeys()
      origins.reset(allowed_domains)
      notify(t.domainsSaved, {
        undo: () => void putDomains(saved).then(refreshKeys, (error) => notifyError(t.notUndone, error)),
      })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    const next = origins.finish()
    if (next && !save.isPending) save.mutate(next)
  }
  return (
    <form onSubmit={submit} className="grid gap-3">
      <OriginsField label={t.domainsField} value={origins} max={100} />
      <FormError error={save.error} />
      {origins.isChanged && (
        <FormActions>
          <Button onClick={() => origins.reset()}>{words.discard}</Button>
          <Button type="submit" variant="primary" isPending={save.isPending}>
            {words.save}
          </Button>
        </FormActions>
      )}
    </form>
  )
}
