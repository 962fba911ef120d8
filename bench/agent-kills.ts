// Checks that no run, question, tool call or usage is lost or doubled when the server is killed while users talk to the
// agent.
//
//   node bench/agent-kills.ts [--kills=100] [--suspend=30]
//
// Five users talk to the agent of one installation, each with a page that runs tools. The script kills the server at
// random moments, starts it again, and finally compares the rows with what the users saw. The tests run a smaller
// version (`server/test/processes/agent-kills.test.ts`).
//
// With --suspend, two servers share a PostgreSQL and a Redis. Instead of being killed, the server that the users are
// connected to is suspended for this number of seconds, and the users continue on the other one.

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { killDuringRuns } from '../server/test/agent-kills.ts'
import { testSecret } from '../server/test/engines/engines.ts'
import { startExternalEngines } from '../server/test/engines/external.ts'

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '100' }, suspend: { type: 'string' } },
})
const folder = mkdtempSync(join(tmpdir(), 'inlay-agent-kills-'))
// If this runs as root, PostgreSQL runs as another user, which needs access.
chmodSync(folder, 0o755)
const started = performance.now()
const engines = values.suspend === undefined ? undefined : await startExternalEngines()
try {
  const report = await killDuringRuns({
    dataDir: join(folder, 'data'),
    kills: Number(values.kills),
    ...(engines && { suspend: prepareSuspension(engines, Number(values.suspend)) }),
    onKill: (text) => process.stderr.write(`\r${text}`),
  })
  process.stderr.write('\n')
  console.log(JSON.stringify(report, undefined, 2))
  console.log(`${((performance.now() - started) / 60_000).toFixed(1)} minutes`)
  if (report.problems.length > 0) process.exitCode = 1
} finally {
  await engines?.stop()
  rmSync(folder, { recursive: true, force: true })
}

function prepareSuspension(
  { databaseUrl, templates, redisUrl }: Awaited<ReturnType<typeof startExternalEngines>>,
  seconds: number,
) {
  const url = databaseUrl.replace('DATABASE', templates.demo)
  return {
    seconds,
    env: { DATABASE_URL: url, REDIS_URL: redisUrl, INLAY_SECRET: testSecret },
    // A superuser, who sees the rows of all organizations.
    async read<Row>(text: string): Promise<Row[]> {
      const client = new pg.Client(url.replace('inlay_owner@', 'postgres@'))
      await client.connect()
      try {
        return (await client.query(text)).rows
      } finally {
        await client.end()
      }
    },
  }
}
