import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type ClientMessageInput,
  maxMessageBytes,
  maxNameLength,
  maxSchemaBytes,
  maxTools,
} from '../../../server/src/runtime/protocol.ts'
import type { PageTool } from '../channel.ts'
import { bytesOf, listTools, sortTools, tellChanges } from './tool-messages.ts'

const tool = (name: string, more: Partial<PageTool> = {}): PageTool => ({ name, description: 'Does it', ...more })

/** What the runtime knows after these messages. */
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

describe('however many tools a page has', () => {
  test('the runtime knows all of them after the list, and no message is too large', () => {
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

  test('the runtime knows what changed after the changes, and nothing is said when nothing did', () => {
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

const pad = (bytes: number) => ({ pad: 'x'.repeat(bytes - '{"pad":""}'.length) })

describe('a tool is left out', () => {
  test.each([
    ['with a name that is too long', tool('n'.repeat(maxNameLength + 1)), tool('n'.repeat(maxNameLength))],
    ['without a name', tool(''), tool('n')],
    [
      'with a schema that is too large',
      tool('big', { inputSchema: pad(maxSchemaBytes + 1) }),
      tool('big', { inputSchema: pad(maxSchemaBytes) }),
    ],
    ['that does not fit into a message', tool('wordy', { description: 'x'.repeat(maxMessageBytes) }), tool('wordy')],
  ])('%s, and the others stay', (_, bad, good) => {
    expect(sortTools([bad, tool('other')])).toEqual({ accepted: [tool('other')], leftOut: [bad.name] })
    expect(sortTools([good, tool('other')])).toEqual({ accepted: [good, tool('other')], leftOut: [] })
  })

  test('beyond the number that a source may have', () => {
    const tools = Array.from({ length: maxTools + 2 }, (_, n) => tool(`t${n}`))
    const { accepted, leftOut } = sortTools(tools)
    expect([accepted.length, leftOut]).toEqual([maxTools, [`t${maxTools}`, `t${maxTools + 1}`]])
  })

  test('beyond what all of them may take together', () => {
    const tools = Array.from({ length: 80 }, (_, n) => tool(`t${n}`, { inputSchema: pad(60 * 1024) }))
    const { accepted, leftOut } = sortTools(tools)
    expect([accepted.length, leftOut.length]).toEqual([68, 12])
  })
})
