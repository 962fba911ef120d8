import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press, seeHeading } from '../visit.ts'
import { openDashboard } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** Everything that a script could find later: storage, the address, the history's state. */
const traces = (page: Page) =>
  page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state, document.cookie])',
  )

const openMenu = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click()

describe('signing in', () => {
  test('returns to the page that was asked for, and leaves no token behind', async () => {
    const page = await openDashboard(app, '/o/demo/usage?range=7')
    await seeHeading(page, 'Usage')
    expect(page.url()).toBe(`${app.url}/o/demo/usage?range=7`)
    expect(await page.getByLabel('Period').inputValue()).toBe('7')
    expect(await traces(page)).not.toMatch(/eyJ|code=|refresh/)
  })

  test('a reload shows the same page again without a question', async () => {
    const page = await openDashboard(app, '/o/demo/usage?range=90')
    await seeHeading(page, 'Usage')
    await page.reload()
    await seeHeading(page, 'Usage')
    expect(page.url()).toBe(`${app.url}/o/demo/usage?range=90`)
  })

  test('without a path leads to the organization that was used last', async () => {
    const page = await openDashboard(app, '/', { user: 'member@demo.test' })
    await openMenu(page, /^Organization/)
    await page.getByRole('menuitem', { name: /^Other/ }).click()
    await page.waitForURL(`${app.url}/o/other`)
    await seeHeading(page, 'Overview')
    await page.goto(app.url)
    await page.waitForURL(`${app.url}/o/other`)
  })

  test('of a user without an organization leads to a form that creates one', async () => {
    const page = await openDashboard(app, '/', { user: 'nobody@demo.test' })
    await seeHeading(page, 'Create an organization')
    await page.getByLabel('Name').fill('Paper & Pen <b>')
    await press(page, 'Create organization')
    await page.waitForURL(/\/o\/paper-pen/)
    await page.getByRole('button', { name: 'Organization: Paper & Pen <b>' }).waitFor()
  })

  test('to an organization of others says so, and offers one’s own', async () => {
    const page = await openDashboard(app, '/o/other')
    await page.getByRole('heading', { name: 'You aren’t a member of “other”' }).waitFor()
    await press(page, 'Demo')
    await page.waitForURL(`${app.url}/o/demo`)
  })
})

test('signing out ends the session in this browser', async () => {
  const page = await openDashboard(app)
  await openMenu(page, /^Account/)
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await seeHeading(page, 'You’re signed out')
  await page.goto(`${app.url}/o/demo`)
  await page.getByRole('button', { name: 'admin@demo.test' }).waitFor()
})

describe('a session that ends while the dashboard is open', () => {
  /** Ends all sessions of the user, as an operator would. */
  const endSessions = (email: string) =>
    app.service.database.asService(async (sql) => {
      const [user] = await sql<{ id: string }>`
        update users set session_generation = session_generation + 1 where email = ${email} returning id`
      app.service.changes.announce(`user:${user?.id}`)
    })

  test('keeps the form, and continues after the user has signed in again', async () => {
    const page = await openDashboard(app, '/organizations/new', { user: 'admin@other.test' })
    await page.getByLabel('Name').fill('Kept name')
    await endSessions('admin@other.test')
    await press(page, 'Create organization')
    await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor()
    const opening = page.waitForEvent('popup')
    await press(page, 'Sign in')
    const popup = await opening
    await press(popup, 'admin@other.test')
    await page.waitForURL(/\/o\/kept-name/)
  })
})
