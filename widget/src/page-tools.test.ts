import { expect, test } from 'vitest'
import { describeTool, isNative } from './page-tools.ts'

test('a tool is told as data, without what only browsers know of it', () => {
  const registered = {
    name: 'add',
    title: '',
    description: 'Adds',
    inputSchema: { type: 'object', check: () => true },
    annotations: { readOnlyHint: true, consequentialHint: false },
    origin: 'https://shop.example.com',
    execute: () => 1,
  }
  expect(describeTool(registered)).toEqual({
    name: 'add',
    description: 'Adds',
    inputSchema: { type: 'object' },
    annotations: { readOnlyHint: true },
  })
})

test('only what says of itself that it reads is taken for reading', () => {
  const tool = (annotations: object) => describeTool({ name: 'a', description: '', annotations })
  expect(tool({}).annotations).toEqual({ readOnlyHint: false })
  expect(tool({ readOnlyHint: 'yes' }).annotations).toEqual({ readOnlyHint: false })
})

class Polyfill {
  async executeTool() {}
}

// What a browser has itself is recognised in the tests with a browser.
test.each([
  ['a method of a script', new Polyfill()],
  ['a bound method, which shows no source either', { executeTool: new Polyfill().executeTool.bind(null) }],
  ['another function of the runtime', { executeTool: Array.prototype.map as never }],
  ['nothing', {}],
])('%s is not taken for the browser’s own', (_, context) => {
  expect(isNative(context)).toBe(false)
})
