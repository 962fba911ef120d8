import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { readPlanFile, shippedPlanFile } from './plan-file.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'inlay-plans-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

// biome-ignore lint/suspicious/noExplicitAny: each test breaks another part of it
const shipped = (): any[] => JSON.parse(readFileSync(shippedPlanFile, 'utf8'))

function write(text: string): string {
  const path = join(folder, 'plans.json')
  writeFileSync(path, text)
  return path
}

describe('a plan file', () => {
  test('may contain only the free plan', () => {
    const [free] = shipped()
    expect(readPlanFile(write(JSON.stringify([free])))).toEqual([free])
  })

  // biome-ignore lint/suspicious/noExplicitAny: see above
  test.each<[string, (plans: any[]) => unknown, string]>([
    ['no list', () => ({}), 'error at "": '],
    ['no plan', () => [], 'without the plan "free"'],
    ['no free plan', (plans) => plans.slice(1), 'without the plan "free"'],
    ['a plan without limits', ([free, { limits, ...team }]) => [free, team], 'error at "1.limits": '],
    [
      'a limit below zero',
      ([free]) => [{ ...free, limits: { ...free.limits, seats: -1 } }],
      'error at "0.limits.seats": ',
    ],
    ['half a seat', ([free]) => [{ ...free, limits: { ...free.limits, seats: 0.5 } }], 'error at "0.limits.seats": '],
    ['an unknown limit', ([free]) => [{ ...free, limits: { ...free.limits, cats: 1 } }], 'error at "0.limits": '],
    [
      'a feature that is a string',
      ([free]) => [{ ...free, features: { ...free.features, sso: 'yes' } }],
      'error at "0.features.sso": ',
    ],
    [
      'a feature that is derived from the limits',
      ([free]) => [{ ...free, features: { ...free.features, seats: true } }],
      'error at "0.features": ',
    ],
    ['an unknown field', ([free]) => [{ ...free, price: 1 }], 'error at "0": Unrecognized key: "price"'],
    ['an id with a space', ([free]) => [free, { ...free, id: 'free 2' }], 'error at "1.id": must be 1 to 64'],
    ['an empty name', ([free]) => [{ ...free, name: '' }], 'error at "0.name": '],
    ['a date for a timestamp', ([free]) => [{ ...free, created_at: '2026-01-01' }], 'error at "0.created_at": '],
    ['a duplicate id', ([free]) => [free, free], 'two plans have the id "free"'],
    [
      'a duplicate product',
      ([free, team, enterprise]) => [free, team, { ...enterprise, product_id: team.product_id }],
      'two plans have the product_id "inlay_team"',
    ],
    ['a free plan with a product', ([free]) => [{ ...free, product_id: 'x' }], 'the plan "free" has a product_id'],
  ])('is rejected with %s', (_, change, message) => {
    const path = write(JSON.stringify(change(shipped())))
    expect(() => readPlanFile(path)).toThrow(message)
  })

  test.each([
    ['{', `isn't valid JSON: Malformed JSON`],
    ['[{"id": "free", "id": "team"}]', `isn't valid JSON: Duplicate key "id"`],
  ])('is rejected if it contains %s', (text, message) => {
    const path = write(text)
    expect(() => readPlanFile(path)).toThrow(message)
  })

  test('is rejected if it does not exist', () => {
    expect(() => readPlanFile(join(folder, 'none.json'))).toThrow("can't be read: ENOENT")
  })

  test('is rejected with a message, regardless of its content', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          fc.string(),
          fc.array(fc.object()).map((value) => JSON.stringify(value)),
        ),
        (text) => {
          expect(() => readPlanFile(write(text))).toThrow(/^names a file /)
        },
      ),
    )
  })
})

test("uses the plans of the operator's file", async () => {
  const [free] = shipped()
  const own = { ...free, name: 'Solo', limits: { ...free.limits, seats: 2 } }
  const app = await useTestService({ INLAY_PLANS_FILE: write(JSON.stringify([own])) })
  const token = await app.tokenFor('admin@other.test', 'other')
  const { body } = await app.request('GET', '/plan-tiers', { token })
  expect(body).toMatchObject({ count: 1, plans: [{ id: 'free', name: 'Solo' }] })
  const invitation = { email: 'third@example.com', role: 'member' }
  const answer = await app.request('POST', '/organizations/current/invitations', { token, body: invitation })
  expect(answer.body.message).toBe('Your plan includes 2 seats, and all are in use')
})
