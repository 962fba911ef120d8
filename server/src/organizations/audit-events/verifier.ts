import { createHmac, timingSafeEqual } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing } from '../../kernel/lib/clock.ts'
import type { Secrets } from '../../kernel/lib/secrets.ts'
import { canonicalJson, formatHead } from '../../kernel/stores/audit/chain.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type { listAuditEvents } from './contract.ts'
import { type ChainReport, noRows, verifyTurn } from './verify.ts'

/**
 * Verifies all audit chains in the background: new rows every hour, the whole chain every day, and both soon after an
 * administrator looked at the trail. `audit verify` doesn't rely on it.
 */
export interface AuditVerifier {
  close(): Promise<void>
  /** Verifies the chain soon: new rows, and the whole chain if that was long enough ago. */
  ask(organizationId: string): void
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

const everyMs = 5_000
const dayMs = 24 * 60 * 60_000
/** The part of the time that a node spends on verification while there is something to verify. */
const share = 0.1

/** Frequent requests can't keep the server busy: a long chain is recomputed less often, every 0.5 ms per row. */
const isWholeDue = ({ wholeAt, verified }: State, now: number) =>
  wholeAt === null || now - wholeAt >= Math.max(60_000, (verified?.length ?? 0) / 2)

export function createAuditVerifier(service: Pick<Service, 'clock' | 'database' | 'log' | 'secrets'>): AuditVerifier {
  const { clock, database, log, secrets } = service
  const asked = new Set<string>()
  const closing = new AbortController()
  let isWorking = false

  /** One turn after the other, with pauses, so that other work hardly notices. */
  async function work(): Promise<void> {
    isWorking = true
    try {
      // Chains that another node is verifying are asked for again later.
      const waiting = new Set<string>()
      let wasAsked = false
      for (let next = await findNext(wasAsked); next && !closing.signal.aborted; next = await findNext(wasAsked)) {
        const { organizationId, isAsked } = next
        wasAsked = isAsked
        asked.delete(organizationId)
        const begunAt = performance.now()
        const outcome = await takeTurn(organizationId, isAsked)
        if (isAsked && outcome === 'unfinished') asked.add(organizationId)
        if (isAsked && outcome === 'taken') waiting.add(organizationId)
        const pauseMs = (performance.now() - begunAt) * (1 / share - 1)
        await sleep(pauseMs, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      }
      for (const organizationId of waiting) asked.add(organizationId)
    } catch (error) {
      log.warn({ err: error }, 'Could not verify an audit trail; retrying')
    } finally {
      isWorking = false
    }
  }

  /** Chains that are due take turns with those that were asked for, because anybody's admins can ask all the time. */
  async function findNext(wasAsked: boolean): Promise<{ organizationId: string; isAsked: boolean } | undefined> {
    const [first] = asked
    if (first && !wasAsked) return { organizationId: first, isAsked: true }
    const [due] = await database.asAuditor(
      (sql) => sql<{ organization_id: string }>`
        select organization_id from audit_verifications
        where due_at <= now() and (leased_until is null or leased_until < now()) order by due_at limit 1`,
    )
    if (due) return { organizationId: due.organization_id, isAsked: false }
    return first === undefined ? undefined : { organizationId: first, isAsked: true }
  }

  /** After a failure, the lease lasts until it expires, so that other chains come first. */
  async function takeTurn(organizationId: string, isAsked: boolean): Promise<'finished' | 'unfinished' | 'taken'> {
    const [leased] = await database.asOrg(
      organizationId,
      (sql) => sql<StoredState>`
        insert into audit_verifications as v (organization_id, leased_until)
        values (current_organization(), now() + interval '1 minute')
        on conflict (organization_id) do update set leased_until = now() + interval '1 minute'
        where v.leased_until is null or v.leased_until < now()
        returning state, encode(mac, 'hex') as mac`,
    )
    if (!leased) return 'taken'
    const { state, isFinished } = await advance(openState(secrets, organizationId, leased), organizationId, isAsked)
    await database.asOrg(
      organizationId,
      (sql) => sql`
        update audit_verifications
        set state = ${JSON.stringify(state)}::jsonb, mac = decode(${macOf(secrets, organizationId, state)}, 'hex'),
            leased_until = null, due_at = now() + ${isFinished ? 1 : 0} * interval '1 hour'`,
    )
    return isFinished ? 'finished' : 'unfinished'
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

  const repeated = keepDoing(work, everyMs)
  return {
    ask(organizationId) {
      asked.add(organizationId)
      if (!isWorking && !closing.signal.aborted) void repeated.now()
    },
    async close() {
      closing.abort()
      await repeated.close()
    },
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
           (select encode(hash, 'hex') from audit_events where sequence = ${length} limit 1) as verified_hash,
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
