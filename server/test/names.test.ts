import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readIdentity } from '../src/accounts/users/users.ts'
import { api } from '../src/api.ts'
import { startTestService, type TestService } from './harness.ts'
import { samples } from './samples.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

/** Every operation that sets a display name. */
const naming = api
  .map(({ operation }) => operation)
  .filter(({ body }) => body && 'name' in body.shape)
  .map((operation) => [operation.id, operation] as const)

test('covers the operations that set a name', () => {
  expect(naming.map(([id]) => id)).toContain('createPublishableKey')
})

describe.each(naming)('%s', (id, { method, path }) => {
  test.each([
    ['Dem\u200Bo', /U\+200B \(zero width space\) at position 4/],
    ['Dem\u202Eo', /U\+202E \(right-to-left override\) at position 4/],
    ['Dem\u0007o', /U\+0007 \(control character\) at position 4/],
    ['\u3164', /U\+3164 \(Hangul filler\) at position 1/],
  ])('rejects the name %j and explains why', async (name, reason) => {
    const sample = samples[id]
    const params = await sample?.prepare?.(app, 'demo')
    const { status, body } = await app.request(method.toUpperCase(), path.replace('{id}', params?.id ?? ''), {
      token: await app.tokenFor('admin@demo.test', 'demo'),
      body: { ...(sample?.body?.() as object), name },
    })
    expect({ status, data: body.data }).toEqual({
      status: 400,
      data: {
        code: 'VALIDATION_ERROR',
        field: 'name',
        // A connector's name is part of its tools' names, so it has a stricter rule and its own message.
        details: id.endsWith('Connector')
          ? expect.stringContaining('lowercase letters')
          : expect.stringMatching(reason),
      },
    })
  })
})

test('cleans the name from an identity provider, so that sign-in doesn’t fail because of it', () => {
  const nameOf = (name: unknown) =>
    readIdentity('https://idp.example', { sub: '1', email: 'ada@example.com', name })?.name
  expect(nameOf('Ada\u202E  Lovelace\u200B\n')).toBe('Ada Lovelace')
  expect(nameOf('x'.repeat(10_000))).toBe('x'.repeat(200))
  expect(nameOf('\u200B\u3164')).toBe('ada@example.com')
  expect(nameOf('\uD800Ada')).toBe('ada@example.com')
  expect(nameOf(undefined)).toBe('ada@example.com')
})
