// Records usage until it is killed, and prints the id of every event as soon as it is acknowledged.
//   node server/test/usage-writer.ts <organization> <site> <end user>…

import { readConfig } from '../src/kernel/config/config.ts'
import { systemClock } from '../src/kernel/lib/clock.ts'
import { createLog } from '../src/kernel/lib/log.ts'
import { openStores } from '../src/kernel/stores/stores.ts'
import { recordUsage } from '../src/plans/usage/record.ts'
import { usageRecord } from './usage-records.ts'

const [organizationId = '', site_id = '', ...endUsers] = process.argv.slice(2)
const stores = await openStores(readConfig(), { clock: systemClock, log: createLog('silent'), claim: 'own' })

async function write(): Promise<void> {
  for (let n = 0; ; n += 1) {
    const end_user_id = endUsers[n % endUsers.length] as string
    const event = usageRecord(organizationId, { site_id, end_user_id, prompt_tokens: n })
    await recordUsage(stores, event)
    process.stdout.write(`${event.id}\n`)
  }
}

await Promise.all(Array.from({ length: 50 }, write))
