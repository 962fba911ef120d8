import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { addChunks, type Chunk, closeParts, type Progress, takeChunks } from './chunks.ts'
import type { EntryPart } from './state.ts'

const shop = 'https://shop.example'
const read = (...chunks: Chunk[]) => addChunks([], chunks, shop)
const asked = (kind: string, name: string, origin: string | null = null, more = {}): Chunk => ({
  type: 'tool-input-available',
  toolCallId: 'call',
  toolName: 'model_name',
  input: { id: 7 },
  toolMetadata: { kind, name, origin, ...more },
})
const add = asked('page', 'add', shop, { title: 'Add to cart' })
const question: Chunk[] = [
  { type: 'data-question', id: 'call', data: { inputSchema: { type: 'object' } } },
  { type: 'tool-approval-request', approvalId: 'call', toolCallId: 'call', reason: 'It changes something.' },
]
const answer = (approved: boolean): Chunk => ({ type: 'tool-approval-response', approvalId: 'call', approved })
const edited: Chunk = { type: 'data-edited-arguments', id: 'call', data: { id: 8 } }
const output = (output: unknown): Chunk => ({ type: 'tool-output-available', toolCallId: 'call', output })

describe('a call that needs the user’s account', () => {
  const connect = (path: unknown): Chunk => ({ type: 'data-connect', id: 'call', data: { connector: 'crm', path } })

  test('has the link to Inlay’s page', () => {
    const path = '/connect/agent/key.contents.signature'
    expect(read(add, connect(path))).toMatchObject([{ connect: { service: 'crm', path } }])
  })

  test.each([
    'https://evil.example/',
    '//evil.example/connect/agent/a',
    'javascript:alert(1)',
    '/connect/agent/../x/y',
    7,
  ])('has no other link: %s', (path) => expect(read(add, connect(path))).toMatchObject([{ connect: undefined }]))
})

