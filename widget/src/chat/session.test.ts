import type { ClientMessageInput, ServerMessage } from '@inlay/protocol'
import { describe, expect, test } from 'vitest'
import { openStore } from '../kept/text-store.ts'
import { createVisitorSecret } from '../kept/visitor-secret.ts'
import { createChatSession } from './session.ts'
import type { Entry } from './state.ts'

/** Conversations with the real server are tested in server/src/channels/chat/session.test.ts. */

type Sent = ClientMessageInput & { request_id: string }
type Message = (ServerMessage & { type: 'chat/message-list' })['messages'][number]

const now = 1_794_822_065_000

function createStorage() {
  const refuseStorage = () => {
    throw new Error('SecurityError')
  }
  return { tab: openStore(refuseStorage, ''), browser: openStore(refuseStorage, '') }
}

function useSession(storage = createStorage()) {
  const sent: Sent[] = []
  const waiting: (() => void)[] = []
  const session = createChatSession({
    send: (message) => void sent.push(message as Sent),
    now: () => now,
    storage,
    visitorSecret: createVisitorSecret(storage.browser),
    pageOrigin: 'https://shop.example',
    schedule: (callback) => void waiting.push(callback),
    onEvent: () => undefined,
  })
  const connect = () => session.connected({ id: 'ann', isAnonymous: false, isResumed: false })
  const last = <Type extends ClientMessageInput['type']>(type: Type) =>
    sent.findLast((message) => message.type === type) as Sent & { type: Type }
  const respond = (type: ClientMessageInput['type'], response: Record<string, unknown>) =>
    session.receive({ request_id: last(type).request_id, ...response } as never)
  const draw = () => {
    for (const callback of waiting.splice(0)) callback()
  }
  const texts = () =>
    session.state.entries.map((entry) => (entry.role === 'user' ? `${entry.delivery}: ${entry.text}` : entry.id))
  return { storage, session, sent, connect, last, respond, draw, texts }
}

const visitor = { id: 'key', isAnonymous: true, isResumed: false }

const user = (id: string, is_queued = false): Message => ({
  role: 'user',
  id,
  created_at: '',
  text: id,
  skill: null,
  is_queued,
})
const run = (
  id: string,
  status: 'running' | 'succeeded' = 'succeeded',
  chunks: Record<string, unknown>[] = [],
): Message => ({
  role: 'assistant',
  id,
  created_at: '',
  status,
  error: null,
  chunks,
  feedback: null,
})
const steering = (id: string) => ({ type: 'steering-message' as const, id, parts: [{ type: 'text', text: id }] })
const list = (messages: Message[], before: number | null = null) => ({
  type: 'chat/message-list',
  thread_id: '',
  messages,
  before,
})

