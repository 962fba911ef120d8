import { expect, test } from 'vitest'
import { accessTables, describeAccess, titleOf, walkLoop } from './access-matrix.ts'

const walks = Object.fromEntries(Object.values(accessTables).map(({ walk }) => [walk.file, walkLoop]))

test('every way of getting access and every end of it have a test or a reason', () => {
  const merge = titleOf('an end user', 'a widget ID token', 'a merge with the end user they were before')
  const mergeOverAgUi = titleOf('an end user', 'an ID token over AG-UI', 'a merge with the end user they were before')
  const files = { ...walks, 'one.test.ts': `test('${merge}')\ntest('${mergeOverAgUi}')` }
  expect(describeAccess(files)).toContain('| deactivation in the directory | T1 | T1 | T1 |')
})

test.each([
  ['a way', titleOf('a person', 'luck', 'leaving')],
  ['an end', titleOf('an end user', 'a widget ID token', 'luck')],
])('a title with %s that isn’t in the tables is refused', (_, title) => {
  expect(() => describeAccess({ ...walks, 'one.test.ts': `test('${title}')` })).toThrow('one.test.ts')
})

test('a missing test is refused', () => {
  expect(() => describeAccess(walks)).toThrow('No test has the title “an end user who came by a widget ID token')
})

test('a missing walk, or one that leaves out cells, is refused', () => {
  expect(() => describeAccess({})).toThrow('There is no server/test/access-walk.test.ts')
  const some = walkLoop.replace('cellsOf(table)', 'cellsOf(table).slice(1)')
  const all = { ...walks, 'server/test/end-user-access-walk.test.ts': some }
  expect(() => describeAccess(all)).toThrow('server/test/end-user-access-walk.test.ts doesn’t test all its cells')
})
