import type pg from 'pg'
import type { Secrets } from '../../lib/secrets.ts'
import { columnTypes, type Sql } from '../database.ts'
import { recordAudit } from './audit.ts'
import { auditKeys, keyChanged, sealAuditKey } from './chain.ts'

/**
 * Retires other keys in an organization's chain, so that an attacker who learns them can't forge later rows.
 * Runs as the schema's owner, in the caller's transaction. Safe to repeat.
 */
export async function retireAuditKeys(
  client: pg.Client,
  secrets: Secrets,
  organizationId: string,
  retired: readonly string[],
): Promise<void> {
  const sql = sqlOf(client, secrets)
  await sql`select set_config('inlay.organization_id', ${organizationId}, true)`
  const [done] = await sql`
    select from audit_events
    where organization_id = ${organizationId} and action = ${keyChanged} and key_id = ${sql.auditKey.id}
      and data @> ${JSON.stringify({ retired })}::jsonb limit 1`
  if (!done) await recordAudit(sql, { organizationId, actor: 'operator' }, keyChanged, organizationId, { retired })
}

/** Stores the keys of secrets that are about to be dropped, so that the rows under them can still be verified. */
export async function keepFormerAuditKeys(client: pg.Client, secrets: Secrets): Promise<void> {
  const [, ...former] = auditKeys(secrets)
  for (const key of former) {
    await client.query('insert into audit_keys (id, key_sealed) values ($1, $2) on conflict do nothing', [
      key.id,
      sealAuditKey(secrets, key),
    ])
  }
}

function sqlOf(client: pg.Client, secrets: Secrets): Sql {
  const [auditKey] = auditKeys(secrets)
  const send = async <Row>(strings: TemplateStringsArray, ...values: unknown[]) => {
    const text = strings.reduce((joined, part, index) => `${joined}$${index}${part}`)
    return (await client.query({ text, values, types: columnTypes })).rows as Row[]
  }
  return Object.assign(send, { auditKey })
}
