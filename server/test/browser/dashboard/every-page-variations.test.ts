import { afterAll, beforeAll, expect, test } from 'vitest'
import type { HttpService } from '../../http-server.ts'
import { findAccessibilityProblems, openDashboard, watchRequests } from './dashboard.ts'
import { expectTold, faults, listPages, open, startWithMarkup } from './pages.ts'

let app: HttpService
beforeAll(async () => {
  app = await startWithMarkup()
})
afterAll(() => app.close())

// Members see less of the same.
test('every page of an admin is accessible', async () => {
  const page = await openDashboard(app, '/o/demo')
  const settled = watchRequests(page)
  const problems: Record<string, string[]> = {}
  for (const one of await listPages(page)) {
    await open(page, one)
    await settled()
    const found = await findAccessibilityProblems(page)
    if (found.length > 0) problems[one.path] = found
  }
  expect(problems).toEqual({})
})

test('every page says what is wrong if the server refuses or can’t be reached', () =>
  expectTold(
    app,
    // every-page.test.ts has the other one.
    (Object.keys(faults) as (keyof typeof faults)[]).filter((name) => name !== 'the server fails'),
  ))
