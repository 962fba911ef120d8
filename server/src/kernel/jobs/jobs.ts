import { randomUUID } from 'node:crypto'
import type { Service } from '../foundation/service.ts'
import type { Sql } from '../stores/database.ts'
import { type Due, noOrganization } from './requests.ts'

/**
 * The only queue for background work. A transaction requests a job (requests.ts), and a node runs it after the commit.
 *
 * A job has a kind, a key, and an organization or none. It has no contents: its handler reads what is to be done, so it
 * must be safe to repeat. There is one row for each organization, kind and key, so the runs of a key never overlap, and
 * each sees what was committed when it was requested.
 *
 * The node that runs a job has a lease on it. If the node dies, another one takes the job when the lease ends. A handler
 * writes with `job.transaction` or `job.settle`, which fail after the lease was lost, and stops when `job.signal` aborts.
 */
export interface Jobs {
  /** Starts running jobs of these kinds. A node leaves kinds that it doesn't know to others. */
  serve(kinds: readonly JobKind[]): { close(): Promise<void> }
  /**
   * Runs a job now if it's due, and waits for it, also if this node is already running it. Never fails: a job that fails
   * is retried later. Returns without waiting if another node runs it.
   */
  run(job: JobName): Promise<void>
}

/** A job's identity. */
interface JobName {
  organizationId?: string
  kind: string
  key?: string
}

/** A kind of jobs, declared by the capability that does the work. */
export interface JobKind {
  name: string
  /** How many a node runs at the same time. */
  atOnce: number
  /** The same for each organization. Otherwise, up to half of the node's places. */
  atOnceInOrganization?: number
  /** For how long a node may renew the lease of one run. Otherwise, a run that takes longer than one lease is lost. */
  longestMs?: number
  /** The longest pause between two attempts. */
  retryWithinSeconds?: number
  /** What an error says about the next attempt. */
  judge?(error: unknown): ErrorVerdict
  /** After an error, the job is retried with growing pauses. */
  run(job: Job): Promise<JobOutcome | JobEnd>
}

/** Done, to be run again at a time, or failed for good until it's requested again. */
export type JobOutcome = 'done' | { again: Due } | { failed: string }

/** For work that recurs while there is something to do: the time of the next run, or null. */
export const againAt = (at: string | null | undefined): JobOutcome => (at ? { again: { at } } : 'done')

/** The outcome is already stored. */
export interface JobEnd {
  isSettled: true
}
const settled: JobEnd = { isSettled: true }

export interface Job {
  organizationId: string
  key: string
  /** Failed attempts in a row before this one. */
  failures: number
  /** Aborts when the lease is lost or the server stops. */
  signal: AbortSignal
  /** A transaction in the job's organization, which only commits if the node still has the lease. */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** The same, which also ends the job with the outcome that `work` returns. Return the result from the handler. */
  settle(work: (sql: Sql) => Promise<JobOutcome>): Promise<JobEnd>
}

interface ErrorVerdict {
  /**
   * The destination is away, so no job of the kind can succeed at the moment. The node pauses the kind, and tries one job
   * after each pause.
   */
  isAway?: boolean
  /** The shortest pause before the next attempt of this job. */
  retryAfterSeconds?: number
}

class JobLost extends Error {
  override name = 'JobLost'
}

export interface JobTimes {
  /** After a crash, the next attempt begins at most this and a poll later. */
  leaseMs: number
  renewMs: number
  pollMs: number
  /** How long a kind pauses while its destination is away. */
  pauseMs: number
}

const defaultTimes: JobTimes = { leaseMs: 7_000, renewMs: 2_000, pollMs: 2_000, pauseMs: 2_000 }
/** Jobs that a node runs at the same time. An organization has at most half of the places. */
const places = 10
const placesOfOrganization = places / 2
const firstRetrySeconds = 5
const lastRetrySeconds = 15 * 60
const longestErrorLength = 500
/** At once, so that the statement stays short if very many become due at the same time. */
const mostMarked = 10_000

