import { afterAll, beforeAll, expect, test } from 'vitest'
import { type LocalGithub, startGithub } from '../../github.ts'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press, seeHeading } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let github: LocalGithub
let app: HttpService
beforeAll(async () => {
  github = await startGithub()
  app = await startHttpService({ GITHUB_URL: github.url })
})
afterAll(async () => {
  await app.close()
  await github.close()
})

const skill = (name: string, body: string) => `---\nname: ${name}\ndescription: Use it.\n---\n${body}\n`

test('an admin registers an app, installs it, connects a repository, and its skills are synced', async () => {
  const repository = github.createRepository('acme/playbook', {
    'skills/refund/SKILL.md': skill('refund', 'Check the order.'),
    'skills/broken/SKILL.md': 'No frontmatter',
  })
  const page = await openDashboard(app, '/o/demo/code-host')
  await page.getByLabel('GitHub organization').fill('acme')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Continue to GitHub')
  await seeHeading(page, 'Create GitHub App')
  await press(page, 'Create GitHub App')

  await page.waitForURL(`${app.url}/o/demo/code-host`)
  await page.getByText('The app isn’t installed yet.').waitFor()
  await page.getByText('ends with abcd').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  const opened = page.waitForEvent('popup')
  await page.getByRole('link', { name: 'Install on GitHub' }).click()
  const installing = await opened
  await press(installing, 'Install')
  // GitHub sends the browser back, and the way on is the same in both tabs.
  await installing.waitForURL(/\/o\/demo\/code-host/)
  await installing.close()
  await page.reload()

  await page.getByLabel('Repository with your skills').selectOption('acme/playbook')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Connect')
  await page.getByText('acme/playbook connected').waitFor()
  await page.getByText('Synced with problems').waitFor()
  await page.getByText('1 skill created, 0 updated, 0 archived, 0 unchanged').waitFor()
  await page.getByText('1 file was skipped').waitFor()
  await page.getByText('frontmatter is missing').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  github.push(repository, { 'skills/broken/SKILL.md': skill('returns', 'Take it back.') })
  await press(page, 'Sync now')
  await page.getByText('Up to date').waitFor()
  await page.getByText(repository.commit.slice(0, 7)).waitFor()

  github.fail(/trees/, { status: 503 }, 1)
  await press(page, 'Sync now')
  await page.getByText('GitHub has a problem at the moment (status 503)').waitFor()
  await page.getByText('No skill was changed.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await page.goto(`${app.url}/o/demo/skills`)
  await page.getByRole('row', { name: /refund.*acme\/playbook\/skills\/refund\/SKILL.md/ }).click()
  await page.getByText('This skill is synced from acme/playbook.').waitFor()
  expect(await page.getByRole('link', { name: 'skills/refund/SKILL.md' }).getAttribute('href')).toBe(
    `${github.url}/acme/playbook/blob/main/skills/refund/SKILL.md`,
  )
  expect(await page.getByRole('link', { name: 'Edit on GitHub' }).getAttribute('href')).toBe(
    `${github.url}/acme/playbook/edit/main/skills/refund/SKILL.md`,
  )
  expect(await page.getByRole('button', { name: 'Archive' }).count()).toBe(0)
  await page.getByRole('textbox', { name: 'SKILL.md' }).and(page.locator('[contenteditable=false]')).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await page.goto(`${app.url}/o/demo/code-host`)
  await press(page, 'Disconnect')
  await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click()
  await page.getByText('Repository disconnected').waitFor()
  await page.getByLabel('Repository with your skills').waitFor()
  await press(page, 'Remove app')
  const slug = [...github.apps.values()].find(({ owner }) => owner === 'acme')?.slug ?? ''
  await page.getByLabel(`Type “${slug}” to confirm`).fill(slug)
  await press(page, 'Remove')
  await page.getByText('GitHub app removed').waitFor()
  await page.getByRole('button', { name: 'Continue to GitHub' }).waitFor()
})
