import { describe, expect, test } from 'vitest'
import type { ResponseOf } from './requests.ts'
import type { UserEntry } from './state.ts'
import { type Circumstances, put, type Read } from './thread-content.ts'
import {
  createThread,
  type Effect,
  follow,
  loadEarlier,
  read,
  readRefused,
  receiveChunks,
  receiveEnd,
  refresh,
  resumed,
  resumeRefused,
  started,
  type Thread,
  type Told,
} from './thread-state.ts'

const here: Circumstances = { pageOrigin: 'https://shop.example', now: '', isStarting: false, isEditing: false }

type ListOfMessages = ResponseOf<'chat/message-list'>
type Message = ListOfMessages['messages'][number]
const user = (id: string, is_queued = false): Message => ({
  role: 'user',
  id,
  created_at: '',
  text: id,
  skill: null,
  is_queued,
})
const run = (id: string, status: 'running' | 'waiting' | 'succeeded' = 'succeeded'): Message => ({
  role: 'assistant',
  id,
  created_at: '',
  status,
  error: null,
  chunks: [],
  feedback: null,
})
const list = (messages: Message[], before: number | null = null): ListOfMessages => ({
  type: 'chat/message-list',
  request_id: '',
  thread_id: 'thread',
  messages,
  before,
})
const unsent = (id: string): UserEntry => ({
  role: 'user',
  id,
  text: id,
  skill: null,
  createdAt: '',
  delivery: 'sending',
})
const listed = [user('a'), run('r1', 'running')]
const chunks = (changes: Partial<Told<'chat/chunk'>>): Told<'chat/chunk'> => ({
  type: 'chat/chunk',
  thread_id: 'thread',
  run_id: 'r1',
  attempt: 1,
  n: 0,
  chunks: [{ type: 'text-start', id: 't' }],
  ...changes,
})
const end = (changes: Partial<Told<'chat/end'>>): Told<'chat/end'> => ({
  type: 'chat/end',
  thread_id: 'thread',
  run_id: 'r1',
  attempt: 1,
  n: 1,
  status: 'succeeded',
  error: null,
  ...changes,
})

type Event = (thread: Thread) => readonly Effect[]

/** The requests that a thread waits for. */
const readOf = ({ turn, sequence }: Thread, limit?: number): Read => ({
  do: 'read',
  turn,
  since: sequence,
  page: limit === undefined ? {} : { limit },
})
const resumeOf = ({ turn }: Thread) => ({ do: 'resume', turn, have: undefined }) as const
const earlierOf = ({ turn, sequence }: Thread, before = 5): Read => ({
  do: 'read',
  turn,
  since: sequence,
  page: { before, limit: 3 },
})
/** The same before the last new socket or other thread. */
const early = <Asked extends { turn: number }>(asked: Asked): Asked => ({ ...asked, turn: asked.turn - 1 })
const gone = { code: 'RESOURCE_NOT_FOUND', message: '' }

const create = (isNew: boolean) => createThread({ id: 'thread', unsent: [], isNew })

/** The user's message `b` is in the thread, and the server reads it later. */
const queue: Event = (thread) => {
  put(thread, { ...unsent('b'), delivery: 'queued' })
  return []
}

/** The thread after events, whatever they ask for. */
function after(thread: Thread, ...events: Event[]): Thread {
  for (const event of events) event(thread)
  return thread
}

const useList =
  (messages: Message[], before: number | null = null): Event =>
  (thread) =>
    read(thread, readOf(thread), list(messages, before), here)
const noActive: Event = (thread) => resumed(thread, resumeOf(thread), undefined, here)
const gap: Event = (thread) => receiveChunks(thread, chunks({ n: 7 }), here)
const firstChunks: Event = (thread) => receiveChunks(thread, chunks({}), here)

/** Named after what is going on, as `nameOf` says it. */
const states = {
  new: () => create(true),
  'loading + reading': () => after(create(false), follow),
  /** One run is in progress, of which one chunk is here. */
  ready: () => after(create(false), follow, useList(listed), noActive, firstChunks),
  reading: () => after(states.ready(), refresh),
  'reading again': () => after(states.reading(), refresh),
  resuming: () => after(states.ready(), gap),
  'resuming again': () => after(states.resuming(), gap),
}
type StateName = keyof typeof states
const stateNames = Object.keys(states) as StateName[]

const nameOf = ({ phase, reading, resuming }: Thread): string => {
  const name = (what: string, asking: Thread['reading']) => (asking === 'again' ? `${what} again` : what)
  const names = [
    ...(reading === 'idle' ? [] : [name('reading', reading)]),
    ...(resuming === 'idle' ? [] : [name('resuming', resuming)]),
  ]
  return phase === 'ready' && names.length > 0 ? names.join(' + ') : [phase, ...names].join(' + ')
}
const describeEffect = (effect: Effect): string => {
  if (effect.do === 'read') return `read ${effect.page.limit ?? 'all'}`
  if (effect.do === 'report refusal') return `say ${effect.refusal.code}`
  return effect.do === 'report end' ? `${effect.run.id} ended` : effect.do
}
const ignored = 'ignored'
const sameState = 'changes only the entries, or what is known of them'
/** All that a thread knows. */
const write = (thread: Thread): string =>
  JSON.stringify(thread, (_, value) => (value instanceof Map || value instanceof Set ? [...value] : value))
