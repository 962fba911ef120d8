import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { useHttps } from '../https-server.ts'
import { claimsOf, exchange } from '../oauth-client.ts'
import { useInstallation } from '../processes.ts'
import { usePage, useSite } from './chromium.ts'
import { arrive, comeBack, follow, press, seeHeading, signInWithPassword } from './visit.ts'
import { waitUntilConnected } from './widget/shop.ts'

const [email, password] = ['ada@example.com', 'correct horse battery']

/** A fresh production server behind a proxy that ends TLS. Its first administrator has just followed the one-time link. */
async function setUpServer() {
  let target = ''
  const url = await useHttps(
    (request, response) => {
      const { method, headers, url: path } = request
      const passed = httpRequest(`${target}${path}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      passed.on('error', () => response.destroy())
      request.pipe(passed)
    },
    ({ url: path, rawHeaders }, socket, head) => {
      const passed = connect(Number(new URL(target).port), '127.0.0.1')
      const headers = rawHeaders.flatMap((name, index) =>
        index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1]}`] : [],
      )
      passed.write(`${[`GET ${path} HTTP/1.1`, ...headers].join('\r\n')}\r\n\r\n`)
      passed.write(head)
      for (const end of [passed, socket]) end.on('error', () => [passed, socket].map((each) => each.destroy()))
      socket.pipe(passed).pipe(socket)
    },
  )
  const inlay = useInstallation({ INLAY_PUBLIC_URL: url, INLAY_SECRET: randomBytes(32).toString('base64') })
  const server = await inlay.start()
  target = server.url

  const page = await usePage({ ignoreHTTPSErrors: true })
  await page.goto(server.stdout().match(/https:\S+\/setup\?token=\S+/)?.[0] ?? '')
  await page.getByLabel('Your name').fill('Ada')
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByLabel('Organization').fill('Acme')
  await press(page, 'Create organization')
  await seeHeading(page, 'Acme is ready')
  return { url, page }
}

test('the first administrator gets from the one-time link to a working snippet in the browser', async () => {
  const { url, page } = await setUpServer()
  await follow(page, 'Open the dashboard')
  await signInWithPassword(page, email, password)
  await seeHeading(page, 'Overview')
  let html = ''
  const shop = (await useSite(() => html)).replace('127.0.0.1', 'localhost')
  const setUp = page.getByRole('region', { name: 'Set-up' })
  await setUp.getByRole('link', { name: 'Create a key' }).click()
  const form = page.getByRole('dialog', { name: 'Create a publishable key' })
  await form.getByLabel('Name').fill('Shop')
  await form.getByRole('textbox', { name: 'Allowed origins' }).fill(shop)
  await form.getByRole('button', { name: 'Create key' }).click()
  const ready = page.getByRole('dialog', { name: '“Shop” is ready' })
  const snippet = ready.locator('pre', { hasText: '<inlay-agent' }).first()
  html = `<!doctype html><title>Shop</title>${await snippet.innerText()}`
  expect(html).toContain(`${url}/widget.js`)
  await ready.getByRole('button', { name: 'Done' }).click()

  const customer = await usePage({ ignoreHTTPSErrors: true })
  await customer.goto(shop)
  await waitUntilConnected(customer)

  // Without a model, the preview says what is missing.
  await page.getByRole('link', { name: 'Try it', exact: true }).click()
  await page.getByText('No model is configured').waitFor()
})

test('the first administrator sets up a production server behind TLS and allows a program', async () => {
  const { url, page } = await setUpServer()
  const { config, attempt, callback } = await arrive(url, { page })
  const buttons = () => page.getByRole('button').allInnerTexts()
  await expect.poll(buttons, { message: 'no demo' }).toEqual(['Sign in', 'Sign in with a passkey'])
  await signInWithPassword(page, email, password)
  await press(page, 'Allow')
  const { access_token } = await exchange(config, attempt, await comeBack(page, callback))
  expect(claimsOf(access_token)).toMatchObject({ iss: url, org_id: expect.any(String) })

  const cookies = await page.context().cookies(url)
  expect(cookies.map(({ name }) => name)).toContain('__Host-inlay-session')
  for (const cookie of cookies) expect(cookie).toMatchObject({ secure: true, httpOnly: true, sameSite: 'Lax' })
})
