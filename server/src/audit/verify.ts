import type { Database } from '../stores/database.ts'

export interface ChainReport {
  /** Rows that were read. */
  length: number
  /** The hash of the last row: whoever notes it down can tell later that nothing before it was rewritten. */
  head: string
  /** The first row that does not fit, and why. */
  broken?: { sequence: number; problem: string }
}

const batch = 10_000
const emptyChain = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** Recomputes an organization's chain from its first row to its head. */
export async function verifyAuditChain(database: Database, organizationId: string): Promise<ChainReport> {
  let length = 0
  let head = emptyChain
  for (;;) {
    const rows = await database.asOrg(
      organizationId,
      (sql) => sql<{ sequence: number; hash: string; fits: boolean }>`
        select sequence, encode(hash, 'hex') as hash,
               hash = audit_hash(lag(hash, 1, decode(${head}, 'hex')) over (order by sequence), audit_events) as fits
        from audit_events where sequence > ${length} order by sequence limit ${batch}`,
    )
    for (const { sequence, hash, fits } of rows) {
      const expected = length + 1
      if (sequence !== expected) return broken(expected, 'the row is missing')
      if (!fits) return broken(sequence, 'the row was changed, or the row before it was')
      length = sequence
      head = hash
    }
    if (rows.length < batch) break
  }
  const [chain] = await database.asOrg(
    organizationId,
    (sql) => sql<{ length: number; hash: string }>`select length, encode(hash, 'hex') as hash from audit_chains`,
  )
  if ((chain?.length ?? 0) > length) return broken(length + 1, `rows up to ${chain?.length} are missing at the end`)
  if (chain ? chain.length !== length || chain.hash !== head : length > 0) {
    return broken(length, 'the head of the chain was changed')
  }
  return { length, head }

  function broken(sequence: number, problem: string): ChainReport {
    return { length, head, broken: { sequence, problem } }
  }
}
