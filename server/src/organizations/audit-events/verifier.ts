import { createHmac, timingSafeEqual } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Job, JobKind, JobOutcome } from '../../kernel/jobs/jobs.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import type { Secrets } from '../../kernel/lib/secrets.ts'
import { canonicalJson, eventsDropped, formatHead } from '../../kernel/stores/audit/chain.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type { listAuditEvents } from './contract.ts'
import { type ChainReport, noRows, verifyTurn } from './verify.ts'

/**
 * Verifies all audit chains in the background: new rows every hour, the whole chain every day, and both soon after an
 * administrator looked at the trail. `audit verify` doesn't rely on it.
 */
export interface AuditVerifier {
  kind: JobKind
  /** Verifies the chain soon: new rows, and the whole chain if that was long enough ago. Doesn't delay the caller. */
  ask(organizationId: string): void
  close(): Promise<void>
}

/** As stored in `audit_verifications`, authenticated, because who can change the trail could change this too. */
interface State {
  /** How far the chain was verified; rows beyond it are newer. */
  verified: StoredPosition | null
  /** When rows were last verified. */
  at: number | null
  broken: ChainReport['broken'] | null
  /** When the latest complete verification of the whole chain began. */
  wholeAt: number | null
  /** A verification of the whole chain that has come this far. */
  whole: (StoredPosition & { begunAt: number }) | null
}

interface StoredPosition {
  length: number
  head: string
  keys: [key: string, first: number][]
  retired: string[]
}

const noState: State = { verified: null, at: null, broken: null, wholeAt: null, whole: null }

export const auditVerification = 'audit_verification'
/** The key of jobs that an administrator's request causes. The others have none, and recur. */
const asked = 'asked'
const everySeconds = 60 * 60
const longestTurnMs = 10 * 60_000
const dayMs = 24 * 60 * 60_000
/** The part of the time that a node spends on verification while there is something to verify. */
const share = 0.1

/** Frequent requests can't keep the server busy: a long chain is recomputed less often, every 0.5 ms per row. */
const isWholeDue = ({ wholeAt, verified }: State, now: number) =>
  wholeAt === null || now - wholeAt >= Math.max(60_000, (verified?.length ?? 0) / 2)

export function createAuditVerifier(service: Pick<Service, 'clock' | 'database' | 'log' | 'secrets'>): AuditVerifier {
  const { clock, database, log, secrets } = service
  const asking = new Map<string, Promise<void>>()

  async function request(organizationId: string): Promise<void> {
    try {
      await database.asOrg(organizationId, (sql) => requestJob(sql, auditVerification, { key: asked }))
    } catch (error) {
      log.warn({ err: error, organization: organizationId }, 'Could not request the verification of an audit trail')
    } finally {
      asking.delete(organizationId)
    }
  }

  /** One turn, followed by a pause, so that other work hardly notices. Organizations take turns. */
  async function takeTurn(job: Job): Promise<JobOutcome> {
    const begunAt = performance.now()
    const isAsked = job.key === asked
    const { organizationId } = job
    const [stored] = await job.transaction(
      (sql) => sql<StoredState>`select state, encode(mac, 'hex') as mac from audit_verifications`,
    )
    const before = openState(secrets, organizationId, stored ?? { state: null, mac: null })
    const { state, isFinished } = await advance(before, organizationId, isAsked)
    await job.transaction(async (sql) => {
      await sql`
        insert into audit_verifications (organization_id, state, mac)
        values (current_organization(), ${JSON.stringify(state)}::jsonb,
                decode(${macOf(secrets, organizationId, state)}, 'hex'))
        on conflict (organization_id) do update set state = excluded.state, mac = excluded.mac`
      if (isAsked) await requestJob(sql, auditVerification, { due: { inSeconds: everySeconds } })
    })
    const pauseMs = (performance.now() - begunAt) * (1 / share - 1)
    await sleep(pauseMs, undefined, { signal: job.signal, ref: false }).catch(() => undefined)
    if (!isFinished) return { again: { inSeconds: 0 } }
    return isAsked ? 'done' : { again: { inSeconds: everySeconds } }
  }

  async function advance(
    before: State,
    organizationId: string,
    isAsked: boolean,
  ): Promise<{ state: State; isFinished: boolean }> {
    const now = clock()
    let state = before
    if (state.verified && !state.broken) {
      const { report, isAtEnd } = await verifyTurn(service, organizationId, openPosition(state.verified))
      state = { ...state, verified: storePosition(report), at: now, broken: report.broken ?? null }
      if (!isAtEnd) return { state, isFinished: false }
    }
    const isDue = isAsked ? isWholeDue(state, now) : state.wholeAt === null || now - state.wholeAt >= dayMs
    if (!state.whole && !isDue) return { state, isFinished: true }
    const begunAt = state.whole?.begunAt ?? now
    const position = state.whole ? openPosition(state.whole) : noRows
    const { report, isAtEnd } = await verifyTurn(service, organizationId, position)
    const verified = storePosition(report)
    if (!isAtEnd) return { state: { ...state, whole: { ...verified, begunAt } }, isFinished: false }
    return {
      state: { verified, at: now, broken: report.broken ?? null, wholeAt: begunAt, whole: null },
      isFinished: true,
    }
  }

  return {
    kind: { name: auditVerification, atOnce: 1, longestMs: longestTurnMs, run: takeTurn },
    ask(organizationId) {
      if (!asking.has(organizationId)) asking.set(organizationId, request(organizationId))
    },
    close: async () => void (await Promise.all(asking.values())),
  }
}

