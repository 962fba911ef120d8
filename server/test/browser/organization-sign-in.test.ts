import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../http-server.ts'
import { startTestProvider, type TestProvider } from '../oidc-provider.ts'
import { arrive, comeBack, follow, press } from './visit.ts'

let app: HttpService
let provider: TestProvider
beforeAll(async () => {
  provider = await startTestProvider()
  await provider.expect({ sub: 'ann', email: 'ann@acme.example', name: 'Ann' })
  app = await startHttpService()
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const client = { client_id: 'inlay', client_secret: 'secret-of-inlay-at-the-provider' }
  const body = { issuer: provider.issuer, ...client, joins_on_first_sign_in: true }
  await app.request('PUT', '/organizations/current/sign-in', { token, body })
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`
      insert into sign_in_domains (organization_id, id, domain, token, verified_at, checked_at)
      values (current_organization(), gen_random_uuid(), 'acme.example', 'token', now(), now())`,
  )
})
afterAll(async () => {
  await app.close()
  await provider.stop()
})

test('the page’s policy lets the form lead to the organization’s provider, and the user comes back signed in', async () => {
  const { page, callback } = await arrive(app.url)
  await follow(page, 'Sign in with your organization')
  await page.getByLabel('Email').fill('ann@acme.example')
  await press(page, 'Continue')
  await page.getByText('Signed in as ann@acme.example').waitFor()
  await press(page, 'Allow')
  expect((await comeBack(page, callback)).searchParams.has('code')).toBe(true)
})