describe('what the user types', () => {
  test('before the first connection is sent with it', () => {
    const { session, sent, connect, last, texts } = useSession()
    session.send('Hi')
    session.setDraft('More')
    expect([texts(), sent]).toEqual([['waiting: Hi'], []])
    connect()
    expect([texts(), session.state.draft]).toEqual([['sending: Hi'], 'More'])
    expect(last('chat/send')).toMatchObject({ thread_id: session.state.threadId, message: { text: 'Hi' } })
  })

  test('is sent one message after the other', () => {
    const { session, sent, connect, respond, texts } = useSession()
    connect()
    for (const text of ['a', 'b']) session.send(text)
    const written = () => sent.flatMap((message) => (message.type === 'chat/send' ? [message.message?.text] : []))
    expect(written()).toEqual(['a'])
    respond('chat/send', { type: 'chat/start', thread_id: session.state.threadId, run_id: 'run', is_queued: false })
    expect([written(), texts()]).toEqual([
      ['a', 'b'],
      ['delivered: a', 'run', 'sending: b'],
    ])
  })

  test('stays in the draft if too much is waiting, or if it is too long', () => {
    const { session, texts } = useSession()
    for (let count = 0; count < 20; count += 1) session.send(`${count}`)
    session.setDraft('One more')
    session.send('One more')
    expect(session.state).toMatchObject({ draft: 'One more', problem: { code: 'TOO_MANY_WAITING', message: '' } })
    session.send('x'.repeat(32_001))
    expect(session.state.problem?.code).toBe('MESSAGE_TOO_LONG')
    expect(texts().length).toBe(20)
  })

  test.each([undefined, null, 7, ['Hi'], { toString: 1, valueOf: 1 }])('is text, and %j is ignored', (text) => {
    const { session, texts } = useSession()
    session.send(text as never)
    expect(texts()).toEqual([])
  })

  test('as a visitor is there after signing in: the draft at once, and messages with the conversation', () => {
    const { session, connect, respond, last, texts } = useSession()
    session.connected(visitor)
    session.send('Hi')
    const { threadId } = session.state
    respond('chat/send', { type: 'chat/start', thread_id: threadId, run_id: 'run', is_queued: false })
    session.disconnected()
    session.send('And this?')
    session.setDraft('Half a sent')
    connect()
    expect([texts(), session.state]).toMatchObject([[], { draft: 'Half a sent', canAdopt: true }])
    session.setDraft('Half a sentence')
    session.adopt(true)
    respond('chat/adopt', { type: 'chat/adopted', thread_id: threadId })
    respond('chat/messages', list([user('Hi'), run('run')]))
    expect(texts()).toEqual(['delivered: Hi', 'run', 'sending: And this?'])
    expect(session.state).toMatchObject({ threadId, draft: 'Half a sentence', canAdopt: false })
    expect(last('chat/send')).toMatchObject({ thread_id: threadId, message: { text: 'And this?' } })
  })

  test.each([
    ['moves to the user’s conversation, even if nothing was sent before', true, ['sending: Hi']],
    ['is forgotten if the user doesn’t want it', false, []],
  ])('as a visitor %s', (_, isWanted, expected) => {
    const { session, connect, texts } = useSession()
    session.connected(visitor)
    session.disconnected()
    session.send('Hi')
    connect()
    expect([texts(), session.state.canAdopt]).toEqual([[], true])
    session.adopt(isWanted)
    expect([texts(), session.state.canAdopt]).toEqual([expected, false])
    session.connected(visitor)
    connect()
    expect([texts(), session.state.canAdopt], 'only once').toEqual([[], false])
  })

  test('as a user isn’t shown to the next one', () => {
    const { session, connect, texts } = useSession()
    connect()
    session.disconnected()
    session.send('Hi')
    session.setDraft('Secret')
    for (const id of ['key', 'bob']) {
      session.connected({ id, isAnonymous: id === 'key', isResumed: false })
      expect([texts(), session.state]).toMatchObject([[], { draft: '', canAdopt: false }])
    }
  })

  test('can be edited while it waits', () => {
    const { session, texts } = useSession()
    session.send('a')
    session.send('b')
    session.edit('c')
    expect(texts()).toEqual(['waiting: a', 'waiting: c'])
  })

  test('is kept when the server refuses it, with the time to try again', () => {
    const { session, connect, respond, texts, last } = useSession()
    connect()
    session.send('Hi')
    const { message } = last('chat/send')
    respond('chat/send', { type: 'chat/error', code: 'TOO_MANY_RUNS', message: 'Wait.', retry_after_ms: 5_000 })
    expect(texts()).toEqual(['refused: Hi'])
    expect(session.state.problem).toEqual({ code: 'TOO_MANY_RUNS', message: 'Wait.', retryAt: now + 5_000 })
    session.regenerate()
    expect([texts(), last('chat/send').message]).toEqual([['sending: Hi'], message])
  })

  test('brings the former message back if an edit is refused', () => {
    const { session, connect, respond, texts } = useSession()
    connect()
    session.openThread('thread')
    respond('chat/messages', list([user('a'), run('r1'), user('b'), run('r2')]))
    session.edit('c')
    expect(texts()).toEqual(['delivered: a', 'r1', 'sending: c'])
    respond('chat/send', { type: 'chat/error', code: 'RUN_ACTIVE', message: 'Stop it.' })
    respond('chat/messages', list([user('a'), run('r1'), user('b'), run('r2')]))
    expect(texts()).toEqual(['delivered: a', 'r1', 'delivered: b', 'r2', 'refused: c'])
    session.edit('d')
    expect(texts()).toEqual(['delivered: a', 'r1', 'sending: d'])
  })
})