interface Claim {
  organization_id: string
  kind: string
  key: string
  attempts: number
  /** The node that ran it before neither ended nor released it. */
  is_abandoned: boolean
}

interface Running extends Claim {
  lease: string
  /** A caller has asked this node to run it now, and waits. */
  hasCaller: boolean
  startedAt: number
  /** When the lease ends, unless it is renewed. */
  heldUntil: number
  abort: AbortController
  ended: Promise<void>
}

const beforeAll = '00000000-0000-0000-0000-000000000000'

export function createJobs(
  { database, log }: Pick<Service, 'database' | 'log'>,
  { leaseMs, renewMs, pollMs, pauseMs }: JobTimes = defaultTimes,
): Jobs {
  const kinds = new Map<string, JobKind>()
  const running = new Set<Running>()
  /** Kinds whose destination is away, and until when they pause. */
  const away = new Map<string, number>()
  /** The organization of the last claim: the next one is the first in the order after it that has a due job. */
  let lastServed = beforeAll
  let isClosed = false

  // One claim after the other: concurrent ones would all serve the same organization.
  let claims: Promise<unknown> = Promise.resolve()
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = claims.then(work)
    claims = result.catch(() => undefined)
    return result
  }

  let isLooking = false
  function look(): void {
    if (isLooking || isClosed || kinds.size === 0) return
    isLooking = true
    inTurn(async () => {
      isLooking = false
      while (count(() => true) < places) {
        const claimed = await claimNext()
        if (!claimed) return
        void claimed.ended.then(look)
      }
    }).catch((error) => log.warn({ err: error }, 'Could not look for background jobs; retrying'))
  }

  /** Jobs that callers run take no places, because others would wait for as many callers as one organization has. */
  const count = (matches: (one: Running) => boolean): number =>
    [...running].filter((one) => !one.hasCaller && matches(one)).length

  /** A kind whose destination is away has one place after its pause. */
  function isFree({ name, atOnce }: JobKind): boolean {
    const pausedUntil = away.get(name)
    const most = pausedUntil === undefined ? atOnce : performance.now() < pausedUntil ? 0 : 1
    return count(({ kind }) => kind === name) < most
  }

  async function claimNext(): Promise<Running | undefined> {
    const free = [...kinds.values()].filter(isFree)
    if (isClosed || free.length === 0) return undefined
    const names = free.map(({ name }) => name)
    const claimed = await claimAfter(lastServed, names)
    if (claimed || lastServed === beforeAll) return claimed
    return claimAfter(beforeAll, names)
  }

  async function claimAfter(organizationId: string, names: readonly string[]): Promise<Running | undefined> {
    const organizations = [...new Set([...running].map(({ organization_id }) => organization_id))]
    const isOf = (id: string, name?: string) => (one: Running) =>
      one.organization_id === id && (name === undefined || one.kind === name)
    const full = organizations.filter((id) => count(isOf(id)) >= placesOfOrganization)
    const fullKinds = organizations.flatMap((id) =>
      names
        .filter((name) => count(isOf(id, name)) >= (kinds.get(name)?.atOnceInOrganization ?? placesOfOrganization))
        .map((name) => `${id} ${name}`),
    )
    const lease = randomUUID()
    const claimedAt = performance.now()
    const [, [claim]] = await database.asWorker((sql) =>
      Promise.all([
        markDue(sql),
        // Walks from organization to organization in the index of what is due, however many jobs each of them has.
        sql<Claim>`
          with recursive walk as (
            (select organization_id from jobs
             where is_due and organization_id > ${organizationId} order by organization_id limit 1)
            union all
            select next.* from walk o cross join lateral (
              select organization_id from jobs
              where is_due and organization_id > o.organization_id order by organization_id limit 1) next
          ), due as (
            select job.* from walk o cross join lateral (
              select organization_id, kind, key, lease is not null as is_abandoned from jobs
              where is_due and organization_id = o.organization_id and due_at <= now()
                and kind = any(${names}) and organization_id || ' ' || kind <> all(${fullKinds})
              order by due_at limit 1 for update skip locked) job
            where o.organization_id <> all(${full}::uuid[])
            limit 1
          )
          update jobs set lease = ${lease}, due_at = now() + ${leaseMs} * interval '1 millisecond',
            again_at = case when again_at > now() then again_at end, attempts = attempts + 1
          from due
          where jobs.organization_id = due.organization_id and jobs.kind = due.kind and jobs.key = due.key
          returning jobs.organization_id, jobs.kind, jobs.key, jobs.attempts, due.is_abandoned`,
      ]),
    )
    lastServed = claim?.organization_id ?? beforeAll
    return claim && start({ ...claim, lease, hasCaller: false }, claimedAt)
  }

  async function claimOne({ organizationId, kind, key }: Required<JobName>): Promise<Running | undefined> {
    if (isClosed || !kinds.has(kind)) return undefined
    const lease = randomUUID()
    const claimedAt = performance.now()
    const [claim] = await database.asWorker(
      (sql) => sql<Claim>`
        update jobs set lease = ${lease}, due_at = now() + ${leaseMs} * interval '1 millisecond',
          again_at = case when again_at > now() then again_at end, attempts = attempts + 1
        where organization_id = ${organizationId} and kind = ${kind} and key = ${key} and due_at <= now()
        returning organization_id, kind, key, attempts, false as is_abandoned`,
    )
    return claim && start({ ...claim, lease, hasCaller: true }, claimedAt)
  }

  function start(claim: Pick<Running, keyof Claim | 'lease' | 'hasCaller'>, claimedAt: number): Running {
    const abort = new AbortController()
    const one = {
      ...claim,
      startedAt: claimedAt,
      heldUntil: claimedAt + leaseMs,
      abort,
      ended: Promise.resolve(),
    }
    running.add(one)
    one.ended = perform(one).finally(() => running.delete(one))
    return one
  }

  /** Never fails. */
  async function perform(one: Running): Promise<void> {
    const kind = kinds.get(one.kind) as JobKind
    try {
      // It may be the job that kills its nodes. Once can be chance, and the rest of the lease was a pause already.
      const earlier = one.attempts - 1
      if (one.is_abandoned && earlier > 1) {
        await retryLater(kind, { ...one, attempts: earlier }, new Error('The node that ran the job died'))
        return
      }
      const outcome = await kind.run(describe(one))
      away.delete(kind.name)
      if (typeof outcome === 'object' && 'isSettled' in outcome) return
      await within(one, (sql) => end(sql, one, outcome))
    } catch (error) {
      await recover(kind, one, error).catch((failure) =>
        log.warn(
          { err: failure, ...labels(one) },
          'Could not store that a background job failed; another node retries it',
        ),
      )
    }
  }

  async function recover(kind: JobKind, one: Running, error: unknown): Promise<unknown> {
    const reason = one.abort.signal.reason
    if (error instanceof JobLost || reason instanceof JobLost) {
      return log.warn(labels(one), 'Lost the lease of a background job; another node retries it')
    }
    if (isClosed && one.abort.signal.aborted) return within(one, (sql) => release(sql, one))
    const { isAway = false, retryAfterSeconds = 0 } = kind.judge?.(error) ?? {}
    if (isAway) away.set(kind.name, performance.now() + pauseMs)
    else away.delete(kind.name)
    return retryLater(kind, one, error, retryAfterSeconds)
  }

  function retryLater(kind: JobKind, one: Running, error: unknown, retryAfterSeconds = 0): Promise<unknown> {
    const backoff = Math.min(firstRetrySeconds * 2 ** Math.min(one.attempts - 1, 20), lastRetrySeconds)
    const seconds = Math.max(retryAfterSeconds, Math.min(backoff, kind.retryWithinSeconds ?? lastRetrySeconds))
    log.warn({ err: error, ...labels(one), seconds }, 'A background job failed; retrying')
    return within(one, (sql) => postpone(sql, one, seconds, error))
  }

  /** A transaction in the job's organization. */
  const within = <T>({ organization_id: id }: Claim, work: (sql: Sql) => Promise<T>): Promise<T> =>
    id === noOrganization ? database.asWorker(work) : database.asOrg(id, work)

  const describe = (one: Running): Job => ({
    organizationId: one.organization_id,
    key: one.key,
    failures: one.attempts - 1,
    signal: one.abort.signal,
    transaction: (work) =>
      within(one, async (sql) => {
        const result = await work(sql)
        await requireLease(sql, one)
        return result
      }),
    settle: (work) =>
      within(one, async (sql) => {
        await end(sql, one, await work(sql))
        return settled
      }),
  })

  /** Renews all leases of this node, and aborts the jobs whose lease is lost. */
  async function renew(): Promise<void> {
    const begunAt = performance.now()
    for (const one of running) {
      const { longestMs = leaseMs } = kinds.get(one.kind) ?? {}
      if (begunAt - one.startedAt > longestMs) one.abort.abort(new Error('The job takes too long'))
    }
    const held = [...running].filter(({ abort }) => !abort.signal.aborted)
    if (held.length === 0) return
    try {
      const known = await renewLeases(held)
      for (const one of held) {
        const isRenewed = known.get(one.lease)
        if (isRenewed) one.heldUntil = begunAt + leaseMs
        if (isRenewed === undefined && running.has(one)) lose(one)
      }
    } finally {
      for (const one of held) if (performance.now() > one.heldUntil) lose(one)
    }
  }

  const lose = ({ abort }: Running) => abort.abort(new JobLost('The lease of the job was lost'))

  /** The leases that this node still has, and whether each was renewed: a transaction that requests the job locks it. */
  async function renewLeases(held: readonly Running[]): Promise<Map<string, boolean>> {
    const rows = await database.asWorker(
      (sql) => sql<{ lease: string; is_renewed: boolean }>`
        with mine as (
          select organization_id, kind, key, lease
          from unnest(${held.map(({ organization_id }) => organization_id)}::uuid[], ${held.map(({ kind }) => kind)}::text[],
                      ${held.map(({ key }) => key)}::text[], ${held.map(({ lease }) => lease)}::uuid[])
               as mine (organization_id, kind, key, lease)
          join jobs using (organization_id, kind, key, lease)
        ), free as (
          select jobs.organization_id, jobs.kind, jobs.key, jobs.lease from jobs join mine using (organization_id, kind, key, lease)
          for update of jobs skip locked
        ), renewed as (
          update jobs set due_at = now() + ${leaseMs} * interval '1 millisecond' from free
          where jobs.organization_id = free.organization_id and jobs.kind = free.kind and jobs.key = free.key
          returning jobs.lease
        )
        select lease, lease in (select lease from renewed) as is_renewed from mine`,
    )
    return new Map(rows.map(({ lease, is_renewed }) => [lease, is_renewed]))
  }

  let renewing = Promise.resolve()
  let isRenewing = false
  const renewal = setInterval(() => {
    if (isRenewing || running.size === 0) return
    isRenewing = true
    renewing = renew()
      .catch((error) => log.warn({ err: error }, 'Could not renew the leases of background jobs; retrying'))
      .finally(() => {
        isRenewing = false
      })
  }, renewMs)
  renewal.unref()
  database.onJobs(look)

  async function runAll(name: Required<JobName>): Promise<void> {
    const isIt = (one: Running) =>
      one.organization_id === name.organizationId && one.kind === name.kind && one.key === name.key
    for (;;) {
      const one = (await inTurn(() => claimOne(name))) ?? [...running].find(isIt)
      if (!one) return
      await one.ended
    }
  }

  return {
    serve(served) {
      for (const kind of served) kinds.set(kind.name, kind)
      const poll = setInterval(look, pollMs)
      poll.unref()
      look()
      return {
        async close() {
          isClosed = true
          clearInterval(poll)
          await claims
          for (const { abort } of running) abort.abort(new Error('The server stops'))
          await Promise.all([...running].map(({ ended }) => ended))
          clearInterval(renewal)
          await renewing
        },
      }
    },
    run: ({ organizationId = noOrganization, kind, key = '' }) =>
      runAll({ organizationId, kind, key }).catch((error) =>
        log.warn({ err: error, organization: organizationId, kind }, 'Could not start a background job; retrying'),
      ),
  }
}

