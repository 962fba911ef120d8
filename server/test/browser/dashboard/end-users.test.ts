import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { asOrg } from '../../sample-helpers.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'
import { addThread, addUser } from './observed.ts'

const many = 20_000
let app: HttpService
let ada: string
beforeAll(async () => {
  app = await startHttpService()
  await asOrg(
    app,
    'other',
    (sql) => sql`
      insert into end_users (organization_id, id, external_id, email, created_at)
      select current_organization(), gen_random_uuid(), 'crm|' || n, 'user-' || n || '@example.com',
             now() - interval '1 day' + n * interval '1 second'
      from generate_series(1, ${many}::int) n`,
  )
  ada = await addUser(app, 'ada@example.com', 'auth0|ada')
  await addThread(app, ada, 'Where is my order?')
})
afterAll(() => app.close())

test('a list of any length can be searched, and loads as far as it is scrolled', async () => {
  const page = await openDashboard(app, '/o/other/end-users', { user: 'admin@other.test' })
  await page.getByText('20,000 in total').waitFor()
  const rows = page.getByRole('table', { name: 'End users' }).getByRole('row')
  await rows.filter({ hasText: 'user-1@example.com' }).press('End')
  await rows.filter({ hasText: 'user-101@example.com' }).press('End')
  await rows.filter({ hasText: 'user-201@example.com' }).waitFor()
  expect(await rows.count(), 'only the visible rows are rendered').toBeLessThan(100)

  await page.getByLabel('Email or ID begins with').fill('crm|1999')
  await page.getByText('11 found').waitFor()
  await rows.filter({ hasText: 'user-19990@example.com' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByLabel('Email or ID begins with').fill('nobody')
  await page.getByText('Nothing matches these filters.').waitFor()
})

test('an admin gives an end user a budget of their own', async () => {
  const page = await openDashboard(app, `/o/demo/end-users/${ada}`)
  const sheet = page.getByRole('dialog', { name: 'ada@example.com' })
  for (const fact of ['auth0|ada', 'Ada Example', '["staff"]', 'No requests yet.']) {
    await sheet.getByText(fact, { exact: true }).waitFor()
  }
  await sheet.getByRole('link', { name: 'Where is my order?' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await press(page, 'Change budget')
  await page.getByLabel('Tokens per day').fill('many')
  await page.getByText('Enter a whole number.').waitFor()
  await page.getByLabel('Tokens per day').fill('5000')
  await page.getByLabel('US dollars per month').fill('2.50')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Save changes')
  await sheet.getByText('0 of 5,000').waitFor()
  await sheet.getByText('$0.00 of $2.50').waitFor()
})

test('an admin exports everything stored about an end user', async () => {
  const id = await addUser(app, 'ada@example.com')
  const page = await openDashboard(app, `/o/demo/end-users/${id}`)
  const download = page.waitForEvent('download')
  await press(page, 'Export data')
  const file = await download
  expect(file.suggestedFilename()).toBe(`end-user-${id}.jsonl`)
  const [profile] = readFileSync(await file.path(), 'utf8').split('\n')
  expect(JSON.parse(profile ?? '')).toMatchObject({ kind: 'profile', data: { id, email: 'ada@example.com' } })
  await page.getByText('Everything stored about this end user was saved').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
})

test('an admin erases an end user', async () => {
  const id = await addUser(app, 'eve@example.com')
  const page = await openDashboard(app, `/o/demo/end-users/${id}`)
  await press(page, 'Erase end user')
  const question = page.getByRole('dialog', { name: 'Erase eve@example.com?' })
  await question.getByRole('button', { name: 'Erase end user' }).click({ force: true })
  expect(await question.count(), 'nothing happens before the address is typed').toBe(1)
  await question.getByLabel(/Type/).fill('eve@example.com')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await question.getByRole('button', { name: 'Erase end user' }).click()
  await page.getByText('eve@example.com was erased').waitFor()
  await page.waitForURL(`${app.url}/o/demo/end-users`)
  const { status } = await app.request('GET', `/end-users/${id}`, {
    token: await app.tokenFor('admin@demo.test', 'demo'),
  })
  expect(status).toBe(404)
})

test('a member sees end users, and can’t change them', async () => {
  const id = await addUser(app, 'bob@example.com')
  const page = await openDashboard(app, `/o/demo/end-users/${id}`, { user: 'member@demo.test' })
  const sheet = page.getByRole('dialog', { name: 'bob@example.com' })
  await sheet.getByText('No threads yet.').waitFor()
  expect(await sheet.getByRole('button', { name: /Erase|budget/ }).count()).toBe(0)
})

test('an admin sees the browsers that an end user has confirmed, and removes one', async () => {
  const id = await addUser(app, 'grace@example.com', 'auth0|grace')
  await asOrg(
    app,
    'demo',
    (sql) => sql`
      insert into confirmed_browsers (organization_id, id, end_user_id, browser_fingerprint, how, issuer, expires_at)
      values (current_organization(), gen_random_uuid(), ${id}, 'a browser', 'provider', 'https://login.example',
              now() + interval '180 days')`,
  )
  const page = await openDashboard(app, `/o/demo/end-users/${id}`)
  const browsers = page.getByRole('region', { name: 'Confirmed browsers' })
  await browsers.getByRole('listitem').getByText('Confirmed').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await browsers.getByRole('button', { name: 'Remove browser' }).click()
  await page
    .getByRole('dialog', { name: 'Remove this browser?' })
    .getByRole('button', { name: 'Remove browser' })
    .click()
  await browsers.getByText('The user has confirmed no browser.').waitFor()
})
