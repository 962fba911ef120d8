import type { Config } from '../../kernel/config/config.ts'
import { systemClock } from '../../kernel/lib/clock.ts'
import { seedDemoUsage } from '../../plans/usage/demo-usage.ts'
import { listAllOrganizations, withStores } from './stores.ts'

export async function addDemoUsage(config: Config): Promise<void> {
  await withStores(config, async (stores) => {
    for (const { id, name } of await listAllOrganizations(stores, 'demo')) {
      const added = await seedDemoUsage({ database: stores.database, clock: systemClock }, id)
      console.log(added > 0 ? `${name}: added ${added} usage events` : `${name}: the demo usage is complete`)
    }
  })
}
