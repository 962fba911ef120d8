import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { expect, test } from 'vitest'
import { useHttps } from '../https-server.ts'
import { claimsOf, exchange } from '../oauth-client.ts'
import { useInstallation } from '../processes.ts'
import { usePage } from './chromium.ts'
import { arrive, comeBack, press, seeHeading, signInWithPassword } from './visit.ts'

test('the first administrator sets up a production server behind TLS and allows a program', async () => {
  let target = ''
  const url = await useHttps((request, response) => {
    const { method, headers, url: path } = request
    const passed = httpRequest(`${target}${path}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    request.pipe(passed)
  })
  const inlay = useInstallation({ INLAY_PUBLIC_URL: url, INLAY_SECRET: randomBytes(32).toString('base64') })
  const server = await inlay.start()
  target = server.url
  const [email, password] = ['ada@example.com', 'correct horse battery']

  const page = await usePage({ ignoreHTTPSErrors: true })
  await page.goto(server.stdout().match(/https:\S+\/setup\?token=\S+/)?.[0] ?? '')
  await page.getByLabel('Your name').fill('Ada')
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByLabel('Organization').fill('Acme')
  await press(page, 'Create organization')
  await seeHeading(page, 'Acme is ready')

  const { config, attempt, callback } = await arrive(url, { page })
  expect(await page.getByRole('button').allInnerTexts(), 'no demo').toEqual(['Sign in'])
  await signInWithPassword(page, email, password)
  await press(page, 'Allow')
  const { access_token } = await exchange(config, attempt, await comeBack(page, callback))
  expect(claimsOf(access_token)).toMatchObject({ iss: url, org_id: expect.any(String) })

  const cookies = await page.context().cookies(url)
  expect(cookies.map(({ name }) => name)).toContain('__Host-inlay-session')
  for (const cookie of cookies) expect(cookie).toMatchObject({ secure: true, httpOnly: true, sameSite: 'Lax' })
})
