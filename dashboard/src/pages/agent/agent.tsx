import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { PageHeader } from '../../ui/display/layout.tsx'
import { Loaded } from '../../ui/display/states.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { UnsavedBar } from '../../ui/overlays/unsaved.tsx'
import { type Config, changesOf, type Draft, isSame, type PartProps, problemsOf, refusalOf, toDraft } from './draft.ts'
import { Instructions, Introduction, Preview } from './introduction.tsx'
import { ModelInUse, Models } from './models.tsx'
import { Privacy } from './privacy.tsx'
import { t } from './texts.ts'
import { Tools } from './tools.tsx'

const agentQuery = read(['agent'], (signal) => api.GET('/agent/config', { signal }))

export default function Agent() {
  const { isAdmin } = useOrganization()
  const config = useQuery({ ...agentQuery, enabled: isAdmin })
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {isAdmin ? (
        <Loaded query={config} lines={8}>
          {(data) => <AgentForm config={data} />}
        </Loaded>
      ) : (
        <AdminsOnly />
      )}
    </>
  )
}

function AgentForm({ config }: { config: Config }) {
  const queryClient = useQueryClient()
  const [base, setBase] = useState(config)
  const [draft, setDraft] = useState(() => toDraft(config))
  const [wasSubmitted, setSubmitted] = useState(false)
  const changes = changesOf(draft, base)
  const isDirty = Object.keys(changes).length > 0
  // Someone else's changes appear, unless the user is changing something too.
  if (!isDirty && config.updated_at !== base.updated_at) restart(config)

  function restart(next: Config) {
    setBase(next)
    setDraft(toDraft(next))
    setSubmitted(false)
  }
  const save = useMutation({
    mutationFn: () => unwrap(api.PATCH('/agent/config', { body: changes })),
    onSuccess(next) {
      queryClient.setQueryData(agentQuery.queryKey, next)
      restart(next)
      notify(t.saved)
    },
  })
  const found = problemsOf(draft, base)
  // A key that isn't typed yet is only missing once the user wants to save.
  const shown = wasSubmitted
    ? found
    : Object.fromEntries(Object.entries(found).filter(([name]) => !name.endsWith('.key')))
  const problems = { ...shown, ...refusalOf(save.error) }
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    setSubmitted(true)
    if (Object.keys(found).length === 0) return save.isPending || save.mutate()
    const form = event.currentTarget
    requestAnimationFrame(() => form.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus())
  }
  const change = (next: Partial<Draft>) => {
    save.reset()
    setDraft((known) => ({ ...known, ...next }))
  }
  const part: PartProps = { draft, config: base, problems, change }
  return (
    <form onSubmit={submit} aria-label={t.title}>
      <div className="grid items-start gap-3 xl:grid-cols-[minmax(0,1fr)_340px]">
        <div className="grid min-w-0 gap-3">
          <Introduction {...part} />
          <Instructions {...part} />
          <Models {...part} />
          <Tools {...part} />
          <Privacy {...part} />
        </div>
        <aside className="grid gap-3 xl:sticky xl:top-16" aria-label={t.preview}>
          <Preview draft={draft} />
          <ModelInUse draft={draft} config={base} isChanged={!isSame(changes.model, undefined)} />
        </aside>
      </div>
      <UnsavedBar isDirty={isDirty} isPending={save.isPending} error={save.error} onDiscard={() => restart(base)} />
    </form>
  )
}
