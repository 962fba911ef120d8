import { expect, test } from 'vitest'
import { scopesFor } from './scopes.ts'

test.each<[unknown, string[]]>([
  [{ method: 'tools/list' }, ['mcp:tools:read']],
  [{ method: 'tools/call', params: { name: 'list_orders' } }, ['mcp:tools:call']],
  [
    [{ method: 'tools/call' }, { method: 'tools/list' }],
    ['mcp:tools:read', 'mcp:tools:call'],
  ],
  [{ method: 'initialize' }, []],
  [{ method: 'constructor' }, []],
  [{ result: {} }, []],
  [null, []],
  [undefined, []],
  ['tools/call', []],
  [[null], []],
])('%j needs %j', (message, scopes) => {
  expect(scopesFor(message)).toEqual(scopes)
})
