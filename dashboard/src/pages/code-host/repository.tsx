import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { RefreshCw } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input, Select } from '../../ui/controls/form.tsx'
import { Facts, Notice, Section } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { ConfirmDialog } from '../../ui/overlays/overlays.tsx'
import { notify } from '../../ui/overlays/toasts.tsx'
import { GithubLink } from './own-app.tsx'
import { InstallPlatformApp } from './platform-app.tsx'
import {
  type ConnectedRepository,
  connectionQuery,
  type GithubApp,
  githubAppQuery,
  repositoriesQuery,
} from './queries.ts'
import { SyncBadge, SyncResult } from './sync-result.tsx'
import { t } from './texts.ts'

const pollMs = 1_500

/** The connected repository, or the choice of one. */
export function RepositorySection({ app }: { app: GithubApp }) {
  const connection = useQuery({
    ...connectionQuery,
    // A sync that runs, or is about to, is followed closely.
    refetchInterval: ({ state }) =>
      state.data?.repository && state.data.repository.state !== 'idle' ? pollMs : 15_000,
  })
  return (
    <Loaded query={connection}>
      {({ repository }) => (repository ? <Connected repository={repository} /> : <Choice app={app} />)}
    </Loaded>
  )
}

function Connected({ repository }: { repository: ConnectedRepository }) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const sync = useMutation({
    mutationFn: () => unwrap(api.POST('/org-github-apps/sync')),
    onSuccess: (data) => queryClient.setQueryData(connectionQuery.queryKey, data),
  })
  const disconnect = useMutation({
    mutationFn: () => unwrap(api.DELETE('/org-github-apps/repository')),
    async onSuccess() {
      await queryClient.invalidateQueries({ queryKey: githubAppQuery.queryKey })
      notify(t.disconnected)
    },
  })
  return (
    <Section title={t.repository} text={t.repositoryText} actions={<SyncBadge repository={repository} />}>
      <Facts
        facts={[
          [t.repository, repository.repository],
          [
            t.branch,
            <span key="branch" className="mono">
              {repository.default_branch}
            </span>,
          ],
          [t.connectedBy, repository.connected_by],
          [t.connectedAt, <Time key="time" at={repository.connected_at} />],
        ]}
      />
      <SyncResult repository={repository} />
      <div className="mt-4 grid gap-2">
        <FormError error={sync.error} />
        <div className="flex flex-wrap gap-2">
          <Button
            variant="primary"
            icon={RefreshCw}
            isPending={sync.isPending || repository.state === 'syncing'}
            onClick={() => sync.mutate()}
          >
            {t.syncNow}
          </Button>
          <GithubLink url={repository.url}>{t.open}</GithubLink>
          <Button onClick={() => setAsking(true)}>{t.disconnect}</Button>
        </div>
      </div>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.disconnectTitle}
        text={t.disconnectText}
        action={t.disconnect}
        isPending={disconnect.isPending}
        error={disconnect.error}
        onConfirm={() => disconnect.mutate()}
      />
    </Section>
  )
}

function Choice({ app }: { app: GithubApp }) {
  // Loaded again when the user comes back from GitHub, where they gave the app access.
  const repositories = useQuery({ ...repositoriesQuery, staleTime: 0, refetchOnWindowFocus: 'always' })
  return (
    <Section title={t.repository} text={t.repositoryText}>
      <Loaded query={repositories}>
        {({ is_installed, is_complete, repositories: list }) => (
          <>
            {!is_installed && <Notice>{t.notInstalled}</Notice>}
            {is_installed && list.length === 0 && <Notice>{t.noRepositories}</Notice>}
            {!is_complete && <Notice tone="wait">{t.incomplete}</Notice>}
            {list.length > 0 && <Picker names={list.map(({ repository }) => repository)} isComplete={is_complete} />}
            {!app.configured && !is_installed ? (
              <div className="mt-3">
                <InstallPlatformApp />
              </div>
            ) : (
              <div className="mt-3 flex flex-wrap items-center gap-3">
                <GithubLink url={accessUrl(app)}>{is_installed ? t.access : t.install}</GithubLink>
                {list.length > 0 && <span className="text-sm text-muted">{t.moreAccess}</span>}
              </div>
            )}
          </>
        )}
      </Loaded>
    </Section>
  )
}

/** GitHub shows the settings of the installation there, if there is one. */
const accessUrl = ({ configured, installation_url, platform_app }: GithubApp): string | null =>
  configured || !platform_app ? installation_url : `${platform_app.app_url}/installations/new`

function Picker({ names, isComplete }: { names: string[]; isComplete: boolean }) {
  const queryClient = useQueryClient()
  const [chosen, setChosen] = useState('')
  const [typed, setTyped] = useState('')
  const name = typed.trim() || chosen
  const connect = useMutation({
    mutationFn: () => unwrap(api.PUT('/org-github-apps/repository', { body: { repository: name } })),
    async onSuccess(data) {
      queryClient.setQueryData(connectionQuery.queryKey, data)
      notify(t.connected(name))
      await queryClient.invalidateQueries({ queryKey: githubAppQuery.queryKey })
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (name && !connect.isPending) connect.mutate()
  }
  return (
    <form onSubmit={submit} className="grid max-w-md gap-3">
      <Field label={t.choose}>
        <Select
          value={chosen}
          onValue={setChosen}
          options={[['', t.chooseFirst], ...names.map((each) => [each, each] as const)]}
        />
      </Field>
      {!isComplete && (
        <Field label={t.other} hint={t.otherHint}>
          <Input
            value={typed}
            maxLength={200}
            spellCheck={false}
            autoComplete="off"
            placeholder="acme/playbook"
            onChange={({ target }) => setTyped(target.value)}
          />
        </Field>
      )}
      <FormError error={connect.error} />
      <div>
        <Button type="submit" variant="primary" disabled={!name} isPending={connect.isPending}>
          {t.connect}
        </Button>
      </div>
    </form>
  )
}
