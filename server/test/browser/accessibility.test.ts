import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPasswordLink } from '../../src/accounts/sign-in/password-pages.ts'
import { addLocalUser } from '../../src/accounts/users/local-accounts.ts'
import { type HttpService, startHttpService } from '../http-server.ts'
import { startThirdParty, type ThirdParty } from '../third-party.ts'
import { usePage } from './chromium.ts'
import { arrive, comeBack, follow, press, seeHeading, signInWithPassword, visitConnector } from './visit.ts'

let app: HttpService
let third: ThirdParty
beforeAll(async () => {
  app = await startHttpService()
  third = await startThirdParty()
})
afterAll(async () => {
  await app.close()
  await third.stop()
})

/** A name without a place to break the line. */
const longName = 'x'.repeat(100)

async function open(address: string): Promise<Page> {
  const page = await usePage()
  await page.goto(address)
  return page
}

const signIn = async () => (await arrive(app.url, { metadata: { client_name: longName } })).page

async function chooseOrganization(): Promise<Page> {
  const page = await signIn()
  await press(page, 'member@demo.test')
  return page
}

async function consent(): Promise<Page> {
  const page = await chooseOrganization()
  await follow(page, 'Demo')
  return page
}

async function signOut(): Promise<Page> {
  const page = await chooseOrganization()
  await follow(page, 'sign out')
  return page
}

async function choosePassword(): Promise<Page> {
  const user = await addLocalUser(app.service, { email: 'lee@example.com', name: 'Lee' })
  return open(await createPasswordLink(app.service, app.url, { ...user, password_hash: null }))
}

const visitThird = (name: string) => visitConnector(app, { name, server_url: third.serverUrl })

async function goToThird(name: string): Promise<Page> {
  const page = await visitThird(name)
  await press(page, 'Connect')
  return page
}

async function allowThird(name: string): Promise<Page> {
  const page = await goToThird(name)
  await follow(page, `Continue to ${new URL(third.url).host}`)
  return page
}

async function denyThird(): Promise<Page> {
  third.denies = true
  const page = await allowThird('denied')
  await page.getByRole('alert').waitFor()
  third.denies = false
  return page
}

async function disconnectThird(): Promise<Page> {
  const page = await allowThird('left')
  await press(page, 'Disconnect')
  return page
}

const longConnector = 'x'.repeat(32)

const connectLong = () =>
  visitConnector(app, { name: longConnector, server_url: `https://tracker.example/${longName}` })

