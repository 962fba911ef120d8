import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
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
/** Tests without a store: they neither ask for engines nor use anything of `server/test`. */
const pure = globSync('server/src/**/*.test.ts').filter(
  (file) => file.startsWith('server/src/lib/') || !/\/test\/|inject\(/.test(readFileSync(file, 'utf8')),
)
const elsewhere = [...pure, ...processes.include, ...browser.include]
/** Without isolation, a worker loads the server once and not again for each file. Tests share no state in modules. */
const server = { include: ['server/**/*.test.ts'], exclude: elsewhere, isolate: false }

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
      { extends: true, test: { name: 'external', ...server, globalSetup: 'server/test/engines/external.ts' } },
      { extends: true, test: { name: 'browser', ...browser, globalSetup: 'server/test/engines/embedded.ts' } },
      { extends: true, test: { name: 'processes', ...processes } },
    ],
  },
})
