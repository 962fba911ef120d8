import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { startHttpService } from '../../http-server.ts'
import { startTestProvider } from '../../oidc-provider.ts'
import { usePage, useSite } from '../chromium.ts'
import { frameOf, waitUntilConnected } from './shop.ts'

/** A page whose `idToken` function the test controls, in an organization whose provider the test chooses. */
async function visit(idToken: (timesAsked: number) => Promise<string>) {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { body: key } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Page' } })
  const page = await usePage()
  let timesAsked = 0
  await page.exposeFunction('getIdToken', () => {
    timesAsked += 1
    return idToken(timesAsked)
  })
  const connectWith = (options: string) =>
    `document.querySelector('inlay-agent').connect({ publishableKey: '${key.key}', ${options} })`
  const html = `<!doctype html><script src="${app.url}/widget.js"></script>
    <script>window.heard = []; addEventListener('inlay-error', ({ detail }) => heard.push(detail.code))</script>
    <inlay-agent display-mode="inline"></inlay-agent>`
  return {
    page,
    timesAsked: () => timesAsked,
    trust: (issuer: string) =>
      app.request('PATCH', '/identity-providers/config', {
        token,
        body: { idp_type: 'custom_oidc', idp_issuer: issuer, allowed_audiences: ['shop'] },
      }),
    /** In tests, Chromium only allows storage in frames of the same site, which is any port of the same host. */
    async open({ isSameSite = false } = {}) {
      const site = await useSite(html)
      await page.goto(isSameSite ? site.replace('127.0.0.1', 'localhost') : site)
      await page.evaluate(connectWith('idToken: getIdToken'))
    },
    connectAsVisitor: () => page.evaluate(connectWith('')),
    nextTicket: () => page.waitForResponse((answer) => answer.url().endsWith('/pk-ticket') && answer.ok()),
  }
}

async function useProvider() {
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  return provider
}

const errors = (page: Page) => page.evaluate('heard')

test('asks the page for a fresh token when its token expires, and the page stays connected', async () => {
  const providers = [await useProvider(), await useProvider()] as const
  let current: (typeof providers)[number] = providers[0]
  const { page, timesAsked, trust, open, nextTicket } = await visit(() => current.idToken({ sub: 'ann' }))
  await trust(providers[0].issuer)
  await open()
  await waitUntilConnected(page)
  expect(timesAsked()).toBe(1)

  current = providers[1]
  const renewed = nextTicket()
  await trust(providers[1].issuer)
  await renewed
  await waitUntilConnected(page)
  expect(timesAsked(), 'once more').toBe(2)
  expect(await errors(page), 'no error for the page to handle').toEqual([])
})

test('reports repeated invalid tokens to the page, and connects once it provides a valid one', async () => {
  const [trusted, stranger] = [await useProvider(), await useProvider()]
  let current = stranger
  const { page, timesAsked, trust, open } = await visit(() => current.idToken({ sub: 'ann' }))
  await trust(trusted.issuer)
  await open()
  await frameOf(page).getByRole('alert').filter({ hasText: 'INVALID_TOKEN' }).waitFor()
  expect(timesAsked(), 'a second time immediately, then less and less often').toBeGreaterThanOrEqual(2)
  expect(await errors(page)).toContain('INVALID_TOKEN')
  current = trusted
  await waitUntilConnected(page)
  expect(await frameOf(page).getByRole('alert').count(), 'the problem is gone').toBe(0)
})

test('asks a page again that could not get a token', async () => {
  const provider = await useProvider()
  const { page, trust, open } = await visit((timesAsked) =>
    timesAsked < 3 ? Promise.reject(new Error('Bad gateway')) : provider.idToken({ sub: 'ann' }),
  )
  await trust(provider.issuer)
  await open()
  await waitUntilConnected(page)
  expect(await errors(page)).toEqual(['ID_TOKEN_UNAVAILABLE', 'ID_TOKEN_UNAVAILABLE'])
})

test('a visitor keeps the same secret after a reload, and a signed-in user sends none', async () => {
  const provider = await useProvider()
  const { page, trust, open, connectAsVisitor } = await visit(() => provider.idToken({ sub: 'ann' }))
  await trust(provider.issuer)
  const secrets: unknown[] = []
  page.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => {
      const message = JSON.parse(String(payload))
      if (message.type === 'hello') secrets.push(message.visitor_secret)
    }),
  )
  await open({ isSameSite: true })
  await waitUntilConnected(page)
  expect(secrets).toEqual([undefined])
  for (const count of [2, 3]) {
    await page.reload()
    await connectAsVisitor()
    await expect.poll(() => secrets.length).toBe(count)
    await waitUntilConnected(page)
  }
  expect(secrets[1]).toMatch(/^[0-9a-f]{64}$/)
  expect(secrets[2]).toBe(secrets[1])
})