function describeStep(thread: Thread, event: Event): string {
  const [all, before] = [write(thread), nameOf(thread)]
  const effects = event(thread)
  if (write(thread) === all && effects.length === 0) return ignored
  if (nameOf(thread) === before && effects.length === 0) return sameState
  return [nameOf(thread), ...effects.map(describeEffect)].join(', ')
}

type Expected = Partial<Record<StateName, string>>

test('the states are named after what is going on', () => {
  expect(stateNames.map((name) => nameOf(states[name]()))).toEqual(stateNames)
})

describe('what can happen in every state', () => {
  /** Cells that several events share. */
  const resumes = {
    new: 'new + resuming, resume',
    'loading + reading': 'loading + reading + resuming, resume',
    ready: 'resuming, resume',
    reading: 'reading + resuming, resume',
    'reading again': 'reading again + resuming, resume',
    resuming: 'resuming again',
  }
  const reads = {
    ready: 'reading, read 2',
    resuming: 'reading + resuming, read 2',
  }
  const unknownRun = { new: resumes.new, 'loading + reading': resumes['loading + reading'] }
  const cases: [title: string, event: Event, expected: Expected, otherwise: string][] = [
    [
      'a new socket: reads, and resumes what was read',
      follow,
      { new: sameState, 'loading + reading': 'loading + reading, read all' },
      'reading + resuming, read all, resume',
    ],
    [
      'the end has to be read',
      refresh,
      {
        ...reads,
        new: ignored,
        'loading + reading': 'loading + reading again',
        reading: 'reading again',
        'resuming again': 'reading + resuming again, read 2',
      },
      ignored,
    ],
    [
      'the next chunks of a run',
      (thread) => receiveChunks(thread, chunks({ n: 1 }), here),
      { ...unknownRun, 'resuming again': 'resuming' },
      sameState,
    ],
    [
      'chunks that are here',
      (thread) => receiveChunks(thread, chunks({ n: 1, chunks: [] }), here),
      unknownRun,
      ignored,
    ],
    ['chunks after a gap', (thread) => receiveChunks(thread, chunks({ n: 7 }), here), resumes, ignored],
    [
      'the first chunks of a run that began elsewhere',
      (thread) => receiveChunks(thread, chunks({ run_id: 'r2' }), here),
      { ...reads, new: 'new + reading, read 2', 'resuming again': 'reading + resuming, read 2' },
      sameState,
    ],
    [
      'the first chunks of a run while a message is on its way',
      (thread) => receiveChunks(thread, chunks({ run_id: 'r2' }), { ...here, isStarting: true }),
      { 'resuming again': 'resuming' },
      sameState,
    ],
    [
      'chunks of another thread',
      (thread) => receiveChunks(thread, chunks({ n: 1, thread_id: 'other' }), here),
      {},
      ignored,
    ],
    [
      'the end of a run',
      (thread) => receiveEnd(thread, end({})),
      {
        ...unknownRun,
        ready: 'ready, r1 ended',
        reading: 'reading, r1 ended',
        'reading again': 'reading again, r1 ended',
        resuming: 'resuming, r1 ended',
        'resuming again': 'resuming again, r1 ended',
      },
      ignored,
    ],
    [
      'the end of a run that didn’t read a message',
      (thread) => receiveEnd(after(thread, queue), end({})),
      {
        ...unknownRun,
        ready: 'reading, r1 ended, read 2',
        reading: 'reading again, r1 ended',
        'reading again': 'reading again, r1 ended',
        resuming: 'reading + resuming, r1 ended, read 2',
        'resuming again': 'reading + resuming again, r1 ended, read 2',
      },
      ignored,
    ],
    ['a run waits for the user', (thread) => receiveEnd(thread, end({ status: 'waiting' })), unknownRun, sameState],
    ['the end of a run of which chunks are missing', (thread) => receiveEnd(thread, end({ n: 7 })), resumes, ignored],
    [
      'the end of an attempt that was repeated',
      (thread) => receiveEnd(thread, end({ attempt: 0 })),
      unknownRun,
      ignored,
    ],
    ['the end of a run in another thread', (thread) => receiveEnd(thread, end({ thread_id: 'other' })), {}, ignored],
    [
      'the server answers a message',
      (thread) => started(thread, { runId: 'r2', isQueued: false }, here),
      { new: 'ready' },
      sameState,
    ],
    [
      'the server queues a message',
      (thread) => started(thread, { runId: 'r1', isQueued: true }, here),
      { new: 'ready' },
      ignored,
    ],
  ]
  test.each(cases)('%s', (_, event, expected, otherwise) => {
    const steps = stateNames.map((name) => {
      const thread = states[name]()
      return [name, describeStep(thread, event)]
    })
    expect(Object.fromEntries(steps)).toEqual(
      Object.fromEntries(stateNames.map((name) => [name, expected[name] ?? otherwise])),
    )
  })
})

