import { useMutation, useQueryClient } from '@tanstack/react-query'
import { ExternalLink } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Facts, Section } from '../../ui/display/layout.tsx'
import { Time } from '../../ui/display/time.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { type GithubApp, githubAppQuery } from './queries.ts'
import { t } from './texts.ts'

const secret = (last4: string | null) => (last4 ? <span className="mono">{t.endsWith(last4)}</span> : words.none)

/** The organization's app, without its secrets. */
export function OwnApp({ app }: { app: GithubApp }) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/org-github-apps/config')),
    async onSuccess({ repo_disconnected }) {
      await queryClient.invalidateQueries({ queryKey: githubAppQuery.queryKey })
      notify(t.removed, { ...(repo_disconnected && { text: t.removedWithRepository }) })
    },
  })
  return (
    <Section title={t.app} actions={<Badge tone="good">{t.own}</Badge>}>
      <Facts
        facts={[
          [t.slug, app.app_slug ?? words.none],
          [t.organization, app.github_org_name ?? words.none],
          [t.clientSecret, secret(app.client_secret_last4)],
          [t.webhookSecret, secret(app.webhook_secret_last4)],
          [t.since, <Time key="time" at={app.created_at} />],
        ]}
      />
      <div className="mt-4 flex flex-wrap gap-2">
        <GithubLink url={app.app_url}>{t.open}</GithubLink>
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

/** A link that looks like a button. Only web addresses become links. */
export function GithubLink({ url, children }: { url: string | null; children: string }) {
  if (!url || !/^https?:\/\//.test(url)) return null
  return (
    <a href={url} target="_blank" rel="noopener noreferrer" className="button">
      <ExternalLink size={16} strokeWidth={1.5} aria-hidden /> {children}
    </a>
  )
}
