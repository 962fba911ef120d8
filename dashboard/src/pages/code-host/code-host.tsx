import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { ExternalLink, GitBranch } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { texts } from '../../lib/texts.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { AdminsOnly } from '../../ui/admins-only.tsx'
import { Button } from '../../ui/button.tsx'
import { fieldProblem } from '../../ui/field-problem.ts'
import { Field, Input } from '../../ui/form.tsx'
import { Badge, Facts, PageHeader, Section } from '../../ui/layout.tsx'
import { ConfirmDialog } from '../../ui/overlays.tsx'
import { FormError, Loaded } from '../../ui/states.tsx'
import { Time } from '../../ui/time.tsx'
import { notify } from '../../ui/toasts.tsx'
import { words } from '../../ui/words.ts'

const t = texts({
  en: {
    title: 'Code host',
    text: 'Your own GitHub app, so that Inlay only has the access that you give it.',
    app: 'GitHub app',
    own: 'Your own app',
    platform: 'Platform’s app',
    platformText: 'You use the app of this installation. Register your own to control its access on GitHub.',
    organization: 'GitHub organization',
    organizationHint: 'It will own the app. You must be one of its owners.',
    steps: [
      'Enter your GitHub organization, and continue to GitHub.',
      'GitHub shows what the app may do: read contents and metadata. Confirm it there.',
      'GitHub creates the app and sends you back to Inlay.',
    ],
    register: 'Continue to GitHub',
    slug: 'App',
    repository: 'Repository',
    since: 'Registered',
    remove: 'Remove app',
    removeTitle: 'Remove the GitHub app?',
    removeText:
      'Inlay deletes its credentials and uses the platform’s app again. The app still exists on GitHub until you delete it there.',
    removed: 'GitHub app removed',
    open: 'Open on GitHub',
  },
  de: {
    title: 'Code-Host',
    text: 'Ihre eigene GitHub-App, damit Inlay nur den Zugriff hat, den Sie geben.',
    app: 'GitHub-App',
    own: 'Eigene App',
    platform: 'App der Plattform',
    platformText:
      'Sie nutzen die App dieser Installation. Registrieren Sie eine eigene, um ihren Zugriff auf GitHub zu steuern.',
    organization: 'GitHub-Organisation',
    organizationHint: 'Ihr wird die App gehören. Sie müssen zu den Eigentümern gehören.',
    steps: [
      'Geben Sie Ihre GitHub-Organisation ein, und fahren Sie bei GitHub fort.',
      'GitHub zeigt, was die App darf: Inhalte und Metadaten lesen. Bestätigen Sie es dort.',
      'GitHub erstellt die App und schickt Sie zurück zu Inlay.',
    ],
    register: 'Weiter zu GitHub',
    slug: 'App',
    repository: 'Repository',
    since: 'Registriert',
    remove: 'App entfernen',
    removeTitle: 'GitHub-App entfernen?',
    removeText:
      'Inlay löscht ihre Zugangsdaten und nutzt wieder die App der Plattform. Auf GitHub gibt es die App, bis Sie sie dort löschen.',
    removed: 'GitHub-App entfernt',
    open: 'Auf GitHub öffnen',
  },
})

const githubAppQuery = read(['github-app'], (signal) => api.GET('/org-github-apps/config', { signal }))
type GithubApp = Awaited<ReturnType<typeof fetchApp>>
const fetchApp = () => unwrap(api.GET('/org-github-apps/config'))

export default function CodeHost() {
  const { isAdmin } = useOrganization()
  const app = useQuery({ ...githubAppQuery, enabled: isAdmin })
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {isAdmin ? (
        <Loaded query={app}>{(data) => (data.configured ? <OwnApp app={data} /> : <Registration />)}</Loaded>
      ) : (
        <AdminsOnly />
      )}
    </>
  )
}

function OwnApp({ app }: { app: GithubApp }) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/org-github-apps/config')),
    async onSuccess() {
      await queryClient.invalidateQueries({ queryKey: githubAppQuery.queryKey })
      notify(t.removed)
    },
  })
  return (
    <Section title={t.app} actions={<Badge tone="good">{t.own}</Badge>}>
      <Facts
        facts={[
          [t.slug, app.app_slug ?? words.none],
          [t.organization, app.github_org_name ?? words.none],
          [t.repository, app.repository ?? words.none],
          [t.since, <Time key="time" at={app.created_at} />],
        ]}
      />
      <div className="mt-4 flex flex-wrap gap-2">
        {app.app_url?.startsWith('https://') && (
          <a href={app.app_url} target="_blank" rel="noopener noreferrer" className="button">
            <ExternalLink size={16} strokeWidth={1.5} aria-hidden /> {t.open}
          </a>
        )}
        <Button onClick={() => setAsking(true)}>{t.remove}</Button>
      </div>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.removeTitle}
        text={t.removeText}
        action={words.remove}
        {...(app.app_slug && { typed: app.app_slug })}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </Section>
  )
}

function Registration() {
  const [name, setName] = useState('')
  const start = useMutation({
    mutationFn: () => unwrap(api.POST('/org-github-apps/manifest-start', { body: { github_org_name: name.trim() } })),
    onSuccess: ({ registration_url, manifest }) => postManifest(registration_url, manifest),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!start.isPending) start.mutate()
  }
  return (
    <Section title={t.app} text={t.platformText} actions={<Badge>{t.platform}</Badge>}>
      <div className="grid gap-6 md:grid-cols-2">
        <form onSubmit={submit} className="grid content-start gap-3">
          <Field label={t.organization} hint={t.organizationHint} error={fieldProblem(start.error, 'github_org_name')}>
            <Input
              value={name}
              required
              maxLength={39}
              spellCheck={false}
              autoComplete="off"
              placeholder="acme"
              onChange={({ target }) => setName(target.value)}
            />
          </Field>
          <FormError error={start.error} />
          <div>
            <Button type="submit" variant="primary" icon={GitBranch} isPending={start.isPending || start.isSuccess}>
              {t.register}
            </Button>
          </div>
        </form>
        <ol className="grid content-start gap-2">
          {t.steps.map((step, at) => (
            <li key={step} className="flex gap-2.5 text-muted">
              <span className="grid size-5 shrink-0 place-items-center rounded-full bg-sunken text-xs font-[550]">
                {at + 1}
              </span>
              {step}
            </li>
          ))}
        </ol>
      </div>
    </Section>
  )
}

/** GitHub takes the manifest from a form that the browser posts. */
function postManifest(action: string, manifest: string): void {
  if (!action.startsWith('https://github.com/')) return
  const form = document.createElement('form')
  form.method = 'post'
  form.action = action
  const field = document.createElement('input')
  field.type = 'hidden'
  field.name = 'manifest'
  field.value = manifest
  form.append(field)
  document.body.append(form)
  form.submit()
}