describe('chunks become parts', () => {
  test.each<[string, Chunk[], object[]]>([
    [
      'a text that streams',
      [
        { type: 'text-start', id: 'text-1' },
        { type: 'text-delta', id: 'text-1', delta: 'Hel' },
        { type: 'text-delta', id: 'text-1', delta: 'lo' },
      ],
      [{ kind: 'text', key: 'text-1', text: 'Hello', isStreaming: true }],
    ],
    [
      'two texts, of which the first has ended',
      [
        { type: 'text-start', id: 'text-1' },
        { type: 'text-delta', id: 'text-1', delta: 'One' },
        { type: 'text-end', id: 'text-1' },
        { type: 'text-start', id: 'text-2' },
      ],
      [
        { text: 'One', isStreaming: false },
        { key: 'text-2', text: '', isStreaming: true },
      ],
    ],
    [
      'a call of a tool of this page',
      [add],
      [
        {
          kind: 'tool',
          name: 'add',
          title: 'Add to cart',
          place: 'page',
          source: shop,
          input: { id: 7 },
          state: 'running',
        },
      ],
    ],
    [
      'a call of a tool of another tab',
      [asked('page', 'add', 'https://b.example')],
      [{ place: 'tab', source: 'https://b.example' }],
    ],
    [
      'a call at a connector',
      [asked('connector', 'crm.find.all', 'https://crm.example')],
      [{ place: 'connector', name: 'find.all', source: 'crm', title: null }],
    ],
    ['a call of a built-in tool', [asked('built_in', 'read_result')], [{ place: 'built-in', source: null }]],
    ['a call of an unknown tool', [asked('unknown', 'gone')], [{ place: 'unknown', name: 'gone' }]],
    [
      'a question',
      [add, ...question],
      [{ state: 'asking', reason: 'It changes something.', inputSchema: { type: 'object' } }],
    ],
    [
      'a question that was answered with other arguments',
      [add, ...question, answer(true), edited],
      [{ state: 'running', editedInput: { id: 8 }, inputSchema: undefined }],
    ],
    ['a question that was declined', [add, ...question, answer(false)], [{ state: 'declined' }]],
    ['a call that was denied', [add, { type: 'tool-output-denied', toolCallId: 'call' }], [{ state: 'declined' }]],
    ['a result that is a text', [add, output('3 items')], [{ state: 'done', output: '3 items' }]],
    ['a result that is JSON', [add, output({ a: 1 })], [{ state: 'done', output: '{\n  "a": 1\n}' }]],
    [
      'a failure, with its duration',
      [
        add,
        { type: 'tool-output-error', toolCallId: 'call', errorText: 'No.' },
        { type: 'data-timing', id: 'call', data: { durationMs: 12 } },
      ],
      [{ state: 'failed', error: 'No.', durationMs: 12 }],
    ],
    [
      'a question with a reason for other languages',
      [add, { type: 'data-reason', id: 'call', data: { code: 'MAY_CHANGE' } }, ...question],
      [{ state: 'asking', reason: 'It changes something.', reasonData: { code: 'MAY_CHANGE' } }],
    ],
    [
      'a call that the user stopped',
      [
        add,
        { type: 'data-reason', id: 'call', data: { code: 'STOPPED' } },
        { type: 'tool-output-error', toolCallId: 'call', errorText: 'Nobody knows.' },
      ],
      [{ state: 'stopped', error: 'Nobody knows.' }],
    ],
    [
      'a message that entered, a notice, a skill and a summary',
      [
        { type: 'steering-message', id: 'm', parts: [{ type: 'text', text: 'Faster' }] },
        { type: 'data-notice', data: { text: '80 % used' } },
        { type: 'data-skill', data: { name: 'refunds', tokens: 20 } },
        { type: 'data-summary', data: {} },
      ],
      [
        { kind: 'steering', key: 'm', text: 'Faster' },
        { kind: 'notice', text: '80 % used' },
        { kind: 'skill', name: 'refunds', tokens: 20 },
        { kind: 'summary' },
      ],
    ],
    [
      'nothing, for chunks that are unknown or belong to nothing',
      [
        { type: 'new-type', id: 1 },
        { type: 'text-delta', id: 'gone', delta: 'x' },
        output('x'),
        { type: 'data-timing' },
      ],
      [],
    ],
  ])('%s', (_, chunks, parts) => {
    const found = read(...chunks)
    expect(found).toMatchObject(parts)
    expect(found.length).toBe(parts.length)
    expect(new Set(found.map(({ key }) => key)).size, 'keys are unique').toBe(found.length)
  })

  test('leaves the parts before a change as they are', () => {
    const before = read(add, output('x'), { type: 'text-start', id: 'text-1' })
    const after = addChunks(before, [{ type: 'text-delta', id: 'text-1', delta: 'y' }], shop)
    expect(after[0]).toBe(before[0])
    expect(after[1]).not.toBe(before[1])
    expect(before[1]).toMatchObject({ text: '' })
  })

  test.each(['failed', 'stopped'] as const)(
    'ends everything that is still in progress when the run has %s',
    (status) => {
      const parts = read({ type: 'text-start', id: 'text-1' }, add, ...question)
      expect(closeParts(parts, status)).toMatchObject([
        { isStreaming: false },
        { state: status, inputSchema: undefined },
      ])
    },
  )

  test('leaves calls that failed before the user stopped the run', () => {
    const parts = read(add, { type: 'tool-output-error', toolCallId: 'call', errorText: 'No.' })
    expect(closeParts(parts, 'stopped')).toMatchObject([{ state: 'failed' }])
  })
})

