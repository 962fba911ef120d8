import type { Service } from '../../kernel/foundation/service.ts'
import type { Job, JobEnd, JobKind } from '../../kernel/jobs/jobs.ts'
import { isUnavailable } from '../../kernel/lib/errors.ts'
import type { Github } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import { applySyncedFiles, type SyncOutcome, selectSyncedHashes } from '../skills/synced-skills.ts'
import { readAppCredentials } from './github-app.ts'
import { readSkillFiles } from './skill-files.ts'

export const codeSync = 'code_sync'
/** Number of organizations that a node syncs at once. */
const mostAtOnce = 4
const longestSyncMs = 15 * 60_000
/** In case a webhook was lost, or GitHub can't reach the server. */
const syncEverySeconds = 3600
const firstRetrySeconds = 30

type Needs = Service & { github: Github }

interface Connected {
  repository_id: number
  installation_id: number
  full_name: string
  failures: number
}

/** Syncs the skills of connected repositories. */
export const syncingCode = (service: Needs): JobKind => ({
  name: codeSync,
  atOnce: mostAtOnce,
  longestMs: longestSyncMs,
  async run(job) {
    const [connected] = await job.transaction(
      (sql) => sql<Connected>`
        select repository_id, installation_id, full_name, failures from github_repositories`,
    )
    if (!connected) return 'done'
    try {
      return await syncSkills(service, job, connected)
    } catch (error) {
      if (job.signal.aborted || isUnavailable(error)) throw error
      if (!(error instanceof GithubError)) {
        service.log.error({ err: error, organization_id: job.organizationId }, 'A sync failed')
      }
      return recordFailure(service, job, connected, error)
    }
  },
})

/** Reads everything first, and then changes all skills in one transaction: a sync happens completely, or not at all. */
async function syncSkills(service: Needs, job: Job, connected: Connected): Promise<JobEnd> {
  const { database, github } = service
  const { organizationId, signal } = job
  const { repository_id } = connected
  const credentials = await readAppCredentials(service, organizationId)
  // The operator may have removed their app. If the organization removed its own, its repository is gone, too.
  if (!credentials) throw new GithubError('refused', 'The GitHub app is no longer available. Register your own app.')
  const known = await database.asOrg(organizationId, (sql) => selectSyncedHashes(sql, repository_id))
  const opened = await github.openRepository(credentials, connected, { signal })
  const files = await readSkillFiles(opened, known)
  return job.settle(async (sql) => {
    const [held] = await sql`select from github_repositories where repository_id = ${repository_id} for update`
    if (!held) return 'done'
    const repository = { id: repository_id, full_name: opened.full_name, commit: opened.commit }
    const outcome = await applySyncedFiles(service, sql, organizationId, repository, files)
    const result = { status: 'succeeded', commit: opened.commit, problem: null, ...outcome }
    await sql`
      update github_repositories set
        installation_id = ${opened.installation_id}, full_name = ${opened.full_name}, url = ${opened.html_url}, default_branch = ${opened.default_branch},
        failures = 0, blocked_until = null, synced_at = now(), synced_commit = ${opened.commit},
        last_sync = ${JSON.stringify(result)}::jsonb || jsonb_build_object('finished_at', iso_timestamp(now()::timestamptz(3)))`
    return { again: { inSeconds: syncEverySeconds } }
  })
}

const nothingChanged: SyncOutcome = { created: 0, updated: 0, archived: 0, unchanged: 0, problems: [] }

/** A failure that passes is retried with growing pauses. Any other waits for a request, or for the next hour. */
function recordFailure({ clock }: Service, job: Job, { failures }: Connected, error: unknown): Promise<JobEnd> {
  const known = error instanceof GithubError ? error : undefined
  const passes = known !== undefined && known.kind !== 'refused'
  const pauseSeconds = known?.retryAt
    ? Math.max(1, (known.retryAt - clock()) / 1000)
    : Math.min(firstRetrySeconds * 2 ** failures, syncEverySeconds)
  const problem = known?.message ?? 'An Inlay error occurred. The server’s log has the details'
  const result = { status: passes ? 'retrying' : 'failed', commit: null, problem, ...nothingChanged }
  return job.settle(async (sql) => {
    await sql`
      update github_repositories set failures = failures + 1,
        blocked_until = case when ${known?.kind === 'rate_limited'} then now() + make_interval(secs => ${pauseSeconds}) end,
        last_sync = ${JSON.stringify(result)}::jsonb || jsonb_build_object('finished_at', iso_timestamp(now()::timestamptz(3)))`
    return { again: { inSeconds: passes ? pauseSeconds : syncEverySeconds } }
  })
}
