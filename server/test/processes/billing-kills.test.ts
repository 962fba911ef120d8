import { expect, test } from 'vitest'
import { killDuringBilling, moments } from '../polar/kills.ts'
import { useUsedInstallation } from '../processes.ts'

test('kill -9 during webhooks, syncs, changes of seats and reports of usage loses nothing, and both sides agree', {
  timeout: 600_000,
}, async () => {
  const { dataDir } = useUsedInstallation()
  const { kills, missing, invented, stored, expected, problems, audit } = await killDuringBilling(dataDir)
  expect(kills).toBe(moments.length + 1)
  expect({ missing, invented, problems }).toEqual({ missing: [], invented: [], problems: [] })
  expect(stored).toEqual(expected)
  expect(audit).toMatch(/demo: \d+ rows/)
})
