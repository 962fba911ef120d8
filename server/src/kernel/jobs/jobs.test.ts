import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { serviceConnection } from '../stores/postgres/migrations.ts'
import { createJobs, type Job, type JobKind, type Jobs, type JobTimes } from './jobs.ts'
import { readProgress } from './progress.ts'
import { noOrganization, requestJob, requestJobs, requestOwnJob, selectJobs } from './requests.ts'

let app: TestService
let demo = ''
let other = ''
let tests = 0

beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  other = await app.organization('other')
})
afterAll(() => app.close())

/** Quick, so that tests needn't wait. What they show doesn't depend on how long a lease is. */
const times: JobTimes = { leaseMs: 600, renewMs: 100, pollMs: 50, pauseMs: 100 }

function newKind(): string {
  tests += 1
  return `test_${tests}`
}

/** Work that takes a moment. */
const work = (job: Job) => job.transaction((sql) => sql`select`)

/** A node that runs jobs of one kind. */
function startNode(kind: Partial<JobKind> & Pick<JobKind, 'name' | 'run'>, settings: Partial<JobTimes> = {}): Jobs {
  const jobs = createJobs(app.service, { ...times, ...settings })
  const served = jobs.serve([{ atOnce: 10, longestMs: 60_000, ...kind }])
  onTestFinished(() => served.close())
  return jobs
}

const request = (kind: string, key = '', organizationId = demo) =>
  app.service.database.asOrg(organizationId, (sql) => requestJob(sql, kind, { key }))

interface Row {
  key: string
  due_at: string
  lease: string | null
  attempts: number
  last_error: string | null
}

const rowsOf = (kind: string) =>
  app.service.database.asWorker(
    (sql) => sql<Row>`
      select key, due_at::text, lease, attempts, last_error from jobs where kind = ${kind} order by organization_id, key`,
  )

const isEmpty = (kind: string) => vi.waitFor(async () => expect(await rowsOf(kind)).toEqual([]))

/** A handler that runs until the test ends it. */
function useGate() {
  const { promise, resolve } = Promise.withResolvers<void>()
  onTestFinished(() => resolve())
  return { opened: promise, open: resolve }
}

/** A transaction in the organization that stays open. */
async function openTransaction(organizationId: string): Promise<pg.Client> {
  const client = new pg.Client(serviceConnection(app.stores.owner, app.stores.secrets))
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('begin')
  await client.query("select set_config('inlay.organization_id', $1, true)", [organizationId])
  return client
}

/** The same statement as `requestJob`, on a connection of the test's. */
const requestOn = (client: pg.Client, kind: string) =>
  requestJob(
    ((strings: TemplateStringsArray, ...values: unknown[]) =>
      client.query(
        strings.reduce((text, part, index) => `${text}$${index}${part}`),
        values,
      )) as never,
    kind,
  )

test('a job runs in its organization after the commit that requested it, and leaves no row', async () => {
  const kind = newKind()
  const ran: string[] = []
  startNode({
    name: kind,
    run: async (job) => {
      const [row] = await job.transaction((sql) => sql<{ id: string }>`select current_organization() as id`)
      ran.push(`${job.key} ${row?.id}`)
      return 'done'
    },
  })
  await request(kind, 'a')
  await isEmpty(kind)
  expect(ran).toEqual([`a ${demo}`])
})

test('a job whose transaction is rolled back never runs', async () => {
  const kind = newKind()
  const ran = vi.fn(async () => 'done' as const)
  startNode({ name: kind, run: ran })
  const failing = app.service.database.asOrg(demo, async (sql) => {
    await requestJob(sql, kind)
    throw new Error('rolled back')
  })
  await expect(failing).rejects.toThrow('rolled back')
  await request(kind, 'next')
  await isEmpty(kind)
  expect(ran).toHaveBeenCalledOnce()
})

