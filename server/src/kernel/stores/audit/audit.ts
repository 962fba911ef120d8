import { accessDenied } from '../../lib/errors.ts'
import { newId } from '../../lib/ids.ts'
import type { Sql } from '../database.ts'
import { type AuditRow, canonicalJson, chainHash, emptyChain } from './chain.ts'

/** The organization whose trail a change belongs to, and its actor: a user's email, or `operator` for the command. */
export interface Trail {
  organizationId: string
  actor: string
  /** The actor's ID, if it is a user: addresses change, and accounts can share one. By default the caller's. */
  actorId?: string | undefined
  /** The user or service account whose request this is, with the role that allowed it. */
  caller?: { id: string; role: string }
}

interface Head {
  length: number
  hash: string
  /** When the chain was locked, so that times have the order of the numbers. */
  now: string
}

/** The latest head that each transaction wrote, so that only its first row reads the head from the database. */
const heads = new WeakMap<Sql, { organizationId: string; head: Promise<Head> }>()

/** The transactions whose caller was found to still have the role that allowed the request. */
const allowed = new WeakMap<Sql, Promise<void>>()

/**
 * Writes a change's audit row in the change's own transaction: if the row can't be written, neither is the change.
 * Call it last. It locks the organization's chain until the transaction ends, and any lock taken afterwards could
 * deadlock with a transaction that took the two in the opposite order.
 *
 * Fails if the caller has lost the role that allowed the request, which nodes cache. A change of roles has a row in the
 * same chain, so it either came before and is seen, or comes after this change.
 */
export async function recordAudit(
  sql: Sql,
  { organizationId, actor, caller, actorId = caller?.id }: Trail,
  action: string,
  target: string,
  data: Record<string, unknown> = {},
): Promise<void> {
  const latest = heads.get(sql)
  const before = latest?.organizationId === organizationId ? latest.head : lockHead(sql, organizationId)
  // Sent after the lock, in a statement of its own, so that it reads what was committed before the lock was free.
  const isAllowed = caller && requireRole(sql, caller)
  const head = Promise.all([before, isAllowed]).then(([head]) =>
    append(sql, head, { organization_id: organizationId, actor, actor_id: actorId ?? null, action, target, data }),
  )
  heads.set(sql, { organizationId, head })
  await head
}

/**
 * For changes that can end the caller's own membership, before they do: the audit row comes too late. The transaction
 * must have locked the organization's members.
 */
export const requireRole = (sql: Sql, caller: { id: string; role: string }): Promise<void> => {
  const known = allowed.get(sql)
  if (known) return known
  const found = selectRole(sql, caller).then(([standing]) => {
    if (!standing) throw accessDenied('Your access to this organization has just changed')
  })
  allowed.set(sql, found)
  return found
}

/** Names the organization, because members have policies besides their organization's. */
const selectRole = (sql: Sql, { id, role }: { id: string; role: string }) => sql`
  select from members
  where organization_id = (select current_organization()) and user_id = ${id} and role = ${role}
    and deactivated_at is null
  union all
  select from service_accounts where id = ${id} and role = ${role}`

async function lockHead(sql: Sql, organizationId: string): Promise<Head> {
  const [head] = await sql<Head>`
    select length, encode(hash, 'hex') as hash, iso_timestamp(clock_timestamp()::timestamptz(3)) as now
    from audit_chains where organization_id = ${organizationId} for update`
  if (head) return head
  const [first] = await sql<Head>`
    insert into audit_chains (organization_id, length, hash) values (${organizationId}, 0, decode(${emptyChain}, 'hex'))
    on conflict (organization_id) do update set length = audit_chains.length
    returning length, encode(hash, 'hex') as hash, iso_timestamp(clock_timestamp()::timestamptz(3)) as now`
  return first as Head
}

type NewRow = Omit<AuditRow, 'sequence' | 'id' | 'created_at'>

function append(sql: Sql, { length, hash: previous, now }: Head, row: NewRow): Head {
  const { auditKey } = sql
  const { organization_id } = row
  const [id, sequence] = [newId(), length + 1]
  const chained = { ...row, id, sequence, created_at: now }
  const hash = chainHash(auditKey, previous, chained)
  // As one value, because a migration also records audit rows, before later ones have added columns.
  const stored = canonicalJson({ ...chained, key_id: auditKey.id, hash: `\\x${hash}` })
  // Not awaited, so that it travels with the commit. If it fails, PostgreSQL turns the commit into a rollback, and the
  // transaction fails with its error. Its values are strings and a number, so it can't fail before it is sent.
  sql`
    with chained as (
      update audit_chains set length = ${sequence}, hash = decode(${hash}, 'hex') where organization_id = ${organization_id})
    insert into audit_events select * from jsonb_populate_record(null::audit_events, ${stored}::jsonb)`.catch(
    () => undefined,
  )
  return { length: sequence, hash, now }
}
