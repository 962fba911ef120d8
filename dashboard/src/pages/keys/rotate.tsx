import { useMutation, useQuery } from '@tanstack/react-query'
import { ArrowLeft, Check, TriangleAlert } from 'lucide-react'
import { type FormEvent, type ReactNode, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { keysQuery } from '../../session/lists.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { FullKey } from '../../ui/display/code.tsx'
import { Notice } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { type Key, refreshKeys, successorOf, useOpenKey } from './data.ts'
import { RevokeKey } from './revoke-key.tsx'
import { Snippets } from './snippets/snippets.tsx'
import { t } from './texts.ts'

/** How often the page checks whether the new key is used, in milliseconds. */
const pollMs = 3_000

/** Replaces a key step by step. How far it is follows from the keys themselves, so it can be continued any time. */
export function Rotate({ old, keys }: { old: Key; keys: readonly Key[] }) {
  const open = useOpenKey()
  const [asksToRevoke, setAsksToRevoke] = useState(false)
  useQuery({ ...keysQuery, refetchInterval: pollMs })
  const successor = successorOf(old, keys)
  const isUsed = successor?.last_used_at != null
  const isOldStillUsed = isUsed && (old.last_used_at ?? '') > (successor.last_used_at ?? '')
  return (
    <div className="grid gap-5">
      <ol className="grid gap-5">
        <Step name={t.steps.create} isDone={successor !== undefined} isNext={!successor}>
          {successor ? (
            <p className="text-sm text-muted">{t.steps.createDone(successor.name)}</p>
          ) : (
            <SuccessorForm old={old} />
          )}
        </Step>
        <Step name={t.steps.replace} isDone={isUsed} isNext={successor !== undefined && !isUsed}>
          {successor && (
            <div className="grid gap-3">
              <p className="text-sm text-muted" aria-live="polite">
                {isUsed ? t.steps.replaceDone : t.steps.replaceText}
              </p>
              <LastUse old={old} successor={successor} />
              <NewKey key={successor.id} successor={successor} />
            </div>
          )}
        </Step>
        <Step name={t.steps.revoke} isDone={old.revoked_at !== null} isNext={isUsed}>
          {successor && (
            <div className="grid justify-items-start gap-3">
              {isOldStillUsed ? (
                <Notice tone="wait" icon={TriangleAlert}>
                  {t.steps.stillUsed}
                </Notice>
              ) : (
                <p className="text-sm text-muted">{t.steps.revokeText}</p>
              )}
              <Button variant={isUsed ? 'danger' : 'secondary'} onClick={() => setAsksToRevoke(true)}>
                {t.steps.revokeAction}
              </Button>
            </div>
          )}
        </Step>
      </ol>
      <div className="border-t border-line pt-4">
        <Button variant="ghost" icon={ArrowLeft} onClick={() => open(old.id)}>
          {t.back}
        </Button>
      </div>
      <RevokeKey found={old} isOpen={asksToRevoke} onClose={() => setAsksToRevoke(false)} />
    </div>
  )
}

function Step({
  name,
  isDone,
  isNext,
  children,
}: {
  name: string
  isDone: boolean
  isNext: boolean
  children: ReactNode
}) {
  const dot = isDone
    ? 'border-accent bg-accent text-on-accent'
    : isNext
      ? 'border-brass ring-3 ring-brass-soft'
      : 'border-line-strong'
  return (
    <li className="grid grid-cols-[20px_minmax(0,1fr)] gap-2.5" aria-current={isNext ? 'step' : undefined}>
      <span className={`mt-px grid size-[18px] place-items-center rounded-full border-[1.5px] ${dot}`}>
        {isDone && <Check size={12} strokeWidth={3} aria-hidden />}
      </span>
      <div className="grid gap-2">
        <h3 className={isDone || isNext ? 'font-[550]' : 'text-muted'}>
          {isDone && <span className="sr-only">{t.stepDone} </span>}
          {name}
        </h3>
        {children}
      </div>
    </li>
  )
}

function SuccessorForm({ old }: { old: Key }) {
  const [name, setName] = useState(`${old.name.slice(0, 88)} ${new Date().toISOString().slice(0, 10)}`)
  const create = useMutation({
    mutationFn: () => unwrap(api.POST('/publishable-keys', { body: { name, allowed_origins: old.allowed_origins } })),
    onSuccess: refreshKeys,
  })
  const isTold = name.trim().startsWith(`${old.name} `)
  function submit(event: FormEvent) {
    event.preventDefault()
    if (isTold && !create.isPending) create.mutate()
  }
  return (
    <form onSubmit={submit} className="grid justify-items-start gap-3">
      <div className="w-full">
        <Field label={t.name} hint={t.steps.createText} error={isTold ? undefined : t.steps.nameBegins(old.name)}>
          <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={100} />
        </Field>
      </div>
      <FormError error={create.error} />
      <Button type="submit" variant="primary" isPending={create.isPending}>
        {t.steps.createAction}
      </Button>
    </form>
  )
}

/** The new key for the pages. Shown on request, because the audit log records it. */
function NewKey({ successor }: { successor: Key }) {
  const reveal = useMutation({
    mutationFn: () => unwrap(api.POST('/publishable-keys/{id}/reveal', { params: { path: { id: successor.id } } })),
  })
  if (!reveal.data) {
    return (
      <div>
        <Button isPending={reveal.isPending} onClick={() => reveal.mutate()}>
          {t.steps.show}
        </Button>
        <FormError error={reveal.error} />
      </div>
    )
  }
  return (
    <div className="grid gap-3">
      <FullKey text={reveal.data.key} copy={t.copyKey} />
      <Snippets keyText={reveal.data.key} />
    </div>
  )
}

function LastUse({ old, successor }: { old: Key; successor: Key }) {
  return (
    <dl className="grid grid-cols-2 gap-2">
      {[[t.oldKey, old] as const, [t.newKey, successor] as const].map(([name, { key_prefix, last_used_at }]) => (
        <div key={name} className="rounded-control border border-line px-3 py-2">
          <dt className="text-sm text-muted">{name}</dt>
          <dd>
            <span className="mono block truncate">{key_prefix}…</span>
            <span className="text-sm text-muted">
              {t.lastUsed}: <Ago at={last_used_at} />
            </span>
          </dd>
        </div>
      ))}
    </dl>
  )
}
