import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { defineConfig } from 'vitest/config'

const processes = { include: ['server/test/processes/**/*.test.ts'], testTimeout: 120_000 }
// A browser that is closed may take its time to say so, and the hub waits for a page that might come back.
const browser = {
  include: ['server/test/browser/**/*.test.ts'],
  testTimeout: 60_000,
  expect: { poll: { timeout: 30_000 } },
  // A browser keeps more than one core busy. Without competition it behaves as on a user's machine.
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
/** Without isolation, a worker loads the server once and not again for each file. Tests share no state in modules. */
const server = { include: ['server/**/*.test.ts'], exclude: elsewhere, isolate: false }

/** Tests of connections, telemetry and interoperability. The stores make no difference to them. */
const once = [
  'server/src/http/connections.test.ts',
  'server/src/mcp/{clients,conformance}.test.ts',
  'server/src/remote-tools/interoperability.test.ts',
  'server/src/telemetry/telemetry.test.ts',
]

/**
 * What touches a store runs on both sets of engines; what is pure, and what a browser shows, once. The command brings
 * its own engines.
 */
export default defineConfig({
  test: {
    // One more than there are cores, because tests often wait for stores and processes.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 20_000,
    hookTimeout: 60_000,
    setupFiles: 'server/test/patience.ts',
    projects: [
      {
        extends: true,
        test: {
          name: 'lib',
          include: [...pure, 'widget/src/**/*.test.{ts,tsx}', 'tool-server/src/**/*.test.ts', 'examples/**/*.test.ts'],
        },
      },
      { extends: true, test: { name: 'embedded', ...server, globalSetup: 'server/test/engines/embedded.ts' } },
      {
        extends: true,
        test: {
          name: 'external',
          ...server,
          exclude: [...server.exclude, ...once],
          globalSetup: 'server/test/engines/external.ts',
        },
      },
      { extends: true, test: { name: 'browser', ...browser, globalSetup: 'server/test/engines/embedded.ts' } },
      { extends: true, test: { name: 'processes', ...processes, globalSetup: 'server/test/engines/installation.ts' } },
    ],
  },
})
