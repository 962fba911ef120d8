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

/** Whether a test, or a helper that it imports, asks for engines. */
function usesStores(file: string): boolean {
  const text = readFileSync(file, 'utf8')
  const imports = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => join(dirname(file), path))
  return /\binject\(/.test(text) || imports.some((path) => path.startsWith('server/test/') && usesStores(path))
}

const processes = globSync('server/test/processes/**/*.test.ts')
const browser = globSync('server/test/browser/**/*.test.ts')
const server = globSync('server/**/*.test.ts', { exclude: [...processes, ...browser] })
const stored = server.filter(usesStores)
const lib = [
  ...server.filter((file) => !stored.includes(file)),
  ...globSync(['{widget,dashboard}/src/**/*.test.{ts,tsx}', '{tool-server/src,examples,scripts}/**/*.test.ts']),
]

/** Tests of connections, telemetry and interoperability. The stores make no difference to them. */
const once = globSync([
  'server/src/kernel/http/connections.test.ts',
  'server/src/tools/mcp/{clients,conformance}.test.ts',
  'server/src/tools/remote-tools/interoperability.test.ts',
  'server/src/agent/telemetry/telemetry.test.ts',
])

/** Tests of what differs between the stores, and one walk over all operations and tools. */
const ofStores = [
  ...globSync([
    'server/src/kernel/{jobs,stores}/**/*.test.ts',
    'server/src/kernel/http/idempotency.test.ts',
    'server/src/plans/{budgets,usage}/*.test.ts',
    'server/src/tools/mcp/tools.test.ts',
    'server/test/{access,fair-shares,tenant-walls}.test.ts',
  ]),
  // They ask which engines there are.
  ...stored.filter((file) => /\binject\('engines'\)/.test(readFileSync(file, 'utf8'))),
].filter((file) => stored.includes(file) && !once.includes(file))

/** Files that take long, by name. */
const isLong = (file: string) => /(^|[/-])(accessibility|conformance|kills|pictures)\.test\.ts$|\/large-/.test(file)

/**
 * `npm test` leaves out the long files. It runs every other test once, and what differs between the stores on both sets
 * of engines. `npm run test:all` runs the long files, and all of the server on the engines of several machines.
 */
const isRest = process.env.INLAY_TESTS === 'rest'
const inTier = (files: string[]) => files.filter((file) => isLong(file) === isRest)
const onSeveralMachines = isRest
  ? stored.filter((file) => !once.includes(file) && (isLong(file) || !ofStores.includes(file)))
  : inTier(ofStores)

export default defineConfig({
  test: {
    // More than there are cores, because tests often wait for stores and processes.
    maxWorkers: availableParallelism() + 2,
    // A worker loads the server, and starts a browser, once and not again for each file. Tests share no state in modules.
    isolate: false,
    // Generous, because the machine may be busy. Tests that pass don't use the time.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000 } },
    sequence: { sequencer: SlowestFirst },
    setupFiles: 'server/test/patience.ts',
    projects: [
      { extends: true, test: { name: 'lib', include: inTier(lib) } },
      {
        extends: true,
        test: { name: 'embedded', include: inTier(stored), globalSetup: 'server/test/engines/embedded.ts' },
      },
      {
        extends: true,
        test: { name: 'external', include: onSeveralMachines, globalSetup: 'server/test/engines/external.ts' },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: inTier(browser),
          // A browser keeps more than one core busy. With little competition it behaves as on a user's machine.
          maxWorkers: availableParallelism(),
          sequence: { groupOrder: 1 },
          globalSetup: ['server/test/engines/embedded.ts', 'server/test/engines/pages.ts'],
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: inTier(processes),
          isolate: true,
          globalSetup: 'server/test/engines/installation.ts',
        },
      },
    ],
  },
})
