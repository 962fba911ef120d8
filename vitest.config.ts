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

/** Tests of several nodes, and of a Redis that loses messages or is away. They need Redis. */
const isOfNodes = (file: string) => /(^|[/-])(nodes|lost-messages|engines-away)\.test\.ts$/.test(file)

/** Tests of what differs between the stores, and one walk over all operations. `npm test` runs them on both sets. */
const ofStores = globSync([
  'server/src/kernel/jobs/*.test.ts',
  'server/src/kernel/stores/{,audit/}*.test.ts',
  'server/src/kernel/stores/postgres/{batches,migrations,partitions,table-statistics}.test.ts',
  'server/src/kernel/http/idempotency.test.ts',
  'server/src/plans/budgets/*.test.ts',
  'server/src/plans/usage/{record,usage}.test.ts',
  'server/src/visitors/tickets/signed-tickets.test.ts',
  'server/src/channels/ag-ui/access.test.ts',
  'server/src/organizations/access-cleanup/access-cleanup.test.ts',
  'server/test/{access,tenant-walls}.test.ts',
]).filter((file) => stored.includes(file))

/** Files that `npm test` leaves out, by their names. */
const restNames = /(^|[/-])(accessibility|conformance|kills|pictures|variations)\.test\.ts$|\/(hostile|large)-/

/** More files that `npm test` leaves out, each with what it has instead. */
const rest: Record<string, string> = {
  'server/conversion/convert.test.ts': 'a test of the migrations: few databases from before 0.1.0 are left',
  'server/src/tools/mcp/clients.test.ts': 'endpoint.test.ts and tools.test.ts, without these clients',
  'server/src/tools/remote-tools/interoperability.test.ts': 'remote-tools.test.ts, without these servers',
  'server/test/obeying-model.test.ts': 'injection.test.ts, with fewer attacks',
  'server/test/browser/new-user.test.ts': 'set-up.test.ts: the way to a first key, without the guides',
  'server/test/browser/production.test.ts': 'processes/production.test.ts, without a browser and TLS',
  'server/test/browser/reference.test.ts': 'openapi.test.ts: the document that the pages show',
  'server/test/processes/backup.test.ts': 'start.test.ts: a server that starts on an existing folder',
  'server/test/processes/delegation.test.ts': 'the tests of remote tools, in one process',
  'server/test/processes/documentation.test.ts': 'the tests of what the documentation describes',
}

/** `npm run test:all` runs what `npm test` leaves out. */
const isRest = process.env.INLAY_TESTS === 'rest'
const isLeftOut = (file: string) => restNames.test(file) || file in rest
const inTier = (files: string[]) => files.filter((file) => isLeftOut(file) === isRest)
const onOneMachine = inTier(stored.filter((file) => !isOfNodes(file)))
const onSeveralMachines = isRest
  ? stored.filter((file) => !once.includes(file) && (isLeftOut(file) || !(isOfNodes(file) || ofStores.includes(file))))
  : inTier(stored.filter((file) => isOfNodes(file) || ofStores.includes(file)))

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
        test: { name: 'embedded', include: onOneMachine, globalSetup: 'server/test/engines/embedded.ts' },
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
