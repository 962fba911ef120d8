import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listPasskeys } from '../../src/accounts/passkeys/passkeys.ts'
import { addLocalUser } from '../../src/accounts/users/local-accounts.ts'
import { type HttpService, startHttpService } from '../http-server.ts'
import { newEmail } from '../sample-helpers.ts'
import { usePage } from './chromium.ts'
import { findAccessibilityProblems } from './dashboard/dashboard.ts'
import { arrive, press, seeHeading, signInWithPassword } from './visit.ts'

const password = 'plum lantern harbor'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** Chromium's own authenticator. It asks nobody: `isVerified` is what its user would do. */
async function useAuthenticator(page: Page) {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return {
    setVerified: (isUserVerified: boolean) =>
      devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }),
  }
}

async function openAccount(page: Page) {
  const email = newEmail()
  const { id } = await addLocalUser(app.service, { email, name: 'Ivy', password })
  await page.goto(`${app.url}/account`)
  await signInWithPassword(page, email, password)
  await page.getByRole('heading', { name: 'Passkeys' }).waitFor()
  return { id, email }
}

async function addPasskey(page: Page, name: string) {
  await page.getByLabel('Name').fill(name)
  await press(page, 'Add a passkey')
}

const signOut = (page: Page) => page.context().clearCookies()

describe('in Chromium, a passkey', () => {
  test('is added, signs the user in, and is removed', async () => {
    const page = await usePage()
    await useAuthenticator(page)
    const violations: string[] = []
    page.on('console', (message) => void violations.push(message.text()))
    const { id, email } = await openAccount(page)
    await addPasskey(page, 'My laptop')
    await page.getByRole('listitem').filter({ hasText: 'My laptop' }).filter({ hasText: 'not used yet' }).waitFor()
    expect(await findAccessibilityProblems(page)).toEqual([])

    await signOut(page)
    await arrive(app.url, { page })
    expect(await findAccessibilityProblems(page)).toEqual([])
    await press(page, 'Sign in with a passkey')
    await seeHeading(page, 'Choose an organization')
    await page.getByText(`Signed in as ${email}.`).waitFor()

    await page.goto(`${app.url}/account`)
    await page.getByRole('listitem').filter({ hasText: 'last used' }).waitFor()
    await press(page, 'Remove My laptop')
    await page.getByRole('listitem').waitFor({ state: 'detached' })
    expect(await listPasskeys(app.service, id)).toEqual([])
    expect(violations).toEqual([])

    await signOut(page)
    await arrive(app.url, { page })
    await press(page, 'Sign in with a passkey')
    await page.getByRole('alert').filter({ hasText: 'This passkey wasn’t accepted.' }).waitFor()
  })

  test('isn’t added twice to one device', async () => {
    const page = await usePage()
    await useAuthenticator(page)
    await openAccount(page)
    await addPasskey(page, 'Laptop')
    await page.getByRole('listitem').waitFor()
    await addPasskey(page, 'Laptop again')
    await page.getByRole('alert').filter({ hasText: 'This device already has a passkey' }).waitFor()
    expect(await page.getByRole('button', { name: 'Add a passkey' }).isEnabled()).toBe(true)
  })

  test('doesn’t sign in a user that the device can’t verify, who can try again', async () => {
    const page = await usePage()
    const authenticator = await useAuthenticator(page)
    const { email } = await openAccount(page)
    await addPasskey(page, 'Laptop')
    await page.getByRole('listitem').waitFor()
    await signOut(page)
    await arrive(app.url, { page })
    await authenticator.setVerified(false)
    await press(page, 'Sign in with a passkey')
    await page.getByRole('alert').filter({ hasText: 'Try again.' }).waitFor()
    await authenticator.setVerified(true)
    await press(page, 'Sign in with a passkey')
    await page.getByText(`Signed in as ${email}.`).waitFor()
  })

  test('can’t be sent a second time', async () => {
    const page = await usePage()
    await useAuthenticator(page)
    await openAccount(page)
    await addPasskey(page, 'Laptop')
    await page.getByRole('listitem').waitFor()
    await signOut(page)
    await arrive(app.url, { page })
    const sent = page.waitForRequest((request) => request.url().endsWith('/passkey'))
    await press(page, 'Sign in with a passkey')
    const request = await sent
    await seeHeading(page, 'Choose an organization')
    const again = await page.request.post(request.url(), {
      data: request.postData() ?? '',
      headers: { 'content-type': 'application/x-www-form-urlencoded', origin: app.url },
    })
    expect([again.status(), await again.text()]).toEqual([400, expect.stringContaining('This page is no longer valid')])
  })
})

test.each([
  ['JavaScript', { javaScriptEnabled: false }],
  ['WebAuthn', { initScript: 'delete window.PublicKeyCredential' }],
])('without %s, users sign in with their password, and aren’t offered a passkey', async (_, options) => {
  const page = await usePage(options)
  await arrive(app.url, { page })
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
  expect(await page.getByRole('button', { name: 'passkey' }).isVisible()).toBe(false)
})
