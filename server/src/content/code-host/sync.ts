import type { Service } from '../../kernel/foundation/service.ts'
import { isUnavailable } from '../../kernel/lib/errors.ts'
import type { Database, Sql } from '../../kernel/stores/database.ts'
import { type Github, githubTimeoutMs } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import { applySyncedFiles, type SyncOutcome, selectSyncedHashes } from '../skills/synced-skills.ts'
import { readAppCredentials } from './github-app.ts'
import { readSkillFiles } from './skill-files.ts'

/** Syncs the skills of connected repositories. What is to be done is in the database, so any node can do it. */
export interface CodeSync {
  /** Starts syncs that are due. Call it after a commit that makes one due. */
  wake(): void
  /** Stops running syncs. Another node, or the next start, repeats them. */
  close(): Promise<void>
}

const lookEveryMs = 5_000
/** Number of organizations that a node syncs at once. */
const mostAtOnce = 4
/** Renewed before each request to GitHub. */
const leaseSeconds = (2 * githubTimeoutMs) / 1000
const longestSyncMs = 15 * 60_000
/** In case a webhook was lost, or GitHub can't reach the server. */
const syncEverySeconds = 3600
const firstRetrySeconds = 30

type Needs = Service & { github: Github }

export function createCodeSync(service: Needs, everyMs = lookEveryMs): CodeSync {
  const { database, log } = service
  const stop = new AbortController()
  const running = new Map<string, Promise<void>>()

  async function startDue(): Promise<void> {
    if (stop.signal.aborted) return
    const due = await database.asSyncer(
      (sql) => sql<{ organization_id: string }>`
        select organization_id from github_repositories
        where due_at <= now() and (leased_until is null or leased_until < now())
        order by due_at limit ${2 * mostAtOnce}`,
    )
    for (const { organization_id } of due) {
      if (running.size < mostAtOnce && !running.has(organization_id))
        running.set(organization_id, start(organization_id))
    }
  }

  async function start(organizationId: string): Promise<void> {
    try {
      const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(longestSyncMs)])
      await syncOrganization(service, organizationId, signal)
      running.delete(organizationId)
      wake()
    } catch (error) {
      // Not repeated right away: the stores may be unreachable.
      running.delete(organizationId)
      log.warn({ err: error, organization_id: organizationId }, 'Could not sync a repository; retrying')
    }
  }

  let isWanted = false
  let looking = Promise.resolve()
  function wake(): void {
    if (isWanted || stop.signal.aborted) return
    isWanted = true
    looking = looking.then(async () => {
      isWanted = false
      await startDue().catch((error) => log.warn({ err: error }, 'Could not list due syncs; retrying'))
    })
  }

  wake()
  const timer = setInterval(wake, everyMs)
  timer.unref()
  return {
    wake,
    async close() {
      clearInterval(timer)
      stop.abort()
      await looking
      await Promise.all(running.values())
    },
  }
}

/** A node's right to sync an organization. */
interface Lease {
  organization_id: string
  epoch: number
  /** The requests that this sync answers. */
  requests: number
  repository_id: number
  installation_id: number
  full_name: string
  failures: number
}

class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
}

async function syncOrganization(service: Needs, organizationId: string, signal: AbortSignal): Promise<void> {
  const { database, log } = service
  const lease = await takeLease(database, organizationId)
  if (!lease) return
  try {
    await syncSkills(service, lease, signal)
  } catch (error) {
    if (error instanceof LeaseLost) return
    if (signal.aborted) return await endLease(database, lease)
    if (isUnavailable(error)) throw error
    if (!(error instanceof GithubError)) log.error({ err: error, organization_id: organizationId }, 'A sync failed')
    await recordFailure(service, lease, error)
  }
}

