import { defineConfig } from 'vitest/config'

// Mostly waits for the processes that it starts, so it gets a worker more than there would be.
const processes = { include: ['server/test/processes/**/*.test.ts'], testTimeout: 120_000, maxWorkers: 2 }
const server = { include: ['server/**/*.test.ts'], exclude: ['server/src/lib/**', 'server/test/processes/**'] }

/** What is pure runs once; what touches a store runs on both sets of engines; the command brings its own. */
export default defineConfig({
  test: {
    testTimeout: 20_000,
    hookTimeout: 60_000,
    projects: [
      { extends: true, test: { name: 'lib', include: ['server/src/lib/**/*.test.ts'] } },
      { extends: true, test: { name: 'embedded', ...server, globalSetup: 'server/test/engines/embedded.ts' } },
      { extends: true, test: { name: 'external', ...server, globalSetup: 'server/test/engines/external.ts' } },
      { extends: true, test: { name: 'processes', ...processes } },
    ],
  },
})
