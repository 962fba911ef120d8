import { defineConfig } from 'vitest/config'

const server = { include: ['server/**/*.test.ts'], exclude: ['server/src/lib/**'] }

/** What is pure runs once; what touches a store runs on both sets of engines. */
export default defineConfig({
  test: {
    testTimeout: 20_000,
    hookTimeout: 60_000,
    projects: [
      { test: { name: 'lib', include: ['server/src/lib/**/*.test.ts'] } },
      { test: { name: 'embedded', ...server, globalSetup: 'server/test/engines/embedded.ts' } },
      { test: { name: 'external', ...server, globalSetup: 'server/test/engines/external.ts' } },
    ],
  },
})