describe('the delivery of a message', () => {
  type Chat = ReturnType<typeof useSession>
  type Delivery = 'waiting' | 'sending' | 'refused' | 'queued' | 'delivered'
  /** What the server has before the message. */
  const earlier = [user('a'), run('r1')]
  const working = [user('a'), run('r1', 'running')]
  function useThread(messages: Message[]): Chat {
    const chat = useSession()
    chat.connect()
    chat.session.openThread('thread')
    chat.respond('chat/messages', list(messages))
    chat.session.receive({ ...inRun, n: 0, chunks: [] })
    return chat
  }
  const inRun = { type: 'chat/chunk' as const, thread_id: 'thread', run_id: 'r1', attempt: 1 }
  const send = (chat: Chat) => chat.session.send('Hi')
  const accept = (is_queued: boolean) => (chat: Chat) =>
    chat.respond('chat/send', {
      type: 'chat/start',
      thread_id: 'thread',
      run_id: is_queued ? 'r1' : 'r2',
      is_queued,
    })
  const refuse = ({ respond }: Chat) => respond('chat/send', { type: 'chat/error', code: 'NO_RESPONSE', message: '' })
  const lose = ({ session }: Chat) => session.disconnected()
  const sendAgain = ({ session }: Chat) => session.regenerate()
  const edit = ({ session }: Chat) => session.edit('Hey')
  const idOf = ({ session }: Chat) => session.state.entries.findLast(({ role }) => role === 'user')?.id ?? ''
  const readByRun = (chat: Chat) => chat.session.receive({ ...inRun, n: 0, chunks: [steering(idOf(chat))] })
  /** The run before the message ends, or the one that answers it. */
  function endRun({ session }: Chat): void {
    for (const run_id of ['r1', 'r2']) {
      session.receive({ ...inRun, run_id, n: 0, chunks: [] })
      session.receive({
        type: 'chat/end',
        thread_id: 'thread',
        run_id,
        attempt: 1,
        n: 0,
        status: 'stopped',
        error: null,
      })
    }
  }
  function listAfterRun(chat: Chat, isQueued: boolean): void {
    endRun(chat)
    chat.respond('chat/messages', list([...earlier, { ...user('Hi', isQueued), id: idOf(chat) }]))
  }
  function after(chat: Chat, ...events: ((chat: Chat) => void)[]): Chat {
    for (const event of events) event(chat)
    return chat
  }
  const states: Record<Delivery, () => Chat> = {
    waiting: () => after(useThread(earlier), lose, send),
    sending: () => after(useThread(earlier), send),
    refused: () => after(useThread(earlier), send, refuse),
    queued: () => after(useThread(working), send, accept(true)),
    delivered: () => after(useThread(earlier), send, accept(false)),
  }
  const show = ({ session: { state } }: Chat): string => {
    for (const entry of state.entries) {
      if (entry.role === 'assistant' && entry.parts.some(({ kind }) => kind === 'steering')) return 'in the run'
      if (entry.role === 'user' && entry.text === 'Hi') return entry.delivery
      if (entry.role === 'user' && entry.text === 'Hey') return 'another'
    }
    return 'unknown'
  }
  const unchanged = Object.fromEntries(Object.keys(states).map((state) => [state, state]))

  test.each<[string, (chat: Chat) => void, Partial<Record<Delivery, string>>]>([
    ['stays while nothing happens', () => undefined, unchanged],
    ['changes with a connection', ({ connect }) => connect(), { ...unchanged, waiting: 'sending' }],
    ['changes when the connection is lost', lose, { ...unchanged, sending: 'waiting' }],
    ['changes when the server accepts it', accept(false), { sending: 'delivered' }],
    ['changes when the server accepts it during a run', accept(true), { sending: 'queued' }],
    ['changes when the server refuses it', refuse, { sending: 'refused' }],
    ['changes when the user sends it again', sendAgain, { refused: 'sending' }],
    ['changes when the user sends it again offline', (chat) => sendAgain(after(chat, lose)), { refused: 'waiting' }],
    ['changes when the user edits it', edit, { waiting: 'another', refused: 'another', queued: 'queued' }],
    ['changes when the user edits it after the answer', (chat) => edit(after(chat, endRun)), { delivered: 'another' }],
    ['stays when the user stops the run', ({ session }) => session.stop(), unchanged],
    ['changes when the run reads it', readByRun, { queued: 'in the run' }],
    ['stays when the run ends', endRun, { queued: 'queued', delivered: 'delivered' }],
    ['is what the server lists: queued', (chat) => listAfterRun(chat, true), { queued: 'queued' }],
    ['is what the server lists: delivered', (chat) => listAfterRun(chat, false), { queued: 'delivered' }],
  ])('%s', (_, event, expected) => {
    const found = Object.keys(expected).map((state) => [state, show(after(states[state as Delivery](), event))])
    expect(Object.fromEntries(found)).toEqual(expected)
  })

  test.each<[string, (chat: Chat) => void, Partial<Record<Delivery, string>>]>([
    [
      'in the outbox survives a reload, and the rest is read',
      () => undefined,
      { waiting: 'sending', sending: 'sending', refused: 'refused', queued: 'unknown', delivered: 'unknown' },
    ],
    [
      'that was accepted before a reload is what the server lists',
      ({ respond }) => respond('chat/messages', list([user('Hi')])),
      { queued: 'delivered', delivered: 'delivered' },
    ],
  ])('%s', (_, event, expected) => {
    const found = Object.keys(expected).map((state) => {
      const { storage } = states[state as Delivery]()
      return [state, show(after(useSession(storage), ({ connect }) => connect(), event))]
    })
    expect(Object.fromEntries(found)).toEqual(expected)
  })
})

