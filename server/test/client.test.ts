import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createInlayClient, readPages } from '../../client/src/client.ts'
import { outdatedFiles } from '../../scripts/generate.ts'
import { api } from '../src/api.ts'
import { startTestService, type TestService } from './harness.ts'
import { samples } from './samples.ts'

let app: TestService
let client: ReturnType<typeof createInlayClient>
/** For an operation that needs an organization of its own. */
let ownToken: string | undefined
beforeAll(async () => {
  app = await startTestService()
  client = createInlayClient({
    url: app.service.config.publicUrl,
    token: async () => ownToken ?? app.tokenFor('admin@demo.test', 'demo'),
    fetch: (request) => app.fetchRequest(request),
  })
})
afterAll(() => app.close())

test('the generated files in the repository are up to date', async () => {
  expect(Object.keys(await outdatedFiles())).toEqual([])
})

test('the typed client creates a key, exchanges a ticket and returns typed errors', async () => {
  const { data: key } = await client.POST('/publishable-keys', {
    body: { name: 'Script', allowed_origins: ['https://shop.example.com'] },
  })
  const { data: ticket } = await client.POST('/auth/pk-ticket', {
    body: { publishable_key: key?.key ?? '', embedding_origin: 'https://shop.example.com' },
  })
  expect(ticket).toMatchObject({ userId: key?.id, expiresIn: 60 })

  const { error, response } = await client.DELETE('/publishable-keys/{id}', { params: { path: { id: 'unknown' } } })
  expect(response.status).toBe(404)
  expect(error).toMatchObject({ data: { code: 'RESOURCE_NOT_FOUND', resource: 'publishable_key' } })
})

test('readPages reads a list to its end, and fails with the response of a page that can’t be read', async () => {
  for (const name of ['One', 'Two', 'Three']) await client.POST('/publishable-keys', { body: { name } })
  const { data: whole } = await client.GET('/publishable-keys')
  const pages: string[][] = []
  const reading = readPages((cursor) =>
    client.GET('/publishable-keys', { params: { query: { limit: 2, offset: 0, ...cursor } } }),
  )
  for await (const { keys } of reading) pages.push(keys.map(({ id }) => id))
  expect(pages.length).toBeGreaterThan(1)
  expect(pages.flat()).toEqual(whole?.keys.map(({ id }) => id))

  const failing = readPages((cursor) =>
    client.GET('/publishable-keys', { params: { query: { limit: 0, offset: 0, ...cursor } } }),
  )
  await expect(failing.next()).rejects.toMatchObject({
    message: 'A page couldn’t be read: Invalid request data (400)',
    cause: { data: { code: 'VALIDATION_ERROR' } },
  })
})

describe('calls every operation', () => {
  const operations = api.map(({ operation }) => operation).filter(({ access }) => access !== 'public')
  test.each(operations.map((operation) => [operation.id, operation] as const))('%s', async (_, operation) => {
    const sample = samples[operation.id]
    const path = await sample?.prepare?.(app, 'demo')
    ownToken = await sample?.token?.(app)
    const { response, data } = await client.request(
      operation.method,
      operation.path as never,
      {
        params: { ...(path && { path }), ...(sample?.query && { query: sample.query }) },
        ...(operation.lines && { parseAs: 'text' }),
        ...(sample?.body && { body: sample.body() }),
      } as never,
    )
    expect({ status: response.status, data: data !== undefined }).toEqual({ status: 200, data: true })
    await sample?.undo?.(app, 'admin@demo.test', 'demo')
  })
})
