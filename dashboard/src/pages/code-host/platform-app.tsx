import { useMutation, useQueryClient } from '@tanstack/react-query'
import { GitBranch } from 'lucide-react'
import { useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Badge, Facts, Section } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { GithubLink } from './own-app.tsx'
import { githubAppQuery, type PlatformGithubApp } from './queries.ts'
import { t } from './texts.ts'

/** The operator's app, which the organization has installed. */
export function PlatformApp({ app }: { app: PlatformGithubApp }) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/org-github-apps/installation')),
    async onSuccess({ repo_disconnected }) {
      await queryClient.invalidateQueries({ queryKey: githubAppQuery.queryKey })
      notify(t.platformRemoved, { ...(repo_disconnected && { text: t.removedWithRepository }) })
    },
  })
  return (
    <Section title={t.app} text={t.platformText} actions={<Badge tone="good">{t.platformInstalled}</Badge>}>
      <Facts
        facts={[
          [t.slug, app.app_slug],
          [t.account, app.installation?.account ?? words.none],
          [t.connectedBy, app.installation?.installed_by ?? words.none],
          [t.connectedAt, <Time key="time" at={app.installation?.installed_at ?? null} />],
        ]}
      />
      <div className="mt-4 flex flex-wrap gap-2">
        <GithubLink url={app.app_url}>{t.open}</GithubLink>
        <Button onClick={() => setAsking(true)}>{t.platformRemove}</Button>
      </div>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.platformRemoveTitle}
        text={t.platformRemoveText}
        action={t.disconnect}
        isPending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      />
    </Section>
  )
}

/** Goes to GitHub in this tab: the way back must end in the browser of the admin who started. */
export function InstallPlatformApp() {
  const start = useMutation({
    mutationFn: () => unwrap(api.POST('/org-github-apps/installation-start')),
    onSuccess: ({ installation_url }) => location.assign(installation_url),
  })
  return (
    <div className="grid gap-2">
      <FormError error={start.error} />
      <div>
        <Button
          variant="primary"
          icon={GitBranch}
          isPending={start.isPending || start.isSuccess}
          onClick={() => start.mutate()}
        >
          {t.install}
        </Button>
      </div>
    </div>
  )
}