describe('a thread that is read again', () => {
  const before = [user('a'), run('r1'), user('b'), run('r2')]
  test.each<[string, Message[], number | null, string[]]>([
    [
      'has a new turn',
      [user('b'), run('r2'), user('c'), run('r3')],
      2,
      ['delivered: a', 'r1', 'delivered: b', 'r2', 'delivered: c', 'r3'],
    ],
    [
      'has another last turn',
      [user('a'), run('r1'), user('c'), run('r3')],
      null,
      ['delivered: a', 'r1', 'delivered: c', 'r3'],
    ],
    [
      'has a message that is queued',
      [...before, user('c', true)],
      null,
      ['delivered: a', 'r1', 'delivered: b', 'r2', 'queued: c'],
    ],
    [
      'has more turns than were read',
      [user('x'), run('r8'), user('y'), run('r9')],
      7,
      ['delivered: x', 'r8', 'delivered: y', 'r9'],
    ],
    ['is shorter', [user('a'), run('r1')], null, ['delivered: a', 'r1']],
  ])('%s', (_, messages, position, expected) => {
    const { session, connect, respond, texts } = useSession()
    connect()
    session.openThread('thread')
    respond('chat/messages', list(before))
    session.disconnected()
    session.send('unsent')
    connect()
    const [first] = session.state.entries
    respond('chat/messages', list(messages, position))
    expect(texts()).toEqual([...expected, 'sending: unsent'])
    if (expected[0] === 'delivered: a') expect(session.state.entries[0], 'unchanged entries stay').toBe(first)
    expect(session.state.hasEarlier).toBe(expected[0] === 'delivered: x')
  })

  test('keeps what has streamed since the request', () => {
    const { session, connect, respond } = useSession()
    connect()
    session.openThread('thread')
    respond('chat/messages', list([user('a'), run('r1', 'running')]))
    const chunk = (n: number, ...chunks: Record<string, unknown>[]) =>
      session.receive({ type: 'chat/chunk', thread_id: 'thread', run_id: 'r1', attempt: 1, n, chunks })
    chunk(0, { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: 'One ' })
    session.disconnected()
    connect()
    chunk(2, { type: 'text-delta', id: 't', delta: 'two' })
    session.receive({
      type: 'chat/end',
      thread_id: 'thread',
      run_id: 'r1',
      attempt: 1,
      n: 3,
      status: 'succeeded',
      error: null,
    })
    respond('chat/messages', list([user('a'), run('r1', 'running')]))
    expect(session.state.entries[1]).toMatchObject({
      status: 'succeeded',
      parts: [{ text: 'One two', isStreaming: false }],
    })
  })
})

