import type { Page } from 'playwright-core'
import type { HttpService } from '../http-server.ts'
import { prepare, register } from '../oauth-client.ts'
import { usePage, useSite } from './chromium.ts'

/** Redirect URI of a program on the user's computer. */
export const useCallback = async (): Promise<string> => `${await useSite('<h1>You are back</h1>')}/callback`

/** The URL that the browser was redirected to. */
export async function comeBack(page: Page, callback: string): Promise<URL> {
  await page.waitForURL((url) => url.href.startsWith(`${callback}?`))
  return new URL(page.url())
}

/** A new native client has just sent a browser to the server. */
export async function arrive(
  url: string,
  { metadata = {}, parameters = {}, page }: { metadata?: object; parameters?: object; page?: Page } = {},
) {
  const callback = await useCallback()
  const config = await register(url, { redirect_uris: [callback], ...metadata })
  const attempt = await prepare(config, { redirect_uri: callback, ...parameters })
  const visitor = page ?? (await usePage())
  await visitor.goto(attempt.url.href)
  return { page: visitor, config, attempt, callback }
}

/** A demo user signs in with a new browser and allows a client. */
export async function allowInBrowser(address: string | URL): Promise<Page> {
  const page = await usePage()
  await page.goto(String(address))
  await press(page, 'admin@demo.test')
  await press(page, 'Allow')
  return page
}

/** A member opens the page of a new connector to a third party's server. */
export async function visitConnector(app: HttpService, connector: { name: string; server_url: string }): Promise<Page> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { body } = await app.request('POST', '/connectors', { token, body: { kind: 'oauth', ...connector } })
  const page = await usePage()
  await page.goto(`${app.url}/connect/${body.id}`)
  await press(page, 'member@demo.test')
  return page
}

export const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

export const follow = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click()

/** Waits for the page with this heading. */
export const seeHeading = (page: Page, name: string | RegExp) =>
  page.getByRole('heading', { level: 1, name, exact: true }).waitFor()

export async function signInWithPassword(page: Page, email: string, password: string): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await press(page, 'Sign in')
}