interface StoredState {
  state: State | null
  mac: string | null
}

/** A state that the service didn't write counts as none. */
function openState(secrets: Secrets, organizationId: string, { state, mac }: StoredState): State {
  if (!state || !mac) return noState
  const given = Buffer.from(mac, 'hex')
  const isOurs = secrets.derive(purpose).some(({ key }) => {
    const expected = macWith(key, organizationId, state)
    return expected.length === given.length && timingSafeEqual(expected, given)
  })
  return isOurs ? state : noState
}

const purpose = 'audit verification'

const macWith = (key: Buffer, organizationId: string, state: State): Buffer =>
  createHmac('sha256', key)
    .update(canonicalJson([organizationId, state]))
    .digest()

const macOf = (secrets: Secrets, organizationId: string, state: State): string =>
  macWith(secrets.derive(purpose)[0]?.key as Buffer, organizationId, state).toString('hex')

const storePosition = ({ length, head, keys, retired }: ChainReport): StoredPosition => ({
  length,
  head,
  keys: [...keys],
  retired: [...retired],
})

const openPosition = ({ length, head, keys, retired }: StoredPosition): ChainReport => ({
  length,
  head,
  keys: new Map(keys),
  retired: new Set(retired),
})

type Verification = Output<typeof listAuditEvents>['verification']

/**
 * The result of the latest verification. It also compares the ends of the chain with it, which takes as long for any
 * number of rows, and asks for a new verification if there is something to verify.
 */
export async function describeVerification(
  sql: Sql,
  { auditVerifier, clock, secrets }: Pick<Service, 'clock' | 'secrets'> & { auditVerifier: AuditVerifier },
  organizationId: string,
): Promise<Verification> {
  const [stored] = await sql<StoredState>`select state, encode(mac, 'hex') as mac from audit_verifications`
  const state = openState(secrets, organizationId, stored ?? { state: null, mac: null })
  const { length, head } = state.verified ?? noRows
  // In one statement, so that a concurrent change appears in all of them or in none.
  const [chain] = await sql<Ends>`
    select chain.length, encode(chain.hash, 'hex') as hash,
           (select min(sequence) from audit_events) as first, (select max(sequence) from audit_events) as last,
           coalesce(
             (select encode(hash, 'hex') from audit_events where sequence = ${length} limit 1),
             -- It was dropped with its month.
             (select ${head}::text from (select min(sequence) as first from audit_events) as kept join audit_events
                on action = ${eventsDropped} and data ->> 'sequence' = (first - 1)::text
              where first > ${length}::bigint limit 1)) as verified_hash,
           (select encode(hash, 'hex') from audit_events where sequence = chain.length limit 1) as last_hash
    from audit_chains chain`
  const brokenAt = state.broken?.sequence ?? (chain ? findBreak(chain, length, head) : 1)
  const newerEvents = Math.max(0, (chain?.length ?? 0) - length)
  if (newerEvents > 0 || isWholeDue(state, clock())) auditVerifier.ask(organizationId)
  return {
    status: brokenAt !== null ? 'broken' : state.verified ? 'intact' : 'unverified',
    length,
    verified_at: state.at === null ? null : new Date(state.at).toISOString(),
    newer_events: newerEvents,
    head: formatHead({ organizationId, sequence: length, hash: head }),
    broken_at: brokenAt,
  }
}

interface Ends {
  length: number
  hash: string
  first: number | null
  last: number | null
  verified_hash: string | null
  last_hash: string | null
}

function findBreak(chain: Ends, verifiedLength: number, verifiedHead: string): number | null {
  const { length, hash, first, last, verified_hash, last_hash } = chain
  if (first !== null && first < 1) return first
  if (length < verifiedLength || (last ?? 0) > length) return length + 1
  if (verifiedLength > 0 && verified_hash !== verifiedHead) return verifiedLength
  return length > 0 && last_hash !== hash ? length : null
}
