import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { saveApp } from '../../../src/content/code-host/github-app.ts'
import { type LocalGithub, startGithub } from '../../github.ts'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press, seeHeading } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let github: LocalGithub
let app: HttpService
/** With an app that the operator offers. */
let offering: HttpService
beforeAll(async () => {
  github = await startGithub()
  app = await startHttpService({ GITHUB_URL: github.url })
  const { app: platform, settings } = github.platformApp()
  offering = await startHttpService({ GITHUB_URL: github.url, ...settings })
  platform.manifest.setup_url = `${offering.url}/api/org-github-apps/installed`
})
afterAll(async () => {
  await app.close()
  await offering.close()
  await github.close()
})

const skill = (name: string, body: string) => `---\nname: ${name}\ndescription: Use it.\n---\n${body}\n`

test('an admin installs the operator’s app, connects a repository, and disconnects GitHub', async () => {
  github.createRepository('acme/handbook', { 'skills/hello/SKILL.md': skill('hello', 'Say hello.') })
  const page = await openDashboard(offering, '/o/demo/code-host')
  await page.getByText('The app isn’t installed yet.').waitFor()
  await page.getByRole('heading', { name: 'Use your own GitHub app' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Install on GitHub')
  await seeHeading(page, 'Install')
  await press(page, 'Install')

  await page.waitForURL(`${offering.url}/o/demo/code-host`)
  await page.getByText('Installed in').waitFor()
  await page.getByLabel('Repository with your skills').selectOption('acme/handbook')
  await press(page, 'Connect')
  await page.getByText('Up to date').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await press(page, 'Disconnect GitHub')
  await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click()
  await page.getByText('GitHub disconnected').waitFor()
  await page.getByText('The app isn’t installed yet.').waitFor()
})

test('an admin with more repositories than the list shows connects one by its name', async () => {
  const many = await startGithub()
  const own = await startHttpService({ GITHUB_URL: many.url })
  onTestFinished(async () => {
    await own.close()
    await many.close()
  })
  const created = await own.service.github.convertManifest(many.register({ name: 'inlay', redirect_url: '' }, 'acme'))
  many.install(created.id)
  const registration = { organization_id: await own.organization('demo'), user_id: '', github_org_name: 'acme' }
  await saveApp(own.service, registration, { id: registration.organization_id, email: 'admin@demo.test' }, created)
  for (let n = 0; n < 500; n += 1) many.createRepository(`acme/r${n}`)
  many.createRepository('acme/last', { 'skills/hello/SKILL.md': skill('hello', 'Say hello.') })
  const page = await openDashboard(own, '/o/demo/code-host')
  await page.getByText('The app can read more repositories than are listed here.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByLabel('Another repository').fill('acme/last')
  await press(page, 'Connect')
  await page.getByText('acme/last connected').waitFor()
  await page.getByText('Up to date').waitFor()
})
