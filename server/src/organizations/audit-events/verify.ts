import type { DerivedKey } from '../../kernel/lib/secrets.ts'
import {
  type AuditRow,
  auditKeys,
  type ChainHead,
  chainHash,
  emptyChain,
  findDropped,
  keyChanged,
  openAuditKey,
  plainHash,
} from '../../kernel/stores/audit/chain.ts'
import type { Stores } from '../../kernel/stores/stores.ts'

export interface ChainReport {
  /** Number of rows that fit, counted from the first. */
  length: number
  /** Hash of the last row that fits. */
  head: string
  /** Sequence of the first row that uses each key. */
  keys: ReadonlyMap<string, number>
  /** Keys that no later row may use. */
  retired: ReadonlySet<string>
  /** The first row that doesn't fit, and why. */
  broken?: { sequence: number; problem: string }
}

interface StoredRow extends Omit<AuditRow, 'organization_id' | 'sequence'> {
  chain_length: number | null
  chain_hash: string | null
  /** Null if the chain has no rows. */
  sequence: number | null
  key_id: string
  hash: string
  /** Whether the plain hash is correct; null for keyed rows, whose hash the database can't compute. */
  has_plain_hash: boolean | null
}

/** Small enough that hashing these rows doesn't delay other requests. */
const rowsPerTurn = 1_000
const lowestNumber = '-9223372036854775808'
export const noRows: ChainReport = { length: 0, head: emptyChain, keys: new Map(), retired: new Set() }

/**
 * Recomputes an organization's chain from its first row, which is number 1 or the first that wasn't dropped, or from where
 * an earlier report ended, to its head.
 * The chain must still contain each of the heads in `earlier`, which were noted before.
 */
export async function verifyAuditChain(
  stores: Pick<Stores, 'database' | 'secrets'>,
  organizationId: string,
  { from = noRows, earlier = [] }: { from?: ChainReport; earlier?: readonly ChainHead[] } = {},
): Promise<ChainReport> {
  let report = from
  for (let isAtEnd = false; !isAtEnd; ) {
    ;({ report, isAtEnd } = await verifyTurn(stores, organizationId, report, earlier))
  }
  return report
}

/**
 * Verifies the next rows after a report. Every row is read, also those that don't belong: a row with a number below 1,
 * or one with the same number as another. With the last rows, it also verifies the head of the chain.
 */
