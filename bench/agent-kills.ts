// Checks that no run, question, tool call or usage is lost or doubled when the server is killed while users talk to the
// agent.
//
//   node bench/agent-kills.ts [--kills=100]
//
// Five users talk to the agent of one installation, each with a page that runs tools. The script kills the server at
// random moments, starts it again, and finally compares the rows with what the users saw. The tests run a smaller
// version (`server/test/processes/agent.test.ts`).

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { killDuringRuns } from '../server/test/agent-kills.ts'

const { values } = parseArgs({ options: { kills: { type: 'string', default: '100' } } })
const folder = mkdtempSync(join(tmpdir(), 'inlay-agent-kills-'))
// If this runs as root, PostgreSQL runs as another user, which needs access.
chmodSync(folder, 0o755)
const started = performance.now()
try {
  const report = await killDuringRuns({
    dataDir: join(folder, 'data'),
    kills: Number(values.kills),
    onKill: (text) => process.stderr.write(`\r${text}`),
  })
  process.stderr.write('\n')
  console.log(JSON.stringify(report, undefined, 2))
  console.log(`${((performance.now() - started) / 60_000).toFixed(1)} minutes`)
  if (report.problems.length > 0) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
