import { expect, test } from 'vitest'
import { readSkill, template, tokensOf } from './skill-text.ts'

const document = (fields: string, body = 'Body') => `---\n${fields}\n---\n${body}`

test.each([
  ['name: a-b\ndescription: Does it.', { name: 'a-b', description: 'Does it.' }],
  ['name: "a-b"\ndescription: \'Does it.\'', { name: 'a-b', description: 'Does it.' }],
  ['name: a-b # why\ndescription: Does it.', { name: 'a-b', description: 'Does it.' }],
  ['description: >\n  Does\n  it.\nname: a-b', { name: 'a-b', description: 'Does it.' }],
  ['name: a-b\ndescription: Does\n  it.', { name: 'a-b', description: 'Does it.' }],
  ['name: größe-2\ndescription: Does it.', { name: 'größe-2', description: 'Does it.' }],
  ['name: *alias\ndescription: Does it.', { name: undefined, description: 'Does it.' }],
])('reads %j', (fields, expected) => {
  expect(readSkill(document(fields))).toEqual({ ...expected, body: 'Body', problems: [] })
})

test.each([
  ['', ['noFrontmatter']],
  ['name: a\n', ['noFrontmatter']],
  ['---\nname: a\n', ['noClosing']],
  [document('name:'), ['noName', 'noDescription']],
  [document('name: A\ndescription: x'), ['upperName']],
  [document(`name: ${'a'.repeat(65)}\ndescription: x`), ['longName']],
  [document('name: a--b\ndescription: x'), ['badName']],
  [document('name: a b\ndescription: x'), ['badName']],
  [document(`name: a\ndescription: ${'x'.repeat(1025)}`), ['longDescription']],
  [document('name: a\ndescription: x', 'x'.repeat(256 * 1024)), ['longContent']],
])('finds the problems of %j', (content, problems) => {
  expect(readSkill(content).problems).toEqual(problems)
})

test('the template is valid, and tokens are estimated like on the server', () => {
  expect(readSkill(template).problems).toEqual([])
  expect(tokensOf('größe')).toBe(2)
})