test('a request that commits after others of the same job were served is served too', async () => {
  const kind = newKind()
  const ran = vi.fn(async () => 'done' as const)
  const slow = await openTransaction(demo)
  await requestOn(slow, kind)
  startNode({ name: kind, run: ran })
  // Waits for the slow one, and then asks for the same job.
  const waiting = request(kind)
  await slow.query('commit')
  await waiting
  await isEmpty(kind)

  const later = await openTransaction(demo)
  await app.service.database.asOrg(demo, (sql) => requestJob(sql, kind, { due: { inSeconds: 3600 } }))
  await requestOn(later, kind)
  const before = ran.mock.calls.length
  await request(kind, 'another')
  await vi.waitFor(() => expect(ran.mock.calls.length).toBe(before + 1))
  await later.query('commit')
  await isEmpty(kind)
  expect(ran.mock.calls.length).toBe(before + 2)
})

test('a node never claims a waiting job while a transaction that requests it again is open', async () => {
  const kind = newKind()
  const seen: number[] = []
  await request(kind)
  const slow = await openTransaction(demo)
  // Changes nothing, because the job is due already. Its lock is what matters.
  await requestOn(slow, kind)
  await slow.query("update organizations set name = 'Seen' where id = current_organization()")
  startNode({
    name: kind,
    run: async (job) => {
      const found = await job.transaction((sql) => sql`select from organizations where name = 'Seen'`)
      seen.push(found.length)
      return 'done'
    },
  })
  await request(kind, '', other)
  await vi.waitFor(() => expect(seen).toEqual([0]))
  await slow.query('commit')
  await isEmpty(kind)
  expect(seen).toEqual([0, 1])
})

test('a job that is requested while it runs runs once more, however often it was requested', async () => {
  const kind = newKind()
  const gate = useGate()
  let runs = 0
  startNode({
    name: kind,
    run: async () => {
      runs += 1
      if (runs === 1) await gate.opened
      return 'done'
    },
  })
  await request(kind)
  await vi.waitFor(() => expect(runs).toBe(1))
  for (let n = 0; n < 3; n += 1) await request(kind)
  gate.open()
  await isEmpty(kind)
  expect(runs).toBe(2)
})

test('a later time that is requested while a job runs is kept', async () => {
  const kind = newKind()
  const gate = useGate()
  const run = vi.fn(async () => {
    await gate.opened
    return 'done' as const
  })
  startNode({ name: kind, run })
  await request(kind)
  await vi.waitFor(() => expect(run).toHaveBeenCalled())
  await app.service.database.asOrg(demo, (sql) => requestJob(sql, kind, { due: { inSeconds: 3600 } }))
  gate.open()
  await vi.waitFor(async () => expect(await rowsOf(kind)).toMatchObject([{ lease: null, attempts: 0 }]))
  const [{ due_at: due = '' } = {}] = await rowsOf(kind)
  expect(Date.parse(due) - Date.now()).toBeGreaterThan(3_000_000)
  expect(run).toHaveBeenCalledOnce()
})

test('runs of one key follow each other, and two nodes never run a job at the same time', async () => {
  const kind = newKind()
  const active = new Map<string, number>()
  const runs = new Map<string, number>()
  let most = 0
  const run = async (job: Job) => {
    const { key } = job
    active.set(key, (active.get(key) ?? 0) + 1)
    most = Math.max(most, active.get(key) ?? 0)
    await work(job)
    active.set(key, (active.get(key) ?? 0) - 1)
    runs.set(key, (runs.get(key) ?? 0) + 1)
    return 'done' as const
  }
  startNode({ name: kind, run })
  startNode({ name: kind, run })
  for (let round = 0; round < 10; round += 1) {
    await Promise.all(['a', 'b', 'c'].map((key) => request(kind, key)))
  }
  await isEmpty(kind)
  expect(most).toBe(1)
  expect([...runs.keys()].sort()).toEqual(['a', 'b', 'c'])
})

test('the job of a node that vanished is taken by another when the lease ends', async () => {
  const kind = newKind()
  await request(kind)
  // A node that claimed it and never renewed the lease.
  await app.service.database.asWorker(
    (sql) => sql`
      update jobs set lease = gen_random_uuid(), attempts = 1, due_at = now() + interval '300 ms' where kind = ${kind}`,
  )
  const failures: number[] = []
  startNode({
    name: kind,
    run: async (job) => {
      failures.push(job.failures)
      return 'done'
    },
  })
  await isEmpty(kind)
  expect(failures).toEqual([1])
})