describe('the response to a request', () => {
  const readLast =
    (messages: Message[], limit?: number): Event =>
    (thread) =>
      read(thread, readOf(thread, limit), list(messages, limit ? 7 : null), here)
  const refuse =
    (code: string): Event =>
    (thread) =>
      readRefused(thread, readOf(thread), { code, message: '' })
  const resume =
    (runId?: string): Event =>
    (thread) =>
      resumed(thread, resumeOf(thread), runId, here)
  const cases: [title: string, event: Event, expected: Expected][] = [
    [
      'the end of the thread',
      readLast(listed),
      { 'loading + reading': 'resuming, resume', reading: 'ready', 'reading again': 'reading, read 2' },
    ],
    [
      'the end, in which the run has ended',
      readLast([user('a'), run('r1')]),
      {
        'loading + reading': 'resuming, resume',
        reading: 'ready, r1 ended',
        'reading again': 'reading, r1 ended, read 2',
      },
    ],
    [
      'so little of the end that a gap would be left',
      readLast([user('c'), run('r3')], 2),
      { reading: 'reading, read all', 'reading again': 'reading, read all' },
    ],
    [
      'the end can’t be read',
      refuse('NO_RESPONSE'),
      {
        'loading + reading': 'ready, say NO_RESPONSE',
        reading: 'ready, say NO_RESPONSE',
        'reading again': 'ready, say NO_RESPONSE',
      },
    ],
    [
      'there is no such thread',
      refuse('RESOURCE_NOT_FOUND'),
      { 'loading + reading': 'ready, say RESOURCE_NOT_FOUND', reading: 'ready, say RESOURCE_NOT_FOUND' },
    ],
    [
      'there was no such thread before a message was sent',
      (thread) => {
        const asked = readOf(thread)
        put(thread, unsent('b'))
        return readRefused(thread, asked, gone)
      },
      { 'loading + reading': 'loading + reading, read all', reading: 'reading, read all' },
    ],
    ['no run is active', resume(), { resuming: 'ready', 'resuming again': 'resuming, resume' }],
    ['a run is active', resume('r1'), { resuming: 'ready', 'resuming again': 'resuming, resume' }],
    [
      'a run is active that began elsewhere',
      resume('r2'),
      { resuming: 'reading, read 2', 'resuming again': 'reading + resuming, read 2, resume' },
    ],
    [
      'a run can’t be resumed',
      (thread) => resumeRefused(thread, resumeOf(thread)),
      { resuming: 'ready', 'resuming again': 'ready' },
    ],
  ]
  test.each(cases)('%s', (_, event, expected) => {
    const steps = Object.keys(expected).map((name) => {
      const thread = states[name as StateName]()
      return [name, describeStep(thread, event)]
    })
    expect(Object.fromEntries(steps)).toEqual(expected)
  })

  test.each<[string, Event]>([
    ['the end', (thread) => read(thread, early(readOf(thread)), list(listed), here)],
    ['a refusal of the end', (thread) => readRefused(thread, early(readOf(thread)), gone)],
    ['a run', (thread) => resumed(thread, early(resumeOf(thread)), 'r2', here)],
    ['a refusal of a run', (thread) => resumeRefused(thread, early(resumeOf(thread)))],
    ['earlier messages', (thread) => read(thread, early(earlierOf(thread)), list(listed), here)],
    ['a refusal of earlier messages', (thread) => readRefused(thread, early(earlierOf(thread)), gone)],
  ])('is ignored in every state if it comes after a new socket or another thread: %s', (_, event) => {
    for (const name of stateNames) {
      const thread = states[name]()
      expect(describeStep(thread, event), name).toBe(ignored)
    }
  })
})

describe('earlier messages', () => {
  const long = () => after(states.reading(), useList(listed, 5))
  const ids = ({ entries }: Thread) => entries.map(({ id }) => id)

  test('are asked for once at a time, and come before the others', () => {
    const thread = long()
    expect(loadEarlier(thread)).toEqual([earlierOf(thread)])
    expect(loadEarlier(thread)).toEqual([])
    read(thread, earlierOf(thread), list([user('x'), run('r0'), user('a')]), here)
    expect(ids(thread)).toEqual(['x', 'r0', 'a', 'r1'])
    expect(loadEarlier(thread), 'the thread begins there').toEqual([])
  })

  test('are dropped if the end was replaced meanwhile', () => {
    const thread = after(long(), loadEarlier, refresh, useList([user('y'), run('r9')], 8))
    read(thread, earlierOf(thread), list([user('x'), run('r0')]), here)
    expect(ids(thread)).toEqual(['y', 'r9'])
    expect(loadEarlier(thread)).toEqual([earlierOf(thread, 8)])
  })

  test('can be asked for again after a refusal', () => {
    const thread = after(long(), loadEarlier)
    expect(readRefused(thread, earlierOf(thread), gone)).toEqual([{ do: 'report refusal', refusal: gone }])
    expect(loadEarlier(thread)).toEqual([earlierOf(thread)])
  })
})
