import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../test/harness.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

test('a key is created', async () => {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { status, body } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop' } })
  expect(status).toBe(200)
  expect(body.key).toMatch(/^pk_test_/)
})