test('a job whose nodes die again and again pauses like one that fails', async () => {
  const kind = newKind()
  await request(kind)
  // Two nodes claimed it, one after the other, and never renewed the lease.
  await app.service.database.asWorker(
    (sql) => sql`update jobs set lease = gen_random_uuid(), attempts = 2, due_at = now() where kind = ${kind}`,
  )
  const failures: number[] = []
  startNode({
    name: kind,
    run: async (job) => {
      failures.push(job.failures)
      return 'done'
    },
  })
  await vi.waitFor(async () =>
    expect(await rowsOf(kind)).toMatchObject([
      { lease: null, attempts: 2, last_error: 'The node that ran the job died' },
    ]),
  )
  const [{ due_at: due = '' } = {}] = await rowsOf(kind)
  expect(Date.parse(due) - Date.now()).toBeGreaterThan(5_000)
  expect(failures).toEqual([])
  await app.service.database.asWorker((sql) => sql`update jobs set due_at = now() where kind = ${kind}`)
  await isEmpty(kind)
  expect(failures).toEqual([2])
})

test('a lease is renewed while the job runs, also while a transaction holds the row of another job', async () => {
  const kind = newKind()
  const gate = useGate()
  const started: string[] = []
  const run = async ({ key, signal }: Job) => {
    started.push(key)
    await gate.opened
    signal.throwIfAborted()
    return 'done' as const
  }
  startNode({ name: kind, run })
  startNode({ name: kind, run })
  await request(kind, 'renewed')
  await request(kind)
  await vi.waitFor(() => expect(started).toHaveLength(2))
  const blocking = await openTransaction(demo)
  await requestOn(blocking, kind)
  const renewed = async () => (await rowsOf(kind))[1] as Row
  const before = await renewed()
  await vi.waitFor(async () => {
    const after = await renewed()
    expect(Date.parse(after.due_at) - Date.parse(before.due_at)).toBeGreaterThan(2 * times.leaseMs)
    expect(after.lease).toBe(before.lease)
  })
  expect(started.filter((key) => key === 'renewed')).toHaveLength(1)
  await blocking.query('rollback')
  gate.open()
  await isEmpty(kind)
})

test('a node that was suspended for longer than its lease can neither write nor end the job', async () => {
  const kind = newKind()
  const gate = useGate()
  const outcomes: unknown[] = []
  let attempt = 0
  startNode({
    name: kind,
    run: async (job) => {
      attempt += 1
      if (attempt > 1) {
        await gate.opened
        return 'done'
      }
      // What another node does when the lease of a suspended one has ended.
      await app.service.database.asWorker(
        (sql) => sql`update jobs set lease = null, due_at = now() where kind = ${kind}`,
      )
      await vi.waitFor(() => expect(attempt).toBe(2))
      const rename = job.transaction((sql) => sql`update organizations set name = 'Stale'`)
      const end = job.settle(async (sql) => {
        await sql`update organizations set name = 'Stale'`
        return 'done'
      })
      outcomes.push(...(await Promise.allSettled([rename, end])).map(({ status }) => status))
      await vi.waitFor(() => expect(job.signal.aborted).toBe(true))
      return 'done'
    },
  })
  await request(kind)
  await vi.waitFor(() => expect(outcomes).toEqual(['rejected', 'rejected']))
  expect(await rowsOf(kind)).toMatchObject([{ lease: expect.any(String), attempts: 2 }])
  gate.open()
  await isEmpty(kind)
  const stale = await app.service.database.asOrg(demo, (sql) => sql`select from organizations where name = 'Stale'`)
  expect(stale).toEqual([])
})

