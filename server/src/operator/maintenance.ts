import { verifyAuditChain } from '../audit/verify.ts'
import type { Config } from '../config.ts'
import { createSecrets } from '../lib/secrets.ts'
import { dropFormerLogins } from '../stores/migrations.ts'
import { CommandFailed } from './command-failed.ts'
import { resealColumns } from './reseal.ts'
import { listOrganizations, withStores } from './stores.ts'

export async function migrateOnly(config: Config): Promise<void> {
  // Opening the stores migrates them.
  await withStores(config, async () => console.log('The schema is up to date'))
}

export async function verifyAudit(config: Config, slug: string | undefined): Promise<void> {
  await withStores(config, async (stores) => {
    let brokenChains = 0
    for (const { id, slug: name } of await listOrganizations(stores, slug)) {
      const { length, head, broken } = await verifyAuditChain(stores.database, id)
      if (broken) brokenChains += 1
      console.log(
        broken
          ? `${name}: BROKEN at row ${broken.sequence}: ${broken.problem}`
          : `${name}: ${length} rows, head ${head}`,
      )
    }
    if (brokenChains > 0)
      throw new CommandFailed('The audit trail was tampered with, or the database was restored in part')
  })
}

/** Every value stands for itself, so a rotation that was killed is simply run again. */
export async function rotateSecret(config: Config): Promise<void> {
  await withStores(config, async (stores) => {
    let changed = await stores.kv.reseal()
    changed += await resealColumns(
      stores,
      (await listOrganizations(stores)).map(({ id }) => id),
    )
    // Every node uses the first one by now; the logins of the others must not outlive their secrets.
    await dropFormerLogins(stores.owner, createSecrets(config.secrets.slice(0, 1)))
    console.log(
      changed > 0 || config.secrets.length > 1
        ? `Sealed ${changed} values with the first secret. The others can now be dropped from INLAY_SECRET.`
        : 'Everything is sealed with the only secret there is. To change it, put a new one in front: INLAY_SECRET=new,old',
    )
  })
}
