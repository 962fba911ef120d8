import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Trash2 } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { formatNumber } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { Facts, Notice, PageHeader, Section } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { ConfirmDialog, Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { SingleSignOn } from './single-sign-on.tsx'
import { t } from './texts.ts'

type Erasure = components['schemas']['OrganizationErasure']

export default function OrganizationSettings() {
  const { id, slug, isAdmin } = useOrganization()
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {!isAdmin && <Notice>{words.adminsOnly}</Notice>}
      <div className="grid gap-3">
        {isAdmin && <Rename />}
        <Section title={t.facts} text={t.slugHint}>
          <Facts
            facts={[
              [
                t.id,
                <code key="id" className="mono wrap-anywhere">
                  {id}
                </code>,
              ],
              [
                t.slug,
                <code key="slug" className="mono wrap-anywhere">
                  {slug}
                </code>,
              ],
            ]}
          />
        </Section>
        {isAdmin && <SingleSignOn />}
        {isAdmin && <Deletion />}
      </div>
    </>
  )
}

function Rename() {
  const organization = useOrganization()
  const [name, setName] = useState(organization.name)
  const queries = useQueryClient()
  const rename = useMutation({
    mutationFn: () => unwrap(api.PATCH('/organizations/current', { body: { name } })),
    async onSuccess() {
      await queries.invalidateQueries({ queryKey: ['me'] })
      notify(t.renamed)
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!rename.isPending) rename.mutate()
  }
  return (
    <Section title={t.renameTitle}>
      <form onSubmit={submit} className="grid max-w-lg gap-3">
        <Field label={t.name} hint={t.nameHint}>
          <Input
            required
            maxLength={100}
            value={name}
            autoComplete="organization"
            onChange={({ target }) => setName(target.value)}
          />
        </Field>
        <FormError error={rename.error} />
        <div>
          <Button
            type="submit"
            variant="primary"
            isPending={rename.isPending}
            disabled={name.trim() === organization.name}
          >
            {t.rename}
          </Button>
        </div>
      </form>
    </Section>
  )
}

function Deletion() {
  const { name, slug } = useOrganization()
  const [isAsking, setAsking] = useState(false)
  const queries = useQueryClient()
  const remove = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations/current/delete', { body: { slug } })),
    onSuccess() {
      setAsking(false)
      // Without the organization, the page around the receipt couldn't be shown.
      queries.setQueryDefaults(['me'], { staleTime: Number.POSITIVE_INFINITY })
    },
  })
  return (
    <Section title={t.delete} text={t.deleteText}>
      <Button variant="danger" icon={Trash2} onClick={() => setAsking(true)}>
        {t.delete}
      </Button>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.deleteTitle(name)}
        text={t.deleteQuestion}
        action={t.delete}
        typed={slug}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
      {remove.data && <Receipt erasure={remove.data} />}
    </Section>
  )
}

const receiptQuery = (id: string) =>
  read(['organization-erasure', id], (signal) =>
    api.GET('/users/me/organization-erasures/{id}', { params: { path: { id } }, signal }),
  )

const refetchMs = 1_000
/** The token was for the deleted organization, so the dashboard starts again. */
const startAgain = () => location.assign('/')

function Receipt({ erasure }: { erasure: Erasure }) {
  const { data } = useQuery({
    ...receiptQuery(erasure.id),
    initialData: erasure,
    refetchInterval: ({ state }) => (state.data?.finished_at ? false : refetchMs),
  })
  const counts = Object.entries(data.counts)
    .filter(([, rows]) => rows > 0)
    .toSorted(([a], [b]) => a.localeCompare(b))
  const total = counts.reduce((sum, [, rows]) => sum + rows, 0)
  return (
    <Dialog
      isOpen
      onClose={startAgain}
      title={t.deleted}
      text={data.finished_at ? t.erased(formatNumber(total)) : t.erasing}
    >
      <div className="grid gap-4">
        <Facts
          facts={[
            [
              t.receipt,
              <code key="receipt" className="mono wrap-anywhere">
                {data.id}
              </code>,
            ],
            [t.requestedAt, <Ago key="requested" at={data.requested_at} />],
            [t.finishedAt, data.finished_at ? <Ago key="finished" at={data.finished_at} /> : t.notYet],
          ]}
        />
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable with the keyboard */}
        <section tabIndex={0} aria-label={t.receipt} className="max-h-60 overflow-auto">
          <Facts facts={counts.map(([table, rows]) => [table, formatNumber(rows)] as const)} />
        </section>
        <FormActions>
          <Button variant="primary" onClick={startAgain}>
            {t.continue}
          </Button>
        </FormActions>
      </div>
    </Dialog>
  )
}