test('a handler’s last write and the end of the job are one transaction', async () => {
  const kind = newKind()
  const next = newKind()
  startNode({
    name: kind,
    run: (job) =>
      job.settle(async (sql) => {
        await requestJob(sql, next, { due: { inSeconds: 3600 } })
        return 'done'
      }),
  })
  await request(kind)
  await isEmpty(kind)
  expect(await rowsOf(next)).toHaveLength(1)
})

test('a job that takes longer than its kind allows is aborted and retried later', async () => {
  const kind = newKind()
  const reasons: string[] = []
  startNode({
    name: kind,
    longestMs: 200,
    run: ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason.message)
          reject(signal.reason)
        })
      }),
  })
  await request(kind)
  await vi.waitFor(async () =>
    expect(await rowsOf(kind)).toMatchObject([{ lease: null, attempts: 1, last_error: 'The job takes too long' }]),
  )
  expect(reasons).toEqual(['The job takes too long'])
})

test('a failed job is retried later, and its failures are visible until it succeeds', async () => {
  const kind = newKind()
  const failures: number[] = []
  startNode({
    name: kind,
    judge: () => ({ retryAfterSeconds: 600 }),
    run: async (job) => {
      failures.push(job.failures)
      if (job.failures < 2) throw new Error('Not yet')
      return { again: { inSeconds: 3600 } }
    },
  })
  for (const attempts of [1, 2]) {
    await request(kind)
    await vi.waitFor(async () =>
      expect(await rowsOf(kind)).toMatchObject([{ lease: null, attempts, last_error: 'Not yet' }]),
    )
    const [{ due_at: due = '' } = {}] = await rowsOf(kind)
    expect(Date.parse(due) - Date.now()).toBeGreaterThan(500_000)
  }
  await request(kind)
  await vi.waitFor(async () =>
    expect(await rowsOf(kind)).toMatchObject([{ lease: null, attempts: 0, last_error: null }]),
  )
  expect(failures).toEqual([0, 1, 2])
})

test('a job that failed keeps its pause, however often it’s requested for later or while it ran', async () => {
  const kind = newKind()
  const gate = useGate()
  const run = vi.fn(async () => {
    await gate.opened
    throw new Error('Not yet')
  })
  startNode({ name: kind, judge: () => ({ retryAfterSeconds: 600 }), run })
  await request(kind)
  await vi.waitFor(() => expect(run).toHaveBeenCalled())
  await request(kind)
  gate.open()
  await vi.waitFor(async () => expect(await rowsOf(kind)).toMatchObject([{ lease: null, last_error: 'Not yet' }]))
  await app.service.database.asOrg(demo, (sql) => requestJob(sql, kind, { due: { inSeconds: 1 } }))
  const [{ due_at: due = '' } = {}] = await rowsOf(kind)
  expect(Date.parse(due) - Date.now()).toBeGreaterThan(500_000)
  expect(run).toHaveBeenCalledOnce()
})

test('a job that is requested for later while it runs is done then too, even if this run fails', async () => {
  const kind = newKind()
  const gate = useGate()
  const run = vi.fn(async () => {
    await gate.opened
    throw new Error('Not yet')
  })
  startNode({ name: kind, run })
  await request(kind)
  await vi.waitFor(() => expect(run).toHaveBeenCalled())
  await app.service.database.asOrg(demo, (sql) => requestJob(sql, kind, { due: { inSeconds: 3600 } }))
  gate.open()
  await vi.waitFor(async () => expect(await rowsOf(kind)).toMatchObject([{ lease: null, last_error: 'Not yet' }]))
  const [{ again = 0 } = {}] = await app.service.database.asWorker(
    (sql) =>
      sql<{
        again: number
      }>`select extract(epoch from again_at - now())::float8 as again from jobs where kind = ${kind}`,
  )
  expect(again).toBeGreaterThan(3000)
})

