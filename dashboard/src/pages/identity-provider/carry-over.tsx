import type { components } from '@inlay/client'
import { useMutation, useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { formatNumber } from '../../lib/format.ts'
import { api, queryClient, read, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Select, Textarea } from '../../ui/controls/form.tsx'
import { Section } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'

type CarryOver = components['schemas']['CarryOver']

const issuersQuery = read(['end-user-issuers'], (signal) => api.GET('/identity-providers/issuers', { signal }))

/** Only shown after a change of the provider: end users whom no token leads to anymore. */
export function FormerIssuers() {
  const issuers = useQuery(issuersQuery)
  const [from, setFrom] = useState<string | null>()
  const { current_issuer, issuers: all = [] } = issuers.data ?? {}
  const former = all.filter(({ issuer }) => issuer !== current_issuer)
  if (!current_issuer || former.length === 0) return null
  return (
    <Section title={t.formerTitle} text={t.formerText}>
      <ul className="grid gap-2">
        {former.map(({ issuer, end_users }) => (
          <li key={issuer} className="flex flex-wrap items-center justify-between gap-2">
            <span>
              <span className={issuer ? 'mono wrap-anywhere' : ''}>{issuer ?? t.unknownIssuer}</span>{' '}
              <span className="text-muted">· {t.endUsers(formatNumber(end_users))}</span>
            </span>
            <Button onClick={() => setFrom(issuer)}>{t.carryOver}</Button>
          </li>
        ))}
      </ul>
      <Dialog
        isOpen={from !== undefined}
        onClose={() => setFrom(undefined)}
        title={t.carryOver}
        text={t.carryOverText(current_issuer)}
      >
        {from !== undefined && <CarryOverForm from={from} onDone={() => setFrom(undefined)} />}
      </Dialog>
    </Section>
  )
}

/** Lines such as `old-subject,new-subject`. */
const readPairs = (text: string) =>
  text
    .split('\n')
    .map((line) => line.split(/[,\t]/).map((part) => part.trim()))
    .flatMap(([from = '', to = '']) => (from || to ? [{ from, to }] : []))

function CarryOverForm({ from, onDone }: { from: string | null; onDone: () => void }) {
  const [by, setBy] = useState<'email' | 'list'>('email')
  const [list, setList] = useState('')
  const [preview, setPreview] = useState<CarryOver>()
  const send = useMutation({
    mutationFn: (is_preview: boolean) =>
      unwrap(
        api.POST('/identity-providers/carry-over', {
          body: { from_issuer: from, by, is_preview, ...(by === 'list' && { users: readPairs(list) }) },
        }),
      ),
    async onSuccess(answer) {
      if (answer.is_preview) return setPreview(answer)
      notify(t.carriedOver(formatNumber(answer.carried_over)))
      await queryClient.invalidateQueries({ queryKey: ['end-user-issuers'] })
      if (answer.is_complete) onDone()
      else setPreview(undefined)
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    send.mutate(preview === undefined)
  }
  function change(work: () => void) {
    work()
    setPreview(undefined)
  }
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field label={t.carryBy} hint={by === 'email' ? t.byEmailHint : t.byListHint}>
        <Select
          value={by}
          options={[
            ['email', t.byEmail],
            ['list', t.byList],
          ]}
          onValue={(value) => change(() => setBy(value))}
        />
      </Field>
      {by === 'list' && (
        <Field label={t.subjects}>
          <Textarea
            value={list}
            placeholder="00u1a2b3c4,auth0|5f7c"
            className="mono"
            onChange={({ target }) => change(() => setList(target.value))}
          />
        </Field>
      )}
      {preview && (
        <div role="status" className="grid gap-1 text-sm">
          <p>{t.wouldCarry(formatNumber(preview.carried_over), formatNumber(preview.merged))}</p>
          {preview.conflict_count > 0 && <p>{t.conflicts(formatNumber(preview.conflict_count))}</p>}
          <ul className="max-h-40 overflow-y-auto">
            {preview.conflicts.map(({ external_id, reason }) => (
              <li key={external_id}>
                <span className="mono wrap-anywhere">{external_id}</span>: {t.conflictReasons[reason]}
              </li>
            ))}
          </ul>
        </div>
      )}
      <FormError error={send.error} />
      <FormActions>
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button
          type="submit"
          variant="primary"
          isPending={send.isPending}
          disabled={preview ? preview.carried_over === 0 : by === 'list' && readPairs(list).length === 0}
        >
          {preview ? t.carryOver : t.previewCarryOver}
        </Button>
      </FormActions>
    </form>
  )
}
