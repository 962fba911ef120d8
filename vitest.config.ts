import { existsSync, globSync, readFileSync, statfsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Starts the files that take minutes first, because otherwise one of them runs alone at the end. Without results of an
 * earlier run, vitest only knows the sizes of files.
 */
class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const order = ['processes', 'external', 'embedded', 'lib', 'browser']
    const place = ({ project }: TestSpecification) => order.indexOf(project.name)
    return (await super.sort(files)).sort((a, b) => place(a) - place(b))
  }
}

/**
 * Keeps databases and other files of the tests in memory if there is room for them (about 1 GB). On a disk, the system
 * spends ten times as long on the copy of a database.
 */
function useMemory(folder: string, gigabytes: number): void {
  if (!existsSync(folder)) return
  const { bavail, bsize } = statfsSync(folder)
  const isExecutable = !new RegExp(`^\\S+ ${folder} \\S+ \\S*noexec`, 'm').test(readFileSync('/proc/mounts', 'utf8'))
  if (bavail * bsize > gigabytes * 2 ** 30 && isExecutable) process.env.TMPDIR = folder
}
useMemory('/dev/shm', 6)

const processes = { include: ['server/test/processes/**/*.test.ts'], testTimeout: 240_000, isolate: true }
// A browser that is closed may take its time to say so, and the hub waits for a page that might come back.
const browser = {
  include: ['server/test/browser/**/*.test.ts'],
  testTimeout: 240_000,
  // A browser keeps more than one core busy. With little competition it behaves as on a user's machine.
  maxWorkers: availableParallelism(),
  sequence: { groupOrder: 1 },
}
/** Whether a test, or a helper that it imports, asks for engines. */
function usesStores(file: string): boolean {
  const text = readFileSync(file, 'utf8')
  const imports = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => join(dirname(file), path))
  return /\binject\(/.test(text) || imports.some((path) => path.startsWith('server/test/') && usesStores(path))
}
const pure = globSync(['server/src/**/*.test.ts', 'server/test/*.test.ts']).filter((file) => !usesStores(file))
const elsewhere = [...pure, ...processes.include, ...browser.include]
const server = { include: ['server/**/*.test.ts'], exclude: elsewhere }

/** Tests of connections, telemetry and interoperability. The stores make no difference to them. */
const once = [
  'server/src/kernel/http/connections.test.ts',
  'server/src/tools/mcp/{clients,conformance}.test.ts',
  'server/src/tools/remote-tools/interoperability.test.ts',
  'server/src/agent/telemetry/telemetry.test.ts',
]

/**
 * Tests of what differs between the stores, and one walk over all operations and tools. Only these run on both sets of
 * engines in `npm test`.
 */
const ofStores = [
  'server/src/kernel/{jobs,stores}/**/*.test.ts',
  'server/src/kernel/http/idempotency.test.ts',
  'server/src/plans/{budgets,usage}/*.test.ts',
  'server/src/tools/mcp/tools.test.ts',
  'server/test/{access,fair-shares,tenant-walls}.test.ts',
  // They ask which engines there are.
  ...globSync(server.include, { exclude: elsewhere }).filter((file) =>
    /\binject\('engines'\)/.test(readFileSync(file, 'utf8')),
  ),
]

const external = {
  extends: true,
  test: { name: 'external', ...server, globalSetup: 'server/test/engines/external.ts' },
} as const

/**
 * What is pure, and what a browser shows, runs once. `npm run test:all` adds what `npm test` runs on the embedded engines
 * only. The command brings its own engines.
 */
const isRest = process.env.INLAY_TESTS === 'rest'

export default defineConfig({
  test: {
    // More than there are cores, because tests often wait for stores and processes.
    maxWorkers: availableParallelism() + 2,
    // A worker loads the server, and starts a browser, once and not again for each file. Tests share no state in modules.
    isolate: false,
    // Generous, because the machine may be busy. Tests that pass don't use the time.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    sequence: { sequencer: SlowestFirst },
    setupFiles: 'server/test/patience.ts',
    projects: isRest
      ? [{ ...external, test: { ...external.test, exclude: [...server.exclude, ...once, ...ofStores] } }]
      : [
          {
            extends: true,
            test: {
              name: 'lib',
              include: [
                ...pure,
                '{widget,dashboard}/src/**/*.test.{ts,tsx}',
                'tool-server/src/**/*.test.ts',
                'examples/**/*.test.ts',
              ],
            },
          },
          { extends: true, test: { name: 'embedded', ...server, globalSetup: 'server/test/engines/embedded.ts' } },
          { ...external, test: { ...external.test, include: ofStores, exclude: [...server.exclude, ...once] } },
          {
            extends: true,
            test: {
              name: 'browser',
              ...browser,
              globalSetup: ['server/test/engines/embedded.ts', 'server/test/engines/pages.ts'],
            },
          },
          {
            extends: true,
            test: { name: 'processes', ...processes, globalSetup: 'server/test/engines/installation.ts' },
          },
        ],
  },
})