test('jobs that wait and jobs that keep failing are visible by kind, in the metrics too', async () => {
  const [late, bad] = [newKind(), newKind()]
  await request(late, 'a')
  await request(late, 'b', other)
  await request(bad)
  await app.service.database.asWorker(async (sql) => {
    await sql`update jobs set due_at = now() - interval '1 minute' where kind = ${late} and key = 'a'`
    await sql`update jobs set attempts = 3, last_error = 'Gone', due_at = now() + interval '1 hour' where kind = ${bad}`
  })
  const found = (await readProgress(app.service.database)).filter(({ kind }) => [late, bad].includes(kind))
  expect(found).toEqual([
    { kind: late, due: 2, oldest_seconds: expect.closeTo(60, -1), failing: 0, given_up: 0, last_error: null },
    { kind: bad, due: 0, oldest_seconds: 0, failing: 1, given_up: 0, last_error: 'Gone' },
  ])
  const metrics = await app.service.metrics.render()
  expect(metrics).toContain(`inlay_jobs_due{kind="${late}"} 2`)
  expect(metrics).toContain(`inlay_jobs_failing{kind="${bad}"} 1`)
})

test('a job that failed for good stays visible, and runs again only if it’s requested', async () => {
  const kind = newKind()
  let runs = 0
  startNode({
    name: kind,
    run: async () => {
      runs += 1
      return runs === 1 ? { failed: 'Refused' } : 'done'
    },
  })
  await request(kind)
  await vi.waitFor(async () =>
    expect(await rowsOf(kind)).toMatchObject([{ due_at: 'infinity', lease: null, last_error: 'Refused' }]),
  )
  const progress = await readProgress(app.service.database)
  expect(progress.find((found) => found.kind === kind)).toMatchObject({ due: 0, failing: 1, given_up: 1 })
  await request(kind)
  await isEmpty(kind)
  expect(runs).toBe(2)
})

test('while its destination is away, a kind makes one attempt at a time, and continues when it is back', async () => {
  const kind = newKind()
  const keys = Array.from({ length: 30 }, (_, index) => `${index}`)
  let isBack = false
  let attempts = 0
  let active = 0
  let most = 0
  const attempted = Promise.withResolvers<void>()
  startNode({
    name: kind,
    judge: () => ({ isAway: true }),
    run: async (job) => {
      if (isBack) return 'done'
      active += 1
      attempts += 1
      if (attempts > 5) most = Math.max(most, active)
      if (attempts === 15) attempted.resolve()
      await work(job)
      active -= 1
      throw new Error('Away')
    },
  })
  await app.service.database.asOrg(demo, (sql) => requestJobs(sql, kind, keys))
  await attempted.promise
  expect(most, 'after the first ones, which began before any had failed').toBe(1)
  isBack = true
  await app.service.database.asWorker(
    (sql) => sql`update jobs set due_at = now() where kind = ${kind} and lease is null`,
  )
  await isEmpty(kind)
})

test('an organization with many jobs doesn’t keep another’s waiting, and has at most half of a node’s places', async () => {
  const kind = newKind()
  const keys = Array.from({ length: 150 }, (_, index) => `${index}`)
  let active = 0
  let most = 0
  const order: string[] = []
  await app.service.database.asOrg(demo, (sql) => requestJobs(sql, kind, keys))
  startNode({
    name: kind,
    run: async (job) => {
      order.push(job.organizationId)
      if (job.organizationId === other) return 'done'
      active += 1
      most = Math.max(most, active)
      await work(job)
      active -= 1
      return 'done'
    },
  })
  await vi.waitFor(() => expect(order.length).toBeGreaterThan(0))
  const before = order.length
  await request(kind, '', other)
  await isEmpty(kind)
  expect(order.indexOf(other) - before).toBeLessThan(50)
  expect(most).toBeLessThanOrEqual(5)
})

test('a kind runs only as many at once as it says, on a node and for one organization', async () => {
  const kind = newKind()
  const gate = useGate()
  const active: string[] = []
  const most = { node: 0, organization: 0 }
  startNode({
    name: kind,
    atOnce: 3,
    atOnceInOrganization: 2,
    run: async (job) => {
      active.push(job.organizationId)
      most.node = Math.max(most.node, active.length)
      most.organization = Math.max(
        ...[most.organization, ...[demo, other].map((id) => active.filter((each) => each === id).length)],
      )
      if (active.length === 3) gate.open()
      await gate.opened
      await work(job)
      active.splice(active.indexOf(job.organizationId), 1)
      return 'done'
    },
  })
  const keys = ['1', '2', '3', '4', '5']
  for (const id of [demo, other]) await app.service.database.asOrg(id, (sql) => requestJobs(sql, kind, keys))
  await isEmpty(kind)
  expect(most).toEqual({ node: 3, organization: 2 })
})

