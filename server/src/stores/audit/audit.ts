import { newId } from '../../lib/ids.ts'
import type { Sql } from '../database.ts'
import { type AuditRow, canonicalJson, chainHash, emptyChain } from './chain.ts'

/** The organization whose trail a change belongs to, and its actor: a user's email, or `operator` for the command. */
export interface Trail {
  organizationId: string
  actor: string
}

interface Head {
  length: number
  hash: string
  /** The transaction's time. */
  now: string
}

/** The latest head that each transaction wrote, so that only its first row reads the head from the database. */
const heads = new WeakMap<Sql, { organizationId: string; head: Promise<Head> }>()

/**
 * Writes a change's audit row in the change's own transaction: if the row can't be written, neither is the change.
 * Call it last. It locks the organization's chain until the transaction ends, and any lock taken afterwards could
 * deadlock with a transaction that took the two in the opposite order.
 */
export async function recordAudit(
  sql: Sql,
  { organizationId, actor }: Trail,
  action: string,
  target: string,
  data: Record<string, unknown> = {},
): Promise<void> {
  const latest = heads.get(sql)
  const before = latest?.organizationId === organizationId ? latest.head : lockHead(sql, organizationId)
  const head = before.then((head) =>
    append(sql, head, { organization_id: organizationId, actor, action, target, data }),
  )
  heads.set(sql, { organizationId, head })
  await head
}

async function lockHead(sql: Sql, organizationId: string): Promise<Head> {
  const [head] = await sql<Head>`
    select length, encode(hash, 'hex') as hash, iso_timestamp(now()::timestamptz(3)) as now
    from audit_chains where organization_id = ${organizationId} for update`
  if (head) return head
  const [first] = await sql<Head>`
    insert into audit_chains (organization_id, length, hash) values (${organizationId}, 0, decode(${emptyChain}, 'hex'))
    on conflict (organization_id) do update set length = audit_chains.length
    returning length, encode(hash, 'hex') as hash, iso_timestamp(now()::timestamptz(3)) as now`
  return first as Head
}

type NewRow = Omit<AuditRow, 'sequence' | 'id' | 'created_at'>

function append(sql: Sql, { length, hash: previous, now }: Head, row: NewRow): Head {
  const { auditKey } = sql
  const { organization_id, actor, action, target, data } = row
  const [id, sequence] = [newId(), length + 1]
  const hash = chainHash(auditKey, previous, { ...row, id, sequence, created_at: now })
  // Not awaited, so that it travels with the commit. If it fails, PostgreSQL turns the commit into a rollback, and the
  // transaction fails with its error. Its values are strings and a number, so it can't fail before it is sent.
  sql`
    with chained as (
      update audit_chains set length = ${sequence}, hash = decode(${hash}, 'hex') where organization_id = ${organization_id})
    insert into audit_events (organization_id, sequence, id, actor, action, target, data, created_at, key_id, hash)
    values (${organization_id}, ${sequence}, ${id}, ${actor}, ${action}, ${target}, ${canonicalJson(data)}::jsonb, ${now},
            ${auditKey.id}, decode(${hash}, 'hex'))`.catch(() => undefined)
  return { length: sequence, hash, now }
}
