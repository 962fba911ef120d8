// Erases an organization's rows.
//   node server/test/tenant-eraser.ts <erasure> <organization>

import { readConfig } from '../src/kernel/config/config.ts'
import { systemClock } from '../src/kernel/lib/clock.ts'
import { createLog } from '../src/kernel/lib/log.ts'
import { openStores } from '../src/kernel/stores/stores.ts'

const [erasureId = '', organizationId = ''] = process.argv.slice(2)
const stores = await openStores(readConfig(), { clock: systemClock, log: createLog('silent'), claim: 'own' })
await stores.eraseTenant({ erasureId, organizationId, signal: new AbortController().signal })
await stores.close()