test('a caller runs a job at once and waits for it, also if the node has begun it already', async () => {
  const kind = newKind()
  const gate = useGate()
  let runs = 0
  const jobs = startNode({
    name: kind,
    run: async () => {
      runs += 1
      if (runs === 1) await gate.opened
      return 'done'
    },
  })
  await request(kind)
  await vi.waitFor(() => expect(runs).toBe(1))
  await request(kind)
  const waiting = jobs.run({ organizationId: demo, kind })
  gate.open()
  await waiting
  expect([runs, await rowsOf(kind)]).toEqual([2, []])
  await jobs.run({ organizationId: demo, kind })
  expect(runs, 'nothing was requested').toBe(2)
})

test('however many jobs an organization’s callers run, another’s job doesn’t wait for a place', async () => {
  const kind = newKind()
  const gate = useGate()
  const begun: string[] = []
  const jobs = startNode({
    name: kind,
    run: async ({ organizationId }) => {
      begun.push(organizationId)
      if (organizationId === demo) await gate.opened
      return 'done'
    },
  })
  const keys = Array.from({ length: 12 }, (_, n) => String(n))
  const running = keys.map(async (key) => {
    await request(kind, key)
    await jobs.run({ organizationId: demo, kind, key })
  })
  await vi.waitFor(() => expect(begun.length).toBe(keys.length))
  await request(kind, '', other)
  await vi.waitFor(() => expect(begun).toContain(other))
  gate.open()
  await Promise.all(running)
})

test('running a job that fails doesn’t fail its caller, who doesn’t wait for the retry', async () => {
  const kind = newKind()
  const jobs = startNode({ name: kind, run: () => Promise.reject(new Error('Failed')) })
  await request(kind)
  await jobs.run({ organizationId: demo, kind })
  expect(await rowsOf(kind)).toMatchObject([{ attempts: 1, last_error: 'Failed' }])
})

test('a job without an organization is requested in an organization’s transaction, which doesn’t see it', async () => {
  const kind = newKind()
  const seen: string[] = []
  const visible = await app.service.database.asOrg(demo, async (sql) => {
    await requestOwnJob(sql, kind, 'one')
    return [await sql`select from jobs where kind = ${kind}`, await selectJobs(sql, kind)]
  })
  expect(visible).toEqual([[], []])
  startNode({
    name: kind,
    run: async (job) => {
      seen.push(`${job.organizationId} ${job.key}`)
      return 'done'
    },
  })
  await isEmpty(kind)
  expect(seen).toEqual([`${noOrganization} one`])
})

test('a node that stops leaves its unfinished jobs to others at once', async () => {
  const kind = newKind()
  const started = Promise.withResolvers<void>()
  const jobs = createJobs(app.service, times)
  const node = jobs.serve([
    {
      name: kind,
      atOnce: 1,
      longestMs: 60_000,
      run: ({ signal }) =>
        new Promise((_, reject) => {
          started.resolve()
          signal.addEventListener('abort', () => reject(signal.reason))
        }),
    },
  ])
  await request(kind)
  await started.promise
  await node.close()
  expect(await rowsOf(kind)).toMatchObject([{ lease: null, attempts: 0 }])
  startNode({ name: kind, run: async () => 'done' })
  await isEmpty(kind)
})

test('jobs of kinds that a node doesn’t know are left to others', async () => {
  const [known, unknown] = [newKind(), newKind()]
  await request(unknown)
  startNode({ name: known, run: async () => 'done' })
  await request(known)
  await isEmpty(known)
  expect(await rowsOf(unknown)).toMatchObject([{ attempts: 0 }])
})