const labels = ({ organization_id, kind, key }: Claim) => ({
  ...(organization_id !== noOrganization && { organization: organization_id }),
  kind,
  ...(key && { key }),
})

/** Moves the jobs whose time has come to the index of those that are due. A writer's lock must not stop the others. */
const markDue = (sql: Sql) => sql`
  update jobs set is_due = true
  where ctid = any(array(
    select ctid from jobs where not is_due and due_at <= now() order by due_at limit ${mostMarked} for update skip locked))`

async function requireLease(sql: Sql, one: Running): Promise<void> {
  const [held] = await sql`
    select from jobs
    where organization_id = ${one.organization_id} and kind = ${one.kind} and key = ${one.key} and lease = ${one.lease}
    for share`
  if (!held) throw new JobLost('The lease of the job was lost')
}

/** Stores the outcome. A request that came while the job ran makes it due again. */
async function end(sql: Sql, one: Running, outcome: JobOutcome): Promise<void> {
  if (outcome === 'done') {
    const [gone] = await sql`
      delete from jobs
      where organization_id = ${one.organization_id} and kind = ${one.kind} and key = ${one.key} and lease = ${one.lease}
        and again_at is null
      returning true`
    if (gone) return
  }
  const { failed = null } = typeof outcome === 'object' && 'failed' in outcome ? outcome : {}
  const again = typeof outcome === 'object' && 'again' in outcome ? outcome.again : { at: 'infinity' }
  const [next] = await sql`
    update jobs set lease = null, again_at = null, attempts = case when ${failed}::text is null then 0 else attempts end,
      last_error = ${failed?.slice(0, longestErrorLength) ?? null},
      due_at = least(again_at, ${'at' in again ? again.at : 'now'}::timestamptz
                     + make_interval(secs => ${'at' in again ? 0 : again.inSeconds}))
    where organization_id = ${one.organization_id} and kind = ${one.kind} and key = ${one.key} and lease = ${one.lease}
    returning true`
  if (!next) throw new JobLost('The lease of the job was lost')
}

/**
 * A request that came while the job ran is served by the retry, so that many requests don't make it retry at once. One for
 * later than that is kept.
 */
const postpone = (sql: Sql, one: Running, seconds: number, error: unknown) => sql`
  update jobs set lease = null, attempts = ${one.attempts}, due_at = now() + make_interval(secs => ${seconds}),
    again_at = case when again_at > now() + make_interval(secs => ${seconds}) then again_at end,
    last_error = ${String((error as Error)?.message ?? error).slice(0, longestErrorLength)}
  where organization_id = ${one.organization_id} and kind = ${one.kind} and key = ${one.key} and lease = ${one.lease}`

/** Returns the job of a node that stops. */
const release = (sql: Sql, one: Running) => sql`
  update jobs set lease = null, again_at = case when again_at > now() then again_at end, due_at = now(), attempts = attempts - 1
  where organization_id = ${one.organization_id} and kind = ${one.kind} and key = ${one.key} and lease = ${one.lease}`