describe('a message that was sent elsewhere', () => {
  test.each<[string, Message[], string | undefined]>([
    ['is marked if it is the last one', [user('a'), run('r1'), user('b'), run('r2')], 'b'],
    ['is marked if it replaces the last one', [user('c'), run('r3')], 'c'],
    [
      'is marked if it entered an answer',
      [user('a'), run('r1'), user('b'), run('r2', 'running', [steering('c')])],
      'c',
    ],
    ['is not marked if it was there', [user('a'), run('r1')], undefined],
  ])('%s', (_, messages, expected) => {
    const { session, connect, respond } = useSession()
    connect()
    session.openThread('thread')
    respond('chat/messages', list([user('a'), run('r1')]))
    expect(session.state.elsewhere).toBe(undefined)
    session.disconnected()
    connect()
    respond('chat/messages', list(messages))
    expect(session.state.elsewhere).toBe(expected)
    session.send('mine')
    expect(session.state.elsewhere).toBe(undefined)
  })

  test('is marked as soon as it enters an answer, and a message of this tab isn’t', () => {
    const { session, connect, respond } = useSession()
    connect()
    session.openThread('thread')
    respond('chat/messages', list([user('a'), run('r1', 'running')]))
    let n = 0
    const enter = (id: string) => {
      session.receive({
        type: 'chat/chunk',
        thread_id: 'thread',
        run_id: 'r1',
        attempt: 1,
        n: n++,
        chunks: [steering(id)],
      })
      return session.state.elsewhere
    }
    expect(enter('b')).toBe('b')
    expect(enter('c')).toBe('c')
    session.send('mine')
    respond('chat/send', { type: 'chat/start', thread_id: 'thread', run_id: 'r1', is_queued: true })
    const mine = session.state.entries.at(-1)?.id ?? ''
    expect(enter(mine)).toBe(undefined)
    expect(session.state.entries.map(({ id }) => id)).toEqual(['a', 'r1'])
  })
})

test('a delta changes one entry of a long thread, and subscribers are called once per frame', () => {
  const { session, connect, respond, draw } = useSession()
  connect()
  session.openThread('thread')
  const turns = Array.from({ length: 2_500 }, (_, index) => [user(`u${index}`), run(`r${index}`)])
  respond('chat/messages', list([...turns.flat(), user('last'), run('live', 'running')]))
  draw()
  let calls = 0
  session.subscribe(() => {
    calls += 1
  })
  const before: readonly Entry[] = session.state.entries
  for (let n = 0; n < 50; n += 1)
    session.receive({
      type: 'chat/chunk',
      thread_id: 'thread',
      run_id: 'live',
      attempt: 1,
      n,
      chunks: [n === 0 ? { type: 'text-start', id: 't' } : { type: 'text-delta', id: 't', delta: 'x' }],
    })
  draw()
  const after = session.state.entries
  expect(calls).toBe(1)
  expect(after.filter((entry, index) => entry !== before[index]).map(({ id }) => id)).toEqual(['live'])
  expect(after.at(-1)).toMatchObject({ parts: [{ text: 'x'.repeat(49) }] })
})