describe('the three rules', () => {
  const chunks: Chunk[] = [{ type: 'start' }, { type: 'start-step' }, { type: 'finish' }]
  test.each<[string, Progress | undefined, Progress, object]>([
    ['the first chunks', undefined, { attempt: 1, n: 0 }, { kind: 'replace', progress: { attempt: 1, n: 3 } }],
    [
      'the next chunks',
      { attempt: 1, n: 5 },
      { attempt: 1, n: 5 },
      { kind: 'add', chunks, progress: { attempt: 1, n: 8 } },
    ],
    [
      'chunks that it has in part',
      { attempt: 1, n: 5 },
      { attempt: 1, n: 3 },
      { kind: 'add', chunks: chunks.slice(2), progress: { attempt: 1, n: 6 } },
    ],
    ['chunks that it has', { attempt: 1, n: 9 }, { attempt: 1, n: 3 }, { kind: 'ignore' }],
    [
      'chunks from 0 on',
      { attempt: 1, n: 9 },
      { attempt: 1, n: 0 },
      { kind: 'replace', progress: { attempt: 1, n: 3 } },
    ],
    ['chunks of a lower attempt', { attempt: 2, n: 1 }, { attempt: 1, n: 0 }, { kind: 'ignore' }],
    [
      'chunks of a higher attempt',
      { attempt: 1, n: 9 },
      { attempt: 2, n: 0 },
      { kind: 'replace', progress: { attempt: 2, n: 3 } },
    ],
    ['a higher attempt whose beginning is missing', { attempt: 1, n: 9 }, { attempt: 2, n: 4 }, { kind: 'gap' }],
    ['chunks after a gap', { attempt: 1, n: 2 }, { attempt: 1, n: 3 }, { kind: 'gap' }],
    ['the middle of an unknown run', undefined, { attempt: 1, n: 3 }, { kind: 'gap' }],
  ])('%s', (_, have, got, step) => {
    expect(takeChunks(have, { ...got, chunks })).toMatchObject(step)
  })

  const texts = fc.array(fc.string({ minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 12 })
  const attempts = fc.array(texts, { minLength: 1, maxLength: 4 })
  /** Which chunks of an attempt are sent, in order: from where, how many, and whether the message gets lost. */
  const deliveries = fc.array(
    fc.record({ back: fc.nat(4), size: fc.integer({ min: 1, max: 5 }), isLost: fc.boolean() }),
  )

  test('give the same text, however the chunks are split, repeated or lost, and however often the run restarts', () => {
    fc.assert(
      fc.property(attempts, fc.array(deliveries, { minLength: 4, maxLength: 4 }), (written, sent) => {
        let have: Progress | undefined
        let parts: readonly EntryPart[] = []
        const give = (all: readonly Chunk[], attempt: number, n: number, end: number) => {
          const step = takeChunks(have, { attempt, n, chunks: all.slice(n, end) })
          if (step.kind === 'add' || step.kind === 'replace') {
            parts = addChunks(step.kind === 'add' ? parts : [], step.chunks, shop)
            have = step.progress
          }
          return step.kind
        }
        /** Asks for the rest, like `chat/resume`. */
        const resume = (all: readonly Chunk[], attempt: number, end: number) =>
          give(all, attempt, have?.attempt === attempt ? have.n : 0, end)
        for (const [index, words] of written.entries()) {
          const attempt = index + 1
          const all = [
            { type: 'text-start', id: 'text-1' },
            ...words.map((delta) => ({ type: 'text-delta', id: 'text-1', delta })),
          ]
          let told = 0
          for (const { back, size, isLost } of sent[index] ?? []) {
            const n = Math.max(0, told - back)
            const end = Math.min(all.length, n + size)
            told = Math.max(told, end)
            if (!isLost && give(all, attempt, n, end) === 'gap') resume(all, attempt, told)
            // Late chunks of the former attempt change nothing.
            if (index > 0 && have?.attempt === attempt) expect(give(all, index, 0, 1)).toBe('ignore')
          }
          // `chat/end` says how many there are.
          if (index === written.length - 1 && (have?.attempt !== attempt || have.n !== all.length))
            resume(all, attempt, all.length)
        }
        expect(parts).toEqual([{ kind: 'text', key: 'text-1', text: written.at(-1)?.join(''), isStreaming: true }])
      }),
    )
  })
})
