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

/** Recomputes an organization's chain from its first row, or from where an earlier report ended, to its head. */
export async function verifyAuditChain(
  database: Database,
  organizationId: string,
  from: ChainReport = { length: 0, head: emptyChain },
): Promise<ChainReport> {
  let { length, head } = from
  let chain: { length: number; hash: string } | null
  for (;;) {
    // Rows and head in one statement: a change that is written meanwhile shows in both or in neither.
    const [read] = await database.asOrg(
      organizationId,
      (sql) => sql<{ rows: [sequence: number, hash: string, fits: boolean][]; chain: typeof chain }>`
        select (select jsonb_build_object('length', length, 'hash', encode(hash, 'hex')) from audit_chains) as chain,
               (select coalesce(jsonb_agg(jsonb_build_array(sequence, encode(hash, 'hex'), fits) order by sequence), '[]')
                from (
                  select sequence, hash,
                         hash = audit_hash(lag(hash, 1, decode(${head}, 'hex')) over (order by sequence), audit_events) as fits
                  from audit_events where sequence > ${length} order by sequence limit ${batch}) as checked) as rows`,
    )
    const { rows = [] } = read ?? {}
    chain = read?.chain ?? null
    for (const [sequence, hash, fits] of rows) {
      const expected = length + 1
      if (sequence !== expected) return broken(expected, 'the row is missing')
      if (!fits) return broken(sequence, 'the row was changed, or the row before it was')
      length = sequence
      head = hash
    }
    if (rows.length < batch) break
  }
  if ((chain?.length ?? 0) > length) return broken(length + 1, `rows up to ${chain?.length} are missing at the end`)
  if (chain ? chain.length !== length || chain.hash !== head : length > 0) {
    return broken(length, 'the head of the chain was changed')
  }
  return { length, head }

  function broken(sequence: number, problem: string): ChainReport {
    return { length, head, broken: { sequence, problem } }
  }
}
