import {
  type ClientMessageInput,
  maxMessageBytes,
  maxNameLength,
  maxSchemaBytes,
  maxTools,
  ToolDefinition,
} from '@inlay/protocol'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { annotationNames, type PageTool } from '../channel.ts'
import { bytesOf, listTools, sortTools, tellChanges } from './tool-messages.ts'

const tool = (name: string, more: Partial<PageTool> = {}): PageTool => ({ name, description: 'Does it', ...more })

/** The runtime's tools after these messages. */
function apply(known: readonly PageTool[], messages: ClientMessageInput[]): PageTool[] {
  let tools = new Map(known.map((each) => [each.name, each]))
  for (const message of messages) {
    if (message.type === 'tools/list') tools = new Map(message.tools.map((each) => [each.name, each as PageTool]))
    if (message.type === 'tools/changed') {
      for (const name of message.removed ?? []) tools.delete(name)
      for (const each of message.set ?? []) tools.set(each.name, each as PageTool)
    }
  }
  return [...tools.values()]
}

const byName = (tools: readonly PageTool[]) => tools.toSorted((a, b) => (a.name < b.name ? -1 : 1))

const pageTools = fc.uniqueArray(
  fc.record({
    name: fc.string({ minLength: 1, maxLength: 3 }),
    description: fc.string({ maxLength: 5 }),
    inputSchema: fc.record({ pad: fc.integer({ min: 0, max: 60_000 }).map((length) => 'x'.repeat(length)) }),
  }),
  { selector: ({ name }) => name, maxLength: 40 },
)

describe('with any number of tools', () => {
  test('the runtime has all of them after the list, and no message is too large', () => {
    fc.assert(
      fc.property(pageTools, (tools) => {
        const messages = listTools(tools)
        expect(messages[0]?.type).toBe('tools/list')
        expect(byName(apply([tool('old')], messages))).toEqual(byName(tools))
        for (const message of messages) expect(bytesOf(message)).toBeLessThanOrEqual(maxMessageBytes)
      }),
      { numRuns: 50 },
    )
  })

  test('the runtime has the changes after the messages, and no message is sent without changes', () => {
    fc.assert(
      fc.property(pageTools, pageTools, (before, after) => {
        const messages = tellChanges(before, after)
        expect(byName(apply(before, messages))).toEqual(byName(after))
        for (const message of messages) expect(bytesOf(message)).toBeLessThanOrEqual(maxMessageBytes)
        expect(tellChanges(after, after)).toEqual([])
      }),
      { numRuns: 50 },
    )
  })
})

test('the runtime reads every hint that a page can set', () => {
  const annotations = Object.fromEntries(annotationNames.map((name) => [name, true]))
  expect(ToolDefinition.parse(tool('all', { annotations })).annotations).toEqual(annotations)
})

test('accepts a tool if and only if the runtime can read it', () => {
  const odd = fc.oneof(
    fc.constantFrom('', 'text', 'n'.repeat(maxNameLength + 1), 7, true, null, undefined),
    fc.object(),
  )
  const likely = <T>(usual: fc.Arbitrary<T>) => fc.oneof({ weight: 3, arbitrary: usual }, { weight: 1, arbitrary: odd })
  const hints = fc.record(Object.fromEntries(annotationNames.map((name) => [name, likely(fc.boolean())])), {
    requiredKeys: [],
  })
  const shape = fc.record(
    {
      name: likely(fc.string({ minLength: 1 })),
      title: likely(fc.string()),
      description: likely(fc.string()),
      inputSchema: likely(fc.oneof(fc.object(), fc.array(fc.string()))),
      annotations: likely(hints),
    },
    { requiredKeys: ['name'] },
  )
  let accepted = 0
  fc.assert(
    fc.property(shape, (given) => {
      const isReadable = ToolDefinition.safeParse(given).success
      expect(sortTools([given as never]).accepted.length).toBe(isReadable ? 1 : 0)
      accepted += isReadable ? 1 : 0
    }),
    { numRuns: 300 },
  )
  expect(accepted, 'some of both').toBeGreaterThan(10)
  expect(accepted).toBeLessThan(290)
})

const pad = (bytes: number) => ({ pad: 'x'.repeat(bytes - '{"pad":""}'.length) })

describe('a tool is skipped, with a reason,', () => {
  test.each([
    [
      'with a name that is too long',
      tool('n'.repeat(maxNameLength + 1)),
      tool('n'.repeat(maxNameLength)),
      'its name must have 1 to 128 characters',
    ],
    ['without a name', tool(''), tool('n'), 'its name must have 1 to 128 characters'],
    [
      'with a schema that is too large',
      tool('big', { inputSchema: pad(maxSchemaBytes + 1) }),
      tool('big', { inputSchema: pad(maxSchemaBytes) }),
      'its inputSchema is larger than 65536 bytes',
    ],
    [
      'with an unreadable schema',
      tool('odd', { inputSchema: null as never }),
      tool('odd'),
      'its inputSchema isn’t a JSON object',
    ],
    [
      'with a schema that is a list',
      tool('odd', { inputSchema: [] as never }),
      tool('odd'),
      'its inputSchema isn’t a JSON object',
    ],
    [
      'with an invalid description',
      tool('odd', { description: 7 as never }),
      tool('odd'),
      'its description isn’t valid',
    ],
    [
      'that exceeds the size of a message',
      tool('wordy', { description: 'x'.repeat(maxMessageBytes) }),
      tool('wordy'),
      'its definition is larger than 1048576 bytes',
    ],
  ])('%s, and the others stay', (_, bad, good, reason) => {
    expect(sortTools([bad, tool('other')])).toEqual({
      accepted: [tool('other')],
      leftOut: [{ name: bad.name, reason }],
    })
    expect(sortTools([good, tool('other')])).toEqual({ accepted: [good, tool('other')], leftOut: [] })
  })

  test('with a name that isn’t text, and can’t become text', () => {
    const bad = tool({ toString: [] } as never)
    const reason = 'its name must have 1 to 128 characters'
    expect(sortTools([bad, tool('other')])).toEqual({
      accepted: [tool('other')],
      leftOut: [{ name: '(unnamed)', reason }],
    })
  })

  test('beyond the maximum number of tools', () => {
    const tools = Array.from({ length: maxTools + 2 }, (_, n) => tool(`t${n}`))
    const { accepted, leftOut } = sortTools(tools)
    const reason = 'a page can offer at most 512 tools'
    expect([accepted.length, leftOut]).toEqual([
      maxTools,
      [`t${maxTools}`, `t${maxTools + 1}`].map((name) => ({ name, reason })),
    ])
  })

  test('beyond the maximum size of all definitions', () => {
    const tools = Array.from({ length: 80 }, (_, n) => tool(`t${n}`, { inputSchema: pad(60 * 1024) }))
    const { accepted, leftOut } = sortTools(tools)
    expect([accepted.length, leftOut.length]).toEqual([68, 12])
    expect(leftOut[0]?.reason).toBe('the definitions of a page can have at most 4194304 bytes in total')
  })
})
