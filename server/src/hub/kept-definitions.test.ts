import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { maxDefinitionBytes, type ToolDefinition } from '@inlay/protocol'
import { expect, test } from 'vitest'
import type { KeptTool } from '../stores/bus-messages.ts'
import { addDefinitions, type PageTool } from '../untrusted/definitions.ts'
import { KeptDefinitions, pack, unpack } from './kept-definitions.ts'

const none: ReadonlyMap<string, KeptTool> = new Map()

function toolsOf(...definitions: Partial<ToolDefinition>[]): KeptTool[] {
  const whole = definitions.map((definition) => ({ name: 'add', description: '', inputSchema: {}, ...definition }))
  return [...addDefinitions(none, whole, new Set(), pack).tools.values()]
}

test('returns a definition unchanged', () => {
  const definition = {
    name: 'add',
    title: 'Add tea',
    description: 'Adds “tea” – ☕',
    inputSchema: { type: 'object', x: [1, null] },
    annotations: { title: 'Add', readOnlyHint: false, destructiveHint: true, consequentialHint: true },
  }
  const [kept] = toolsOf(definition)
  const tool: PageTool = unpack(kept as KeptTool)
  expect(tool).toMatchObject(definition)
  expect([tool.hash, tool.bytes]).toEqual([kept?.hash, kept?.bytes])
})

test('shares a definition between pages until the last page leaves', () => {
  const budget = { organization: 1_000_000, node: 1_000_000 }
  const definitions = new KeptDefinitions(budget)
  const large = { description: 'x'.repeat(4_000), inputSchema: { text: 'x'.repeat(60_000) } }
  const pages = Array.from({ length: 500 }, () => definitions.replace('one', none, toolsOf(large)))
  expect(pages.flatMap(({ refused }) => refused)).toEqual([])
  expect(new Set(pages.map(({ tools }) => tools.get('add'))).size).toBe(1)
  const others = Array.from({ length: 20 }, (_, n) => ({ ...large, name: `other-${n}` }))
  const refusedBeside = () => {
    const { tools, refused } = definitions.replace('one', none, toolsOf(...others))
    definitions.replace('one', tools, [])
    return refused.length
  }
  const before = refusedBeside()
  for (const { tools } of pages) definitions.replace('one', tools, [])
  expect(refusedBeside(), 'its memory is free again').toBe(before - 1)
})

test.each([
  ['its organization', { organization: 1_000, node: 10_000 }, ['one', 'one'], ['other', 'other']],
  ['the node', { organization: 10_000, node: 1_000 }, ['one', 'other'], []],
])('refuses definitions beyond the budget of %s, by name', (_, budget, fill, room) => {
  const definitions = new KeptDefinitions(budget)
  const keep = (organization: string, name: string) =>
    definitions.replace(organization, none, toolsOf({ name, description: 'x'.repeat(200) }))
  const [first, second] = fill as [string, string]
  const kept = keep(first, 'a')
  expect(kept.refused).toEqual([])
  const refused = { name: 'b', reason: 'The server’s memory for tool definitions is full. Try again later.' }
  expect(keep(second, 'b')).toEqual({ tools: none, refused: [refused] })
  for (const organization of new Set(room)) expect(keep(organization, 'b').refused).toEqual([])
  definitions.replace(first, kept.tools, [])
  expect(keep(second, 'b').refused).toEqual([])
})

test('lets a page replace its tools when the budget is full', () => {
  const definitions = new KeptDefinitions({ organization: 1_000, node: 1_000 })
  const of = (letter: string) => toolsOf({ description: letter.repeat(250) })
  const { tools } = definitions.replace('one', none, of('a'))
  expect(definitions.replace('one', none, of('b')).refused).toHaveLength(1)
  expect(definitions.replace('one', tools, of('b')).refused).toEqual([])
})

test('uses little more memory than the text of the definitions', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heapUsed = () => {
    for (let n = 0; n < 3; n += 1) collect()
    return process.memoryUsage().heapUsed
  }
  const definitions = new KeptDefinitions()
  const fill = () => {
    // An empty array takes eight times the memory of its text once it's parsed.
    const message = () => `{"x":[${'[],'.repeat(20_000)}[]]}`
    const given = Array.from({ length: 68 }, (_, n) => ({
      name: `tool-${n}`,
      description: '',
      inputSchema: JSON.parse(message()),
    }))
    return definitions.replace('one', none, toolsOf(...given)).tools
  }
  const before = heapUsed()
  const tools = fill()
  expect(tools.size).toBe(68)
  expect(heapUsed() - before).toBeLessThan(2 * maxDefinitionBytes)
})
