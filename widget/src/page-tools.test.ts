import { describe, expect, test } from 'vitest'
import { describeTool, inputForAnyForm } from './page-tools.ts'

const schema = { type: 'object', properties: { query: { type: 'string' } } }

test.each([
  ['an object', schema],
  ['JSON text', JSON.stringify(schema)],
  ["an object with members that aren't data", { ...schema, check: () => true }],
])('describes a tool whose schema is %s as data', (_, inputSchema) => {
  const registered = {
    name: 'search',
    title: '',
    description: 'Searches',
    inputSchema,
    origin: 'https://shop.example.com',
    execute: () => 1,
  }
  expect(describeTool(registered)).toEqual({ name: 'search', description: 'Searches', inputSchema: schema })
})

test.each([
  ['text that is not JSON', '{type: object}'],
  ['an object that JSON cannot represent', { big: 1n }],
])('a schema that is %s becomes null, so that the frame skips only this tool', (_, inputSchema) => {
  expect(describeTool({ name: 'odd', description: '', inputSchema }).inputSchema).toBeNull()
})

describe('annotations', () => {
  const annotationsOf = (annotations: Record<string, unknown>) =>
    describeTool({ name: 'a', description: '', annotations }).annotations

  test('are all passed on', () => {
    const all = {
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: false,
      consequentialHint: true,
      untrustedContentHint: true,
    }
    expect(annotationsOf({ ...all, other: true })).toEqual(all)
  })

  test('count only as booleans, and a tool without readOnlyHint may change something', () => {
    expect(annotationsOf({})).toEqual({ readOnlyHint: false })
    expect(annotationsOf({ readOnlyHint: 'yes', destructiveHint: 1 })).toEqual({ readOnlyHint: false })
  })
})

test('an input is an object for implementations that take one, and JSON for those that take text', () => {
  const args = { query: 'ink', toString: 'taken', list: [1] }
  const input = inputForAnyForm(args)
  expect(JSON.parse(JSON.stringify(input))).toEqual(args)
  expect(JSON.parse(`${input}`)).toEqual(args)
  expect(structuredClone(input)).toEqual(args)
  expect(Object.keys(input)).toEqual(Object.keys(args))
})