/** Reads everything first, and then changes all skills in one transaction: a sync happens completely, or not at all. */
async function syncSkills(service: Needs, lease: Lease, signal: AbortSignal): Promise<void> {
  const { database, github } = service
  const { organization_id, repository_id } = lease
  const credentials = await readAppCredentials(service, organization_id)
  // The operator may have removed their app. If the organization removed its own, the lease is gone, too.
  if (!credentials) throw new GithubError('refused', 'The GitHub app is no longer available. Register your own app.')
  const known = await database.asOrg(organization_id, (sql) => selectSyncedHashes(sql, repository_id))
  const beforeEach = () => renewLease(database, lease)
  const opened = await github.openRepository(credentials, lease, { signal, beforeEach })
  const files = await readSkillFiles(opened, known)
  await database.asOrg(organization_id, async (sql) => {
    const [held] = await sql`
      select from github_repositories where lease_epoch = ${lease.epoch} and leased_until is not null for update`
    if (!held) throw new LeaseLost('Another node syncs, or the repository was disconnected')
    const repository = { id: repository_id, full_name: opened.full_name, commit: opened.commit }
    const outcome = await applySyncedFiles(service, sql, organization_id, repository, files)
    const result = { status: 'succeeded', commit: opened.commit, problem: null, ...outcome }
    await sql`
      update github_repositories set
        installation_id = ${opened.installation_id}, full_name = ${opened.full_name}, url = ${opened.html_url}, default_branch = ${opened.default_branch},
        leased_until = null, failures = 0, blocked_until = null,
        due_at = case when requests > ${lease.requests} then now() else now() + make_interval(secs => ${syncEverySeconds}) end,
        synced_at = now(), synced_commit = ${opened.commit},
        last_sync = ${JSON.stringify(result)}::jsonb || jsonb_build_object('finished_at', iso_timestamp(now()::timestamptz(3)))`
  })
}

/** Only one of several concurrent callers gets the lease. */
async function takeLease({ asOrg }: Database, organizationId: string): Promise<Lease | undefined> {
  const [lease] = await asOrg(
    organizationId,
    (sql) => sql<Lease>`
      update github_repositories
      set lease_epoch = lease_epoch + 1, leased_until = now() + make_interval(secs => ${leaseSeconds})
      where due_at <= now() and (leased_until is null or leased_until < now())
      returning organization_id, lease_epoch as epoch, requests, repository_id, installation_id, full_name, failures`,
  )
  return lease
}

async function renewLease({ asOrg }: Database, { organization_id, epoch }: Lease): Promise<void> {
  const [renewed] = await asOrg(
    organization_id,
    (sql) => sql`
      update github_repositories set leased_until = now() + make_interval(secs => ${leaseSeconds})
      where lease_epoch = ${epoch} and leased_until is not null returning true`,
  )
  if (!renewed) throw new LeaseLost('Another node syncs, or the repository was disconnected')
}

const endLease = async ({ asOrg }: Database, { organization_id, epoch }: Lease): Promise<void> =>
  void (await asOrg(
    organization_id,
    (sql) => sql`update github_repositories set leased_until = null where lease_epoch = ${epoch}`,
  ))

const nothingChanged: SyncOutcome = { created: 0, updated: 0, archived: 0, unchanged: 0, problems: [] }

/** A failure that passes is retried with growing pauses. Any other waits for a request, or for the next hour. */
async function recordFailure({ database, clock }: Service, lease: Lease, error: unknown): Promise<void> {
  const { organization_id, epoch, failures, requests } = lease
  const known = error instanceof GithubError ? error : undefined
  const passes = known !== undefined && known.kind !== 'refused'
  const pauseSeconds = known?.retryAt
    ? Math.max(1, (known.retryAt - clock()) / 1000)
    : Math.min(firstRetrySeconds * 2 ** failures, syncEverySeconds)
  const problem = known?.message ?? 'An Inlay error occurred. The server’s log has the details'
  const result = { status: passes ? 'retrying' : 'failed', commit: null, problem, ...nothingChanged }
  await database.asOrg(
    organization_id,
    (sql: Sql) => sql`
      update github_repositories set
        leased_until = null, failures = failures + 1,
        blocked_until = case when ${known?.kind === 'rate_limited'} then now() + make_interval(secs => ${pauseSeconds}) end,
        due_at = case when ${passes} then now() + make_interval(secs => ${pauseSeconds})
                      when requests > ${requests} then now()
                      else now() + make_interval(secs => ${syncEverySeconds}) end,
        last_sync = ${JSON.stringify(result)}::jsonb || jsonb_build_object('finished_at', iso_timestamp(now()::timestamptz(3)))
      where lease_epoch = ${epoch} and leased_until is not null`,
  )
}