export async function verifyTurn(
  { database, secrets }: Pick<Stores, 'database' | 'secrets'>,
  organizationId: string,
  from: ChainReport,
  earlier: readonly ChainHead[] = [],
  /** Whether the report's last row isn't there to be compared: the trail is new, or that row was dropped. */
  isStart = from.length === 0,
): Promise<{ report: ChainReport; isAtEnd: boolean }> {
  const configured = auditKeys(secrets)
  const keyById = await readKeys({ database, secrets }, configured)
  const [keys, retired] = [new Map(from.keys), new Set(from.retired)]
  let { length, head } = from
  // Reads rows and head in one statement, so that a concurrent change appears in both or in neither. Starts with the
  // last verified row, so that a second row with its number would be read too.
  const read = await database.asOrg(
    organizationId,
    (sql) => sql<StoredRow>`
      select chain.length as chain_length, encode(chain.hash, 'hex') as chain_hash, event.*
      from (select) as one left join audit_chains chain on true left join (
        select sequence, id, actor, actor_id, action, target, data, created_at, key_id, encode(hash, 'hex') as hash,
               case key_id when ${plainHash} then hash = audit_hash(
                 lag(hash, 1, decode(${head}, 'hex')) over (order by sequence), audit_events) end as has_plain_hash
        from audit_events where sequence >= ${isStart ? lowestNumber : length}::bigint
        order by sequence limit ${rowsPerTurn + 1}) event on true
      order by sequence`,
  )
  const [{ chain_length, chain_hash } = {} as Partial<StoredRow>] = read
  const chain = chain_hash ? { length: chain_length ?? 0, hash: chain_hash } : undefined
  const rows = read.filter((row): row is StoredRow & AuditRow => row.sequence !== null)
  const isAtEnd = rows.length <= rowsPerTurn
  const firstSequence = rows[0]?.sequence ?? 0
  if (firstSequence > (isStart ? length + 1 : length)) {
    // The row that notes this is one of the following, so it's verified too.
    const dropped = {
      length: firstSequence - 1,
      head: await database.asOrg(organizationId, (sql) => findDropped(sql, firstSequence - 1)),
    }
    if (dropped.head !== undefined) {
      const { head } = dropped
      if (earlier.some((noted) => noted.sequence === dropped.length && noted.hash !== head))
        return broken(dropped.length, 'the row does not match an earlier head')
      return verifyTurn({ database, secrets }, organizationId, { ...from, length: dropped.length, head }, earlier, true)
    }
  }
  if (!isStart) {
    const last = rows.shift()
    if (last?.sequence !== length) return broken(length, 'the row is missing')
    if (last.hash !== head) return broken(length, 'the row or the one before it was changed')
  }
  for (const row of rows) {
    const problem = findProblem(row)
    if (problem) return broken(Math.min(length + 1, row.sequence), problem)
    if (!keys.has(row.key_id)) keys.set(row.key_id, row.sequence)
    for (const key of retiredBy(row)) retired.add(key)
    length = row.sequence
    head = row.hash
  }
  if (!isAtEnd) return { report: { length, head, keys, retired }, isAtEnd }
  const farthest = Math.max(0, ...earlier.map(({ sequence }) => sequence))
  if (farthest > length)
    return broken(length + 1, `rows up to ${farthest} are missing, although an earlier head includes them`)
  if ((chain?.length ?? 0) > length) return broken(length + 1, `rows up to ${chain?.length} are missing at the end`)
  if (length === 0) return broken(1, 'the organization has no audit trail')
  if (chain?.length !== length || chain.hash !== head) return broken(length, 'the head of the chain was changed')
  const isAccepted = (key: string) => retired.has(key) || configured.some(({ id }) => id === key)
  for (const [key, first] of keys) {
    if (!isAccepted(key))
      return broken(first, `the row uses the key ${key}, which no row under a current key has retired`)
  }
  return { report: { length, head, keys, retired }, isAtEnd }

  function findProblem(row: StoredRow & AuditRow): string | undefined {
    if (row.sequence <= length || row.sequence < 1) return 'the row was added'
    if (row.sequence !== length + 1) return 'the row is missing'
    if (retired.has(row.key_id)) return `the row uses the key ${row.key_id}, which was retired before it`
    const key = keyById.get(row.key_id)
    if (!key && row.key_id !== plainHash) return `the row uses the unknown key ${row.key_id}`
    const fits = key
      ? row.hash === chainHash(key, head, { ...row, organization_id: organizationId })
      : // The plain hash doesn't cover the actor's ID, which no such row has.
        row.has_plain_hash && row.actor_id === null
    if (!fits) return 'the row or the one before it was changed'
    const isOther = earlier.some(({ sequence, hash }) => sequence === row.sequence && hash !== row.hash)
    return isOther ? 'the row does not match an earlier head' : undefined
  }

  function broken(sequence: number, problem: string) {
    return { report: { length, head, keys, retired, broken: { sequence, problem } }, isAtEnd: true }
  }
}

/** Only a row that is authenticated by a key can retire other keys. */
function retiredBy({ action, key_id, data }: StoredRow & AuditRow): string[] {
  if (action !== keyChanged || key_id === plainHash) return []
  const { retired } = data as { retired: string[] }
  return retired.filter((key) => key !== key_id)
}

/** The keys of the configured secrets, and the keys that rotations have stored. */
async function readKeys(
  { database, secrets }: Pick<Stores, 'database' | 'secrets'>,
  configured: readonly DerivedKey[],
): Promise<Map<string, DerivedKey>> {
  const stored = await database.asService(
    (sql) => sql<{ id: string; key_sealed: string }>`
    select id, key_sealed from audit_keys`,
  )
  const opened = stored.map((row) => openAuditKey(secrets, row)).filter((key) => key !== undefined)
  return new Map([...opened, ...configured].map((key) => [key.id, key]))
}
