import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Select } from '../../ui/controls/form.tsx'
import { Badge, Section } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { NewToken } from './new-token.tsx'
import { type Directory, directoriesQuery } from './queries.ts'
import { t } from './texts.ts'

/** The tokens that still work, and the way to a new one. */
export function Tokens({ directory }: { directory: Directory }) {
  const [isRotating, setRotating] = useState(false)
  return (
    <Section title={t.tokens} actions={<Button onClick={() => setRotating(true)}>{t.rotate}</Button>}>
      <ul className="grid gap-2 text-sm">
        {directory.tokens.map(({ id, last_four, expires_at, last_used_at }) => (
          <li key={id} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <span className="mono">{last_four ? `…${last_four}` : t.olderToken}</span>
            {expires_at ? (
              <Badge tone="wait">
                {t.expires} <Time at={expires_at} />
              </Badge>
            ) : (
              <Badge tone="good">{t.current}</Badge>
            )}
            <span className="text-muted">
              {last_used_at ? (
                <>
                  {t.lastUsed} <Ago at={last_used_at} />
                </>
              ) : (
                t.neverUsed
              )}
            </span>
          </li>
        ))}
      </ul>
      <Dialog isOpen={isRotating} onClose={() => setRotating(false)} title={t.rotate}>
        <RotateToken directory={directory} onClose={() => setRotating(false)} />
      </Dialog>
    </Section>
  )
}

type Overlap = `${keyof typeof t.overlaps}`

function RotateToken({ directory: { id, scim_base_url }, onClose }: { directory: Directory; onClose: () => void }) {
  const queryClient = useQueryClient()
  const [overlap, setOverlap] = useState<Overlap>('24')
  const rotate = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/directories/{id}/token', { params: { path: { id } }, body: { overlap_hours: Number(overlap) } }),
      ),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: directoriesQuery.queryKey }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!rotate.isPending) rotate.mutate()
  }
  if (rotate.data) {
    const token = rotate.data.bearer_token
    return <NewToken text={t.rotatedText} baseUrl={scim_base_url} token={token} onClose={onClose} />
  }
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field label={t.overlap} hint={t.overlapHint}>
        <Select value={overlap} options={Object.entries(t.overlaps) as [Overlap, string][]} onValue={setOverlap} />
      </Field>
      <FormError error={rotate.error} />
      <FormActions>
        <Button onClick={onClose}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={rotate.isPending}>
          {t.rotateNow}
        </Button>
      </FormActions>
    </form>
  )
}
