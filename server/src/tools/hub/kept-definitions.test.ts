import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { maxDefinitionBytes, type ToolDefinition } from '@inlay/protocol'
import { describe, expect, test, vi } from 'vitest'
import { type PageTool, type Refused, readDefinitions } from '../../kernel/untrusted/definitions.ts'
import { KeptDefinitions, pack, unpack } from './kept-definitions.ts'
import type { KeptTool } from './messages.ts'

function toolsOf(...definitions: Partial<ToolDefinition>[]): Map<string, KeptTool> {
  const whole = definitions.map((definition) => ({ name: 'add', description: '', inputSchema: {}, ...definition }))
  return readDefinitions(whole, new Set(), pack).tools
}

/** A page, and what it was told about tools that it had to give up. */
function open(definitions: KeptDefinitions, organizationId: string, visitor?: string) {
  const lost: Refused[] = []
  const page = definitions.open({ organizationId, visitor, gaveWay: (refused) => void lost.push(...refused) })
  return Object.assign(page, { lost })
}

const isFull = 'The server’s memory for tool definitions is full. Try again later.'
const gaveWay = 'The server needed the memory for the tools of others. Try again later.'

test('returns a definition unchanged', () => {
  const definition = {
    name: 'add',
    title: 'Add tea',
    description: 'Adds “tea” – ☕',
    inputSchema: { type: 'object', x: [1, null] },
    annotations: { title: 'Add', readOnlyHint: false, destructiveHint: true, consequentialHint: true },
  }
  const [kept] = toolsOf(definition).values()
  const tool: PageTool = unpack(kept as KeptTool)
  expect(tool).toMatchObject(definition)
  expect([tool.hash, tool.bytes]).toEqual([kept?.hash, kept?.bytes])
})

test('shares a definition between pages until the last page leaves', () => {
  const definitions = new KeptDefinitions({ organization: 1_000_000 })
  const large = { description: 'x'.repeat(4_000), inputSchema: { text: 'x'.repeat(60_000) } }
  const pages = Array.from({ length: 500 }, () => open(definitions, 'one'))
  expect(pages.flatMap((page) => page.list(toolsOf(large)))).toEqual([])
  expect(new Set(pages.map(({ tools }) => tools.get('add'))).size).toBe(1)
  const others = Array.from({ length: 20 }, (_, n) => ({ ...large, name: `other-${n}` }))
  const refusedBeside = () => {
    const page = open(definitions, 'one')
    const refused = page.list(toolsOf(...others))
    page.clear()
    return refused.length
  }
  const before = refusedBeside()
  for (const page of pages) page.clear()
  expect(refusedBeside(), 'its memory is free again').toBe(before - 1)
})

test.each([
  ['its organization', { organization: 1_000, node: 10_000 }, ['one', 'one'], ['other', 'other']],
  ['the node', { organization: 10_000, node: 1_000 }, ['one', 'other'], []],
])('refuses definitions beyond the budget of %s, by name', (_, budget, fill, room) => {
  const definitions = new KeptDefinitions(budget)
  const keep = (organization: string, name: string) => {
    const page = open(definitions, organization)
    return { page, refused: page.list(toolsOf({ name, description: 'x'.repeat(200) })) }
  }
  const [first, second] = fill as [string, string]
  const kept = keep(first, 'a')
  expect(kept.refused).toEqual([])
  const { page, refused } = keep(second, 'b')
  expect([[...page.tools], refused]).toEqual([[], [{ name: 'b', reason: isFull }]])
  for (const organization of new Set(room)) expect(keep(organization, 'b').refused).toEqual([])
  kept.page.clear()
  expect(keep(second, 'b').refused).toEqual([])
})

test('lets a page replace its tools when the budget is full', () => {
  const definitions = new KeptDefinitions({ organization: 1_000, node: 1_000 })
  const of = (letter: string) => toolsOf({ description: letter.repeat(250) })
  const page = open(definitions, 'one')
  page.list(of('a'))
  expect(open(definitions, 'one').list(of('b'))).toHaveLength(1)
  expect(page.list(of('b'))).toEqual([])
})

test('costs as much for a change as what it changes, however many tools the page has', () => {
  const definitions = new KeptDefinitions()
  const page = open(definitions, 'one')
  page.list(toolsOf(...Array.from({ length: 512 }, (_, n) => ({ name: `tool-${n}` }))))
  const [keep, drop] = [vi.spyOn(definitions, 'keep'), vi.spyOn(definitions, 'drop')]
  page.change(['none'], new Map())
  expect([keep.mock.calls.length, drop.mock.calls.length]).toEqual([0, 0])
  page.change(['tool-1'], toolsOf({ name: 'tool-2', description: 'new' }, { name: 'tool-1' }))
  expect([keep.mock.calls.length, drop.mock.calls.length]).toEqual([2, 2])
  expect([page.tools.size, page.tools.get('tool-2')?.text]).toEqual([512, expect.stringContaining('new')])
})

