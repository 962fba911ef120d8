import { expect, onTestFinished, test } from 'vitest'
import { writePolarSettings } from '../polar/installation.ts'
import { killDuringBilling, moments } from '../polar/kills.ts'
import { startPolar } from '../polar/stand-in.ts'
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

test('doctor checks the account at Polar, and explains what is wrong with it', async () => {
  const polar = await startPolar()
  const settings = writePolarSettings(polar)
  onTestFinished(async () => {
    settings.remove()
    await polar.close()
  })
  const inlay = useUsedInstallation()
  const examine = async (env = {}) => {
    const { code, stdout } = await inlay.run('doctor', { ...settings.env, ...env })
    expect(stdout).not.toContain(polar.accessToken)
    return { code, line: stdout.split('\n').find((line) => line.includes(' billing ')) }
  }
  expect(await examine()).toEqual({ code: 0, line: `✓ billing        ${polar.url} sells team, enterprise, by-seat` })
  expect(await examine({ POLAR_ACCESS_TOKEN: 'polar_oat_wrong' })).toEqual({
    code: 1,
    line: expect.stringMatching(
      /^✗ billing {8}Polar responded with 401: .*\. Check POLAR_ACCESS_TOKEN, its scopes, and POLAR_URL\.$/,
    ),
  })
  polar.trouble = () => ({ status: 404, body: '{}' })
  expect(await examine()).toEqual({
    code: 1,
    line: '✗ billing        Polar responded with 404: {}. Check the product_id of each plan in INLAY_PLANS_FILE, and POLAR_URL.',
  })
})