test.each<[name: string, heading: string | RegExp, visit: () => Promise<Page>]>([
  ['sign-in', 'Sign in', signIn],
  ['organization', 'Choose an organization', chooseOrganization],
  ['consent', `Allow ${longName}?`, consent],
  ['password', 'Choose a password', choosePassword],
  ['used link', 'This link isn’t valid', () => open(`${app.url}/sign-in/set-password`)],
  ['sign-out', 'Sign out?', signOut],
  ['ended visit', 'This page is no longer valid', async () => open((await signIn()).url())],
  ['third party', `Connect ${longConnector}?`, connectLong],
  ['redirect to a third party', /^Continue to 127\.0\.0\.1:\d+\?$/, () => goToThird('way')],
  ['connected third party', 'You’re connected to done', () => allowThird('done')],
  ['denied third party', 'Connect denied?', denyThird],
  ['disconnected third party', 'Connect left?', disconnectThird],
  ['unknown third party', 'This link isn’t valid', () => open(`${app.url}/connect/none`)],
  ['bad request', 'Sign-in failed', () => open(`${app.url}/oauth/authorize?client_id=nobody`)],
])('the %s page is accessible: labelled, readable and usable with the keyboard', async (_, heading, visit) => {
  const page = await visit()
  await seeHeading(page, heading)
  expect(await page.locator('html').getAttribute('lang')).toBe('en')
  expect(await page.title()).toMatch(/^\S.* · Inlay$/)
  await page.getByText('Inlay', { exact: true }).first().waitFor()
  const tree = await page.locator('body').ariaSnapshot()
  expect(tree, 'everything is in the main landmark').toMatch(/^- main:\n( {2}.*\n?)+$/)
  expect(tree.match(/- heading .*\[level=1\]/g), tree).toHaveLength(1)
  expect(tree.match(/- (button|link|textbox|heading)(?! ")/g), `elements without a name in\n${tree}`).toBeNull()

  await page.setViewportSize({ width: 320, height: 600 })
  expect(await page.locator('html').evaluate((html) => html.scrollWidth), 'no scrolling sideways').toBe(320)
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    expect(await findFaintTexts(page), colorScheme).toEqual([])
  }
})

/** Texts whose contrast is below the WCAG minimum. */
function findFaintTexts(page: Page): Promise<string[]> {
  return page.locator('main, main *').evaluateAll((elements) => {
    const styleOf = (element: (typeof elements)[number]) => element.ownerDocument.defaultView.getComputedStyle(element)
    const luminance = (color: string) => {
      const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? [])
        .map((value) => Number(value) / 255)
        .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const behind = (element: (typeof elements)[number]): string => {
      const color = styleOf(element).backgroundColor
      return color === 'rgba(0, 0, 0, 0)' ? behind(element.parentElement) : color
    }
    return elements
      .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
      .filter((element) => {
        const [one, other] = [luminance(styleOf(element).color), luminance(behind(element))]
        return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) < 4.5
      })
      .map((element) => element.textContent)
  })
}

test('only a problem is an alert', async () => {
  const page = await signIn()
  expect(await page.getByRole('alert').count()).toBe(0)
  await signInWithPassword(page, 'nobody@example.com', 'wrong horse battery')
  await page.getByRole('alert').waitFor()
  expect(await page.getByRole('alert').allInnerTexts()).toEqual(['The email address or password is incorrect.'])
})

test('the whole flow works with the keyboard, and the focus is visible', async () => {
  const [email, password] = ['kay@example.com', 'correct horse battery']
  await addLocalUser(app.service, { email, name: 'Kay', password })
  const { page, callback } = await arrive(app.url)
  await tabTo(page, page.getByLabel('Email'))
  await page.keyboard.type(email)
  await tabTo(page, page.getByLabel('Password'))
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await seeHeading(page, 'Choose an organization')
  await tabTo(page, page.getByLabel('New organization'))
  await page.keyboard.type('Kay’s')
  await tabTo(page, page.getByRole('button', { name: 'Create organization' }))
  await page.keyboard.press('Space')
  await seeHeading(page, 'Allow Tool?')
  await tabTo(page, page.getByRole('link', { name: 'Choose another organization' }))
  await page.keyboard.press('Enter')
  await seeHeading(page, 'Choose an organization')
  await tabTo(page, page.getByRole('link', { name: 'Kay’s' }))
  await page.keyboard.press('Enter')
  await tabTo(page, page.getByRole('button', { name: 'Allow' }))
  await page.keyboard.press('Enter')
  expect((await comeBack(page, callback)).searchParams.get('code')).toBeTruthy()
})

test("connects and disconnects a third party's server with the keyboard", async () => {
  const page = await visitThird('keys')
  const pressByKey = async (role: 'button' | 'link', name: string) => {
    await tabTo(page, page.getByRole(role, { name, exact: true }))
    await page.keyboard.press('Enter')
  }
  await pressByKey('button', 'Connect')
  await pressByKey('link', `Continue to ${new URL(third.url).host}`)
  await seeHeading(page, 'You’re connected to keys')
  await pressByKey('button', 'Disconnect')
  await seeHeading(page, 'Connect keys?')
})

async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor()
  for (let presses = 0; presses < 20; presses++) {
    const focus = await target.evaluate((element) => ({
      isHere: element === element.ownerDocument.activeElement,
      outline: element.ownerDocument.defaultView.getComputedStyle(element).outlineStyle,
    }))
    if (focus.isHere) return expect(focus.outline, `the focus on ${target} is visible`).toBe('solid')
    await page.keyboard.press('Tab')
  }
  throw new Error(`Tab does not lead to ${target}`)
}
