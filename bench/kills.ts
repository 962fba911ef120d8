// Checks that no acknowledged write is lost when the server or its PostgreSQL is killed during concurrent writes.
//
//   node bench/kills.ts [--server=200] [--postgres=50]
//
// Eight clients create keys continuously. This script restarts a killed server, and the server restarts a killed
// PostgreSQL. The tests run a smaller version (`server/test/processes/kills.test.ts`).

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { killRepeatedly } from '../server/test/kills.ts'

const { values } = parseArgs({
  options: { server: { type: 'string', default: '200' }, postgres: { type: 'string', default: '50' } },
})
const folder = mkdtempSync(join(tmpdir(), 'inlay-kills-'))
// If this runs as root, PostgreSQL runs as another user, which needs access.
chmodSync(folder, 0o755)
const started = performance.now()
try {
  const { recoveries, ...report } = await killRepeatedly({
    dataDir: join(folder, 'data'),
    serverKills: Number(values.server),
    postgresKills: Number(values.postgres),
    onKill: (text) => process.stderr.write(`\r${text}`),
  })
  process.stderr.write('\n')
  console.log(JSON.stringify(report, undefined, 2))
  for (const [kind, times] of Object.entries(recoveries)) {
    const sorted = times.toSorted((a, b) => a - b)
    const at = (share: number) => ((sorted[Math.ceil(sorted.length * share) - 1] ?? 0) / 1000).toFixed(2)
    console.log(`${kind}: ${times.length} kills, time to next write ${at(0.5)} s (median), ${at(1)} s (longest)`)
  }
  console.log(`${((performance.now() - started) / 60_000).toFixed(1)} minutes`)
  if (report.lost.length > 0 || report.halves.length > 0) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
