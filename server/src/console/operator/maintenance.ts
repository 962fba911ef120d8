import { readFileSync } from 'node:fs'
import pg from 'pg'
import type { Config } from '../../kernel/config/config.ts'
import { createSecrets, fingerprint } from '../../kernel/lib/secrets.ts'
import { auditKeys, type ChainHead, findHeads, formatHead } from '../../kernel/stores/audit/chain.ts'
import { keepFormerAuditKeys, retireAuditKeys } from '../../kernel/stores/audit/key-change.ts'
import { dropFormerLogins } from '../../kernel/stores/postgres/migrations.ts'
import type { Stores } from '../../kernel/stores/stores.ts'
import { verifyAuditChain } from '../../organizations/audit-events/verify.ts'
import { CommandFailed } from './command-failed.ts'
import { resealColumns } from './reseal.ts'
import { listAllOrganizations, withStores } from './stores.ts'

export async function migrateOnly(config: Config): Promise<void> {
  // Opening the stores migrates them.
  await withStores(
    { ...config, migratesOnStart: true },
    async () => console.log('The schema is up to date'),
    console.log,
  )
}

/**
 * Prints the head of each intact chain. Given earlier heads, it also finds rows that were deleted from the end, and
 * organizations that were deleted with their whole trail: the database alone can't reveal either.
 */
export async function verifyAudit(
  config: Config,
  { org, from }: Record<'org' | 'from', string | undefined>,
): Promise<void> {
  const heads = from === undefined ? [] : readHeads(from)
  await withStores(config, async (stores) => {
    let problems = 0
    const organizations = await listAllOrganizations(stores, org)
    for (const { id, slug } of organizations) {
      const earlier = heads.filter(({ organizationId }) => organizationId === id)
      const { length, head, broken } = await verifyAuditChain(stores, id, { earlier })
      if (broken) problems += 1
      console.log(
        broken
          ? `${slug}: BROKEN at row ${broken.sequence}: ${broken.problem}`
          : `${slug}: ${length} ${length === 1 ? 'row' : 'rows'}, head ${formatHead({ organizationId: id, sequence: length, hash: head })}`,
      )
    }
    const known = new Set(organizations.map(({ id }) => id))
    const missing = new Set(heads.map(({ organizationId }) => organizationId).filter((id) => !org && !known.has(id)))
    for (const id of missing) {
      const [receipt] = await stores.database.asService(
        (sql) => sql<{ id: string; requested_at: string }>`
          select id, requested_at from organization_erasures where organization_hash = ${fingerprint(id)}`,
      )
      const reason = receipt
        ? `an administrator deleted the organization on ${receipt.requested_at}, says the receipt ${receipt.id}`
        : 'the organization and its audit trail were deleted'
      console.log(`${id}: MISSING: ${reason}`)
    }
    if (problems + missing.size > 0) {
      throw new CommandFailed('The audit trail was tampered with, or the database was partially restored')
    }
  })
}

/** Accepts a head, or a file with the output of an earlier `audit verify`. */
function readHeads(from: string): ChainHead[] {
  const given = findHeads(from)
  if (given.length > 0) return given
  let text: string
  try {
    text = readFileSync(from, 'utf8')
  } catch (cause) {
    throw new CommandFailed(`--from must be a head or a file with heads, but ${from} can't be read`, { cause })
  }
  const heads = findHeads(text)
  if (heads.length === 0)
    throw new CommandFailed(`${from} contains no heads. Save the output of: npx inlay audit verify`)
  return heads
}

/** Each value is re-encrypted independently, so a rotation that was interrupted can be run again. */
export async function rotateSecret(config: Config): Promise<void> {
  await withStores(config, async (stores) => {
    const organizationIds = (await listAllOrganizations(stores)).map(({ id }) => id)
    let changed = await stores.kv.reseal()
    changed += await resealColumns(stores, organizationIds)
    if (config.secrets.length > 1) await changeAuditKey(stores, organizationIds)
    // All nodes use the first secret by now; database logins derived from the others must not outlive them.
    await dropFormerLogins(stores.owner, createSecrets(config.secrets.slice(0, 1)))
    console.log(
      changed > 0 || config.secrets.length > 1
        ? `Re-encrypted ${changed} ${changed === 1 ? 'value' : 'values'} with the first secret. You can now remove the other secrets from INLAY_SECRET.`
        : 'Everything is already encrypted with the only secret. To change it, put a new one in front: INLAY_SECRET=new,old',
    )
  })
}

/** Existing rows stay verifiable with the former keys; new rows can't use them. */
async function changeAuditKey({ owner, secrets }: Stores, organizationIds: readonly string[]): Promise<void> {
  const retired = auditKeys(secrets)
    .slice(1)
    .map(({ id }) => id)
  const client = new pg.Client(owner)
  await client.connect()
  try {
    await keepFormerAuditKeys(client, secrets)
    for (const organizationId of organizationIds) {
      await client.query('begin')
      await retireAuditKeys(client, secrets, organizationId, retired)
      const { command } = await client.query('commit')
      if (command !== 'COMMIT')
        throw new CommandFailed('Could not record the change of the audit key. Run the command again.')
    }
  } finally {
    await client.end()
  }
}
