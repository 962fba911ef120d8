// Measures what the announcement of a change costs a node, depending on how much it has cached and holds open.
//
//   node bench/invalidation.ts [--entries=1000,10000,100000] [--leavers=200]
//
// Each leaver announces four topics, which end one entry in each of eight caches. The node also holds as many
// sockets as each cache has entries, all of other users. Before each round, the caches are filled again. The variant
// `scan` looks at every entry and socket for each topic, as Inlay once did, and takes part in every round, so that other
// load on the machine cancels out.

import { parseArgs } from 'node:util'
import { createLog } from '../server/src/kernel/lib/log.ts'
import { openLocalBus } from '../server/src/kernel/stores/bus.ts'
import { openChanges } from '../server/src/kernel/stores/changes.ts'
import type { Database } from '../server/src/kernel/stores/database.ts'
import { FreshCache } from '../server/src/kernel/stores/fresh-cache.ts'
import { topics } from '../server/src/kernel/stores/topics.ts'
import { createHeldAccess } from '../server/src/visitors/tickets/ends-of-access.ts'

const { values: options } = parseArgs({
  options: {
    entries: { type: 'string', default: '1000,10000,100000' },
    leavers: { type: 'string', default: '200' },
  },
})
const leavers = Number(options.leavers)
const cacheCount = 8
const rounds = 5

interface Value {
  key: string
  topics: string[]
}

const topicsOf = (person: number) => [
  topics.user(`${person}`),
  topics.endUser(`${person}`),
  topics.identityProvider('organization'),
]
const ended = (person: number) => [
  topics.user(`${person}`),
  topics.endUser(`${person}`),
  topics.consents(`${person}`),
  topics.key(`${person}`),
]

async function openVariants(entries: number) {
  const log = createLog('silent')
  const clock = Date.now
  const changes = await openChanges(openLocalBus(), log)
  const caches = Array.from(
    { length: cacheCount },
    () => new FreshCache<Value>({ changes, clock, limit: entries, topicsOf: (value) => value.topics }),
  )
  // No announced topic concerns a socket, so the database isn't asked.
  const database = {} as Database
  const held = createHeldAccess(
    { changes, clock, log, database, config: { mode: 'development' } as never },
    async () => true,
  )
  const holders = Array.from({ length: entries }, (_, socket) => ({
    organization_id: 'organization',
    publishable_key_id: 'key',
    origin: undefined,
    site_id: undefined,
    end_user: { id: `socket ${socket}`, verified_email: undefined, identity_expires_at: 0, provider: '' },
  }))
  for (const holder of holders) held.hold(holder, { accessEnded: () => undefined })

  const maps = Array.from({ length: cacheCount }, () => new Map<string, Value>())
  const scanning = await openChanges(openLocalBus(), log)
  scanning.watch({
    changed(topic) {
      for (const map of maps) for (const [key, value] of map) if (value.topics.includes(topic)) map.delete(key)
      for (const one of holders.map((holder) => ({ holder })))
        if (topic === `end-user:${one.holder.end_user.id}`) throw new Error('No socket is concerned')
    },
    missed: () => undefined,
  })
  return {
    index: {
      changes,
      async fill() {
        for (const cache of caches)
          for (let person = 0; person < entries; person += 1)
            await cache.load(`${person}`, async () => ({ key: `${person}`, topics: topicsOf(person) }))
      },
    },
    scan: {
      changes: scanning,
      async fill() {
        for (const map of maps)
          for (let person = 0; person < entries; person += 1)
            map.set(`${person}`, { key: `${person}`, topics: topicsOf(person) })
      },
    },
  }
}

const median = (all: number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] as number

console.log('| Entries per cache, and sockets | index, µs per topic | scan, µs per topic |\n| ---: | ---: | ---: |')
for (const entries of options.entries.split(',').map(Number)) {
  const variants = await openVariants(entries)
  const measured: Record<'index' | 'scan', number[]> = { index: [], scan: [] }
  // A scan of 100 000 entries takes so long that fewer leavers suffice.
  const leaving = { index: leavers, scan: Math.max(1, Math.min(leavers, Math.round(200_000 / entries))) }
  for (let round = 0; round < rounds; round += 1)
    for (const name of ['index', 'scan'] as const) {
      await variants[name].fill()
      const before = process.cpuUsage()
      for (let person = 0; person < leaving[name]; person += 1) variants[name].changes.announce(...ended(person))
      const { user, system } = process.cpuUsage(before)
      measured[name].push((user + system) / leaving[name] / 4)
    }
  console.log(`| ${entries} | ${median(measured.index).toFixed(1)} | ${median(measured.scan).toFixed(1)} |`)
}
