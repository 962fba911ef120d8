import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { testSecret } from '../../../test/engines/engines.ts'
import { useTestService } from '../../../test/harness.ts'
import { addEndUser, addSite, findWrongSums } from '../../../test/usage-records.ts'

test.each([1, 100, 1_000])(
  'kill -9 after %i acknowledged events loses none of them, and all totals are exact',
  async (count) => {
    const app = await useTestService()
    const demo = await app.organization('demo')
    const things = [demo, await addSite(app, demo), await addEndUser(app, demo), await addEndUser(app, demo)]
    const writer = spawn(process.execPath, [join(import.meta.dirname, '../../../test/usage-writer.ts'), ...things], {
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: app.config.databaseUrl,
        INLAY_SECRET: testSecret,
        INLAY_DATA_DIR: join(app.config.dataDir, 'writer'),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exited = once(writer, 'exit')
    const acknowledged: string[] = []
    for await (const id of createInterface(writer.stdout)) {
      acknowledged.push(id)
      if (acknowledged.length === count) writer.kill('SIGKILL')
    }
    expect((await exited)[1]).toBe('SIGKILL')
    expect(acknowledged.length).toBeGreaterThanOrEqual(count)

    const events = await app.service.database.asOrg(demo, (sql) => sql<{ id: string }>`select id from usage_events`)
    const kept = new Set(events.map(({ id }) => id))
    expect(acknowledged.filter((id) => !kept.has(id))).toEqual([])
    expect(await findWrongSums(app, demo)).toEqual([])
  },
)