test('refuses a change that would give a page too many tools, and keeps those it has', () => {
  const page = open(new KeptDefinitions(), 'one')
  page.list(toolsOf(...Array.from({ length: 512 }, (_, n) => ({ name: `tool-${n}` }))))
  expect(() => page.change([], toolsOf({ name: 'one-more' }))).toThrow('A source can have at most 512 tools')
  expect(page.change(['tool-0'], toolsOf({ name: 'one-more' }))).toEqual([])
  expect(page.tools.size).toBe(512)
})

describe('visitors', () => {
  /** Each takes a little more than 1 000 bytes. */
  const tool = (name: string) => toolsOf({ name, description: 'x'.repeat(700) })
  const budget = { organization: 10_000, visitorsOfOrganization: 4_000, visitor: 2_000, visitors: 6_000, node: 20_000 }
  const fill = (definitions: KeptDefinitions, organization: string, visitor: (n: number) => string | undefined) =>
    Array.from({ length: 10 }, (_, n) => {
      const page = open(definitions, organization, visitor(n))
      return { page, refused: page.list(tool(`${organization}-${n}`)) }
    })
  const accepted = (pages: ReturnType<typeof fill>) => pages.filter(({ refused }) => refused.length === 0).length

  test('of an organization have a share, which leaves the rest to its users', () => {
    const definitions = new KeptDefinitions(budget)
    expect(accepted(fill(definitions, 'one', (n) => `visitor-${n}`))).toBe(3)
    expect(accepted(fill(definitions, 'one', () => undefined))).toBeGreaterThanOrEqual(6)
  })

  test('each have a share of it', () => {
    const definitions = new KeptDefinitions(budget)
    expect(accepted(fill(definitions, 'one', () => 'greedy'))).toBe(2)
    expect(open(definitions, 'one', 'other').list(tool('other'))).toEqual([])
  })

  test('of many organizations can’t fill the node', () => {
    const definitions = new KeptDefinitions(budget)
    const kept = ['one', 'two', 'three', 'four'].map((id) => accepted(fill(definitions, id, (n) => `visitor-${n}`)))
    expect(kept).toEqual([3, 2, 0, 0])
  })

  test('give way to users of their organization, and are told', () => {
    const definitions = new KeptDefinitions({ ...budget, organization: 4_000 })
    const visitors = fill(definitions, 'one', (n) => `visitor-${n}`)
    expect(accepted(visitors)).toBe(3)
    const user = open(definitions, 'one')
    expect(user.list(tool('add_to_cart'))).toEqual([])
    const lost = visitors.map(({ page }) => page.lost).filter(({ length }) => length > 0)
    expect(lost).toEqual([[{ name: expect.stringMatching(/^one-/), reason: gaveWay }]])
    expect(open(definitions, 'one', 'late').list(tool('late')), 'and not the other way around').toHaveLength(1)
    expect(user.tools.size).toBe(1)
  })

  test('give way to users of other organizations when the node is full', () => {
    const definitions = new KeptDefinitions({ ...budget, node: 4_000 })
    expect(accepted(fill(definitions, 'one', (n) => `visitor-${n}`))).toBe(3)
    expect(open(definitions, 'two').list(tool('add_to_cart'))).toEqual([])
  })
})

test('an organization that has most of a full node gives way to one that has less, and not to one that has more', () => {
  const definitions = new KeptDefinitions({ organization: 10_000, node: 8_000 })
  const tool = (name: string) => toolsOf({ name, description: 'x'.repeat(700) })
  const large = Array.from({ length: 7 }, (_, n) => {
    const page = open(definitions, 'large')
    return { page, refused: page.list(tool(`large-${n}`)) }
  })
  expect(large.flatMap(({ refused }) => refused)).toEqual([])
  const small = Array.from({ length: 7 }, (_, n) => open(definitions, 'small').list(tool(`small-${n}`)).length)
  expect(small, 'until both have the same').toEqual([0, 0, 0, 1, 1, 1, 1])
  expect(large.flatMap(({ page }) => page.lost)).toHaveLength(3)
  expect(open(definitions, 'large').list(tool('more'))).toHaveLength(1)
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
    const page = open(definitions, 'one')
    page.list(toolsOf(...given))
    return page.tools
  }
  const before = heapUsed()
  const tools = fill()
  expect(tools.size).toBe(68)
  expect(heapUsed() - before).toBeLessThan(2 * maxDefinitionBytes)
})
