import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { reportedUsage, startModelServer } from '../../../test/model-server.ts'
import { createModels } from '../models/create-models.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())
afterEach(async () => {
  await app.service.database.asOrg(await app.organization('demo'), (sql) => sql`delete from agent_settings`)
})

const patch = (body: unknown) => app.request('PATCH', '/agent/config', { token, body })
const runTest = (body?: unknown) =>
  app.request('POST', '/agent/config/test', { token, ...(body !== undefined && { body }) })
const modelOf = ({ url }: { url: string }, name = 'small') => ({ provider: 'openai_compatible', url, name })
const tested = { source: 'organization', provider: 'openai_compatible', model: 'small' }
const failed = {
  ...tested,
  success: false,
  latency_ms: expect.any(Number),
  prompt_tokens: null,
  completion_tokens: null,
  is_estimated: false,
}
const succeeded = {
  ...tested,
  success: true,
  latency_ms: expect.any(Number),
  ...reportedUsage,
  is_estimated: false,
  message: 'The model responded.',
}

describe('a test', () => {
  test('makes one real call to the saved model, with its key', async () => {
    const server = await startModelServer()
    await patch({ model: { ...modelOf(server), key: server.key } })
    const before = (await app.request('GET', '/agent/config', { token })).body
    expect((await runTest()).body).toEqual(succeeded)
    expect(server.asked).toHaveLength(1)
    expect(server.asked[0]).toMatchObject({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${server.key}` },
      body: { model: 'small' },
    })
    expect((await app.request('GET', '/agent/config', { token })).body, 'saves nothing').toEqual(before)
  })

  test('calls the first model, not its fallbacks', async () => {
    const [first, second] = [await startModelServer({ models: [] }), await startModelServer()]
    await patch({
      model: { ...modelOf(first), key: first.key },
      fallback_models: [{ ...modelOf(second), key: second.key }],
    })
    expect((await runTest({})).body).toMatchObject({ success: false })
    expect(second.asked).toEqual([])
  })

  test('calls an unsaved model with the key that was sent, and saves nothing', async () => {
    const server = await startModelServer()
    expect((await runTest({ model: { ...modelOf(server), key: server.key } })).body).toEqual(succeeded)
    expect((await app.request('GET', '/agent/config', { token })).body.model).toBeNull()
  })

  test('calls another model on the saved model’s host with the saved key, and no other host', async () => {
    const [home, elsewhere] = [await startModelServer(), await startModelServer()]
    await patch({ model: { ...modelOf(home), key: home.key } })
    expect((await runTest({ model: modelOf(home, 'large') })).body).toEqual({ ...succeeded, model: 'large' })
    expect((await runTest({ model: modelOf(elsewhere) })).status).toBe(400)
    expect(elsewhere.asked).toEqual([])
  })

  test('calls the installation’s model if the organization has none', async () => {
    const { model } = app.service.models.installation()
    expect((await runTest()).body).toMatchObject({
      success: true,
      source: model?.source,
      provider: model?.provider,
      model: model?.name,
      message: 'The model responded.',
    })
  })

  test('says what to do if there is no model', async () => {
    const production = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    const admin = await production.tokenFor('admin@demo.test', 'demo')
    expect((await production.request('POST', '/agent/config/test', { token: admin })).body).toEqual({
      ...failed,
      source: 'none',
      provider: null,
      model: null,
      latency_ms: null,
      message: expect.stringMatching(/operator hasn’t configured a model/),
    })
  })

  test.each([
    [{ unknown: 1 }, 'unknown'],
    [{ model: null }, 'model'],
    [{ model: { provider: 'openai_compatible', url: 'https://x.example/', name: 'x', key: '12345678' } }, 'model.url'],
  ])('rejects %j', async (body, field) => {
    expect((await runTest(body)).body.data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })
})

describe('a failed test', () => {
  test('of the operator’s model doesn’t say where it runs, except in the log', async () => {
    const server = await startModelServer()
    const operated = await useTestService({ MODEL_URL: server.url, MODEL_NAME: 'absent', MODEL_KEY: server.key })
    const admin = await operated.tokenFor('admin@demo.test', 'demo')
    const { body } = await operated.request('POST', '/agent/config/test', { token: admin })
    expect(body).toMatchObject({ success: false, source: 'operator', message: expect.stringMatching(/server’s log/) })
    const { host } = new URL(server.url)
    expect(JSON.stringify(body)).not.toContain(host)
    expect(operated.logged()).toContain(host)
    const config = await operated.request('GET', '/agent/config', { token: admin })
    expect(config.body.effective_model).toMatchObject({ source: 'operator', name: 'absent' })
    expect(JSON.stringify(config.body)).not.toContain(host)
  })

  test('says that the key is wrong, and doesn’t repeat the key that the server quotes', async () => {
    const server = await startModelServer()
    const wrong = 'canary-key-that-is-wrong'
    const { status, body } = await runTest({ model: { ...modelOf(server), key: wrong } })
    expect({ status, body }).toEqual({ status: 200, body: { ...failed, message: expect.stringMatching(/401.*key/is) } })
    for (const text of [JSON.stringify(body), app.logged()]) expect(text).not.toContain(wrong)
  })

  test('says that a rate limit was reached', async () => {
    const server = await startModelServer({ limit: 1 })
    await patch({ model: { ...modelOf(server), key: server.key } })
    expect((await runTest()).body).toEqual(succeeded)
    expect((await runTest()).body).toEqual({ ...failed, message: expect.stringMatching(/429/) })
  })

  test('says that the model doesn’t exist', async () => {
    const server = await startModelServer()
    const { body } = await runTest({ model: { ...modelOf(server, 'absent'), key: server.key } })
    expect(body).toEqual({ ...failed, model: 'absent', message: expect.stringMatching(/404/) })
  })

  test.each<[string, NonNullable<Parameters<typeof startModelServer>[0]>['respond'] & object]>([
    ['isn’t JSON', (response) => void response.end('<html>Welcome</html>')],
    ['isn’t a completion', (response) => void response.end('{"status":"ok"}')],
    [
      'is cut off',
      (response) => void response.writeHead(200, { 'content-length': '100' }).write('{', () => response.destroy()),
    ],
    ['is missing', (response) => void response.destroy()],
    ['is a 500 without JSON', (response) => void response.writeHead(500).end('Oops\u0007')],
  ])('explains a response that %s', async (_, respond) => {
    const server = await startModelServer({ respond })
    const { status, body } = await runTest({ model: { ...modelOf(server), key: server.key } })
    expect({ status, body }).toEqual({ status: 200, body: { ...failed, message: expect.stringMatching(/^\S.*\.$/s) } })
    expect(body.message).not.toContain('\u0007')
  })

  test('shortens a long explanation', async () => {
    const error = { message: 'x'.repeat(5000), type: 'invalid_request_error', param: null, code: null }
    const server = await startModelServer({
      respond: (response) =>
        void response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error })),
    })
    const { body } = await runTest({ model: { ...modelOf(server), key: server.key } })
    expect(body).toMatchObject({ success: false })
    expect(body.message.length).toBeLessThanOrEqual(1000)
  })

  test('explains that the server didn’t respond in time', async () => {
    const impatient = await useTestService()
    const models = await createModels(impatient.service, { timeoutMs: 50 })
    onTestFinished(() => models.close())
    impatient.service.models = models
    const admin = await impatient.tokenFor('admin@demo.test', 'demo')
    const server = await startModelServer({ respond: () => undefined })
    const body = { model: { ...modelOf(server), key: server.key } }
    expect((await impatient.request('POST', '/agent/config/test', { token: admin, body })).body).toEqual({
      ...failed,
      message: expect.stringMatching(/in time/),
    })
  })

  test('explains that the address is private', async () => {
    const model = { ...modelOf({ url: 'https://10.0.0.1/v1' }), key: 'sample-key' }
    expect((await runTest({ model })).body).toEqual({
      ...failed,
      message: expect.stringMatching(/private or reserved address/),
    })
  })
})

test('an organization runs one test at a time, and doesn’t keep others from theirs', async () => {
  const held = Promise.withResolvers<void>()
  const slow = await startModelServer({ until: held.promise })
  const fast = await startModelServer()
  const first = runTest({ model: { ...modelOf(slow), key: slow.key } })
  await slow.firstRequest
  const body = { model: { ...modelOf(fast), key: fast.key } }
  expect((await runTest(body)).body).toEqual({
    defined: true,
    code: 'MODEL_TEST_RUNNING',
    status: 409,
    message: 'Another test of this organization’s model is running. Try again when it has ended',
    data: { code: 'MODEL_TEST_RUNNING' },
  })
  const other = await app.tokenFor('admin@other.test', 'other')
  expect((await app.request('POST', '/agent/config/test', { token: other, body })).body).toEqual(succeeded)
  held.resolve()
  expect((await first).body).toEqual(succeeded)
  expect((await runTest(body)).body).toEqual(succeeded)
})
