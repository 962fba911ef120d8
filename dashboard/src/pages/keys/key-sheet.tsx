import { useMutation, useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { Ban, Eye, Pencil, RefreshCw, TriangleAlert } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { keysQuery } from '../../session/lists.ts'
import { useOrganization } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { FullKey } from '../../ui/display/code.tsx'
import { Badge, Facts, Notice } from '../../ui/display/layout.tsx'
import { EmptyState, FormError, Loaded } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { Dialog, FormActions, Sheet } from '../../ui/overlays/overlays.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { domainsQuery, type Key, refreshKeys, successorOf, useKeyFilters, useOpenKey } from './data.ts'
import { OriginsField, useOrigins } from './origins/origins-field.tsx'
import { RevokeKey } from './revoke-key.tsx'
import { Rotate } from './rotate.tsx'
import { Snippets } from './snippets/snippets.tsx'
import { t } from './texts.ts'

/** The details of the key in the URL, or its rotation. */
export function KeySheet() {
  const { id } = useParams({ strict: false }) as { id?: string }
  const [filters] = useKeyFilters()
  const keys = useQuery(keysQuery)
  const open = useOpenKey()
  const { isAdmin } = useOrganization()
  const found = keys.data?.find((key) => key.id === id)
  const isRotating = isAdmin && filters.rotate === 'yes' && found !== undefined
  return (
    <Sheet
      isOpen={id !== undefined}
      onClose={() => open()}
      title={isRotating ? t.rotateTitle(found.name) : (found?.name ?? t.key)}
      text={isRotating ? t.rotateText : undefined}
    >
      <Loaded query={keys}>
        {(all) => {
          if (!found) return <EmptyState title={t.missing} text={t.missingText} />
          return isRotating ? (
            <Rotate key={found.id} old={found} keys={all} />
          ) : (
            <Details key={found.id} found={found} successor={successorOf(found, all)} />
          )
        }}
      </Loaded>
    </Sheet>
  )
}

function Details({ found, successor }: { found: Key; successor: Key | undefined }) {
  const { isAdmin } = useOrganization()
  const open = useOpenKey()
  const domains = useQuery(domainsQuery)
  const [asks, setAsks] = useState<'edit' | 'revoke'>()
  const reveal = useMutation({
    mutationFn: () => unwrap(api.POST('/publishable-keys/{id}/reveal', { params: { path: { id: found.id } } })),
  })
  const isActive = !found.revoked_at
  return (
    <div className="grid gap-5">
      {isActive && found.allowed_origins.length === 0 && domains.data?.allowed_domains.length === 0 && (
        <Notice tone="wait" icon={TriangleAlert}>
          {t.noOrigins(0)}
        </Notice>
      )}
      {isActive && successor && (
        <Notice icon={RefreshCw}>
          <p>{t.rotating(successor.name)}</p>
          {isAdmin && (
            <button type="button" className="link" onClick={() => open(found.id, { rotate: 'yes' })}>
              {t.continue}
            </button>
          )}
        </Notice>
      )}
      <Facts
        facts={[
          [
            t.state,
            isActive ? (
              <Badge key="state" tone="good">
                {t.states.active}
              </Badge>
            ) : (
              <Badge key="state">{t.states.revoked}</Badge>
            ),
          ],
          [
            t.prefix,
            <span key="prefix" className="mono">
              {found.key_prefix}…
            </span>,
          ],
          [t.origins, <OriginList key="origins" origins={found.allowed_origins} />],
          [t.lastUsed, <Ago key="used" at={found.last_used_at} />],
          [t.created, <Time key="created" at={found.created_at} />],
          ...(found.revoked_at ? [[t.revokedAt, <Time key="revoked" at={found.revoked_at} />] as const] : []),
        ]}
      />
      {isActive && (
        <section aria-label={t.snippet} className="grid gap-3 border-t border-line pt-4">
          <h3 className="font-semibold">{t.snippet}</h3>
          {reveal.data ? (
            <FullKey text={reveal.data.key} copy={t.copyKey} />
          ) : isAdmin && found.can_reveal ? (
            <div className="grid gap-1.5">
              <div>
                <Button icon={Eye} isPending={reveal.isPending} onClick={() => reveal.mutate()}>
                  {t.reveal}
                </Button>
              </div>
              <p className="text-sm text-muted">{t.revealText}</p>
              <FormError error={reveal.error} />
            </div>
          ) : (
            <p className="text-sm text-muted">{t.snippetPrefix}</p>
          )}
          <Snippets keyText={reveal.data?.key ?? `${found.key_prefix}…`} />
        </section>
      )}
      {isActive && isAdmin && (
        <div className="flex flex-wrap gap-2 border-t border-line pt-4">
          <Button icon={Pencil} onClick={() => setAsks('edit')}>
            {t.edit}
          </Button>
          <Button icon={RefreshCw} onClick={() => open(found.id, { rotate: 'yes' })}>
            {t.rotate}
          </Button>
          <Button icon={Ban} className="text-danger" onClick={() => setAsks('revoke')}>
            {t.revoke}
          </Button>
        </div>
      )}
      {!isAdmin && <p className="text-sm text-muted">{words.adminsOnly}</p>}
      <Dialog isOpen={asks === 'edit'} onClose={() => setAsks(undefined)} title={t.editTitle}>
        <EditForm found={found} onDone={() => setAsks(undefined)} />
      </Dialog>
      <RevokeKey found={found} isOpen={asks === 'revoke'} onClose={() => setAsks(undefined)} />
    </div>
  )
}

function OriginList({ origins }: { origins: readonly string[] }) {
  const domains = useQuery(domainsQuery)
  const shown = origins.length > 0 ? origins : (domains.data?.allowed_domains ?? [])
  if (shown.length === 0) return <Badge tone="wait">{t.anyWebsite}</Badge>
  return (
    <>
      <ul>
        {shown.map((origin) => (
          <li key={origin} className="mono">
            {origin}
          </li>
        ))}
      </ul>
      {origins.length === 0 && <p className="text-muted">{t.organizationDomains}</p>}
    </>
  )
}

function EditForm({ found, onDone }: { found: Key; onDone: () => void }) {
  const [name, setName] = useState(found.name)
  const origins = useOrigins(found.allowed_origins)
  const change = (body: { name: string; allowed_origins: string[] }) =>
    unwrap(api.PATCH('/publishable-keys/{id}', { params: { path: { id: found.id } }, body }))
  const save = useMutation({
    mutationFn: change,
    onSuccess() {
      onDone()
      void refreshKeys()
      notify(t.saved, {
        undo: () =>
          void change({ name: found.name, allowed_origins: found.allowed_origins }).then(refreshKeys, (error) =>
            notifyError(t.notUndone, error),
          ),
      })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    const allowed_origins = origins.finish()
    if (allowed_origins && !save.isPending) save.mutate({ name, allowed_origins })
  }
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field label={t.name}>
        <Input
          value={name}
          onChange={(event) => setName(event.target.value)}
          required
          maxLength={100}
          autoComplete="off"
        />
      </Field>
      <OriginsField label={t.origins} hint={t.originsHint} value={origins} max={20} isOptional />
      <FormError error={save.error} />
      <FormActions>
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={save.isPending}>
          {words.save}
        </Button>
      </FormActions>
    </form>
  )
}
