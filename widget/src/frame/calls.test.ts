import type { ClientMessageInput } from '@inlay/protocol'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { PageTool, ToolAnnotations } from '../channel.ts'
import { describeEarlierCall } from '../view/pages/earlier-calls.ts'
import { Calls, readResult } from './calls.ts'

const look: PageTool = { name: 'look', description: 'Looks', annotations: { readOnlyHint: true } }
const change: PageTool = { name: 'change', description: 'Changes' }

const both = (hints: ToolAnnotations): PageTool => ({ ...change, annotations: { readOnlyHint: true, ...hints } })

function useCalls(tools: PageTool[] = [look, change]) {
  const sent: ClientMessageInput[] = []
  const ran: string[] = []
  const stopped: string[] = []
  const withdrawn: string[] = []
  const calls = new Calls({
    findTool: (name) => tools.find((tool) => tool.name === name),
    run: ({ id }) => ran.push(id),
    stop: ({ id }) => stopped.push(id),
    send: (message) => sent.push(message),
    onWithdrawn: ({ id, message }) => withdrawn.push(`${id}: ${message}`),
    onChange: () => undefined,
  })
  const receive = (call_id: string, name: string, definition_hash = 'h', args = {}) =>
    calls.receive({ type: 'tool/call', call_id, name, args, definition_hash, deadline: 0 })
  /** Confirms like the server does for a caller that is still waiting. */
  const confirm = () => {
    for (const { id, state } of calls.list) if (state === 'allowed') calls.confirm(id)
  }
  const results = () => sent.filter(({ type }) => type === 'tool/result')
  const approvals = () => sent.flatMap((one) => (one.type === 'tool/approval' ? [`${one.call_id} ${one.state}`] : []))
  const states = () => Object.fromEntries(calls.list.map(({ id, state }) => [id, state]))
  const waiting = () => calls.waiting.map(({ id }) => id)
  return { calls, receive, confirm, states, waiting, results, approvals, ran, stopped, withdrawn, tools }
}

describe('a call', () => {
  test('of a read-only tool runs immediately', () => {
    const { receive, states, ran } = useCalls()
    receive('1', 'look')
    expect([states(), ran]).toEqual([{ 1: 'running' }, ['1']])
  })

  test.each([
    ['without annotations', change],
    ['that declares that it changes something', { ...change, annotations: { readOnlyHint: false } }],
    ['that declares to be both read-only and destructive', both({ destructiveHint: true })],
    ['that declares to be both read-only and consequential', both({ consequentialHint: true })],
  ])('of a tool %s waits for the user', (_, tool) => {
    const { calls, receive, confirm, states, ran, waiting, approvals } = useCalls([tool])
    receive('1', 'change')
    expect([states(), ran, waiting()]).toEqual([{ 1: 'asking' }, [], ['1']])
    calls.decide('1', 'once')
    expect([states(), ran, waiting()], 'not before the server confirms it').toEqual([{ 1: 'allowed' }, [], []])
    confirm()
    confirm()
    expect([states(), ran, approvals()]).toEqual([{ 1: 'running' }, ['1'], ['1 asking', '1 allowed']])
  })

  test('that is declined does not run, and its caller is told', () => {
    const { calls, receive, states, ran, results } = useCalls()
    receive('1', 'change')
    calls.decide('1', 'no')
    expect([states(), ran]).toEqual([{ 1: 'declined' }, []])
    expect(results()).toMatchObject([
      { type: 'tool/result', call_id: '1', error: { code: 'declined', message: 'The user declined the call' } },
    ])
  })

  test('reports how the user allowed or declined it', () => {
    const { calls, receive, confirm, results } = useCalls()
    for (const [id, name] of Object.entries({ 1: 'look', 2: 'change', 3: 'change', 4: 'change' }))
      receive(id, name, 'h', { id })
    calls.decide('2', 'no')
    calls.decide('3', 'always')
    receive('5', 'change')
    confirm()
    for (const id of ['1', '3', '4', '5']) calls.finish(id, '1')
    const after_ms = expect.any(Number)
    expect(results().map((message) => 'approval' in message && [message.call_id, message.approval])).toEqual([
      ['2', { how: 'declined', after_ms }],
      ['1', { how: 'not_needed' }],
      ['3', { how: 'allowed', after_ms }],
      ['4', { how: 'always_allowed' }],
      ['5', { how: 'always_allowed' }],
    ])
  })

  test('of an unknown tool gets an error', () => {
    const { receive, results, ran } = useCalls()
    receive('1', 'gone')
    expect(ran).toEqual([])
    expect(results()).toMatchObject([{ call_id: '1', error: { code: 'unknown_tool' } }])
  })

  test("sends the page's result or error", () => {
    const { calls, receive, states, results } = useCalls()
    receive('1', 'look')
    receive('2', 'look')
    calls.finish('1', '{"a":1}')
    calls.fail('2', 'Boom')
    expect(states()).toEqual({ 1: 'done', 2: 'failed' })
    expect(results()).toMatchObject([
      { type: 'tool/result', call_id: '1', result: { a: 1 } },
      { type: 'tool/result', call_id: '2', error: { code: 'failed', message: 'Boom' } },
    ])
  })

  test('with a result that exceeds the message size fails', () => {
    const { calls, receive, results } = useCalls()
    receive('1', 'look')
    calls.finish('1', 'x'.repeat(1024 * 1024))
    expect(results()).toMatchObject([
      { error: { code: 'failed', message: 'The result exceeds the maximum size of a message' } },
    ])
  })

  test('that is resent after a drop neither runs nor asks again, and its result is sent again', () => {
    const { calls, receive, results, ran } = useCalls()
    receive('1', 'look')
    receive('1', 'look')
    expect([ran, results()]).toEqual([['1'], []])
    calls.finish('1', '1')
    receive('1', 'look')
    expect(ran).toEqual(['1'])
    expect(results()).toMatchObject([
      { type: 'tool/result', call_id: '1', result: 1 },
      { type: 'tool/result', call_id: '1', result: 1 },
    ])
  })

  test('that is cancelled is stopped in the page, and a late result is dropped', () => {
    const { calls, receive, states, results, stopped } = useCalls()
    receive('1', 'look')
    calls.cancel('1', 'The caller gave up')
    calls.finish('1', '1')
    expect([states(), stopped, results()]).toEqual([{ 1: 'cancelled' }, ['1'], []])
  })

  test('that is cancelled while the user decides is no longer asked about', () => {
    const { calls, receive, ran, waiting } = useCalls()
    receive('1', 'change')
    const [asked] = calls.waiting
    calls.cancel('1', 'The deadline has passed')
    calls.decide('1', 'once')
    expect([waiting(), ran]).toEqual([[], []])
    expect(asked, 'the question can show the reason').toMatchObject({
      state: 'cancelled',
      message: 'The deadline has passed',
    })
  })

  test('has the name of its client, if the server knows it', () => {
    const { calls, receive } = useCalls()
    const order = { type: 'tool/call', name: 'change', args: {}, definition_hash: 'h', deadline: 0 } as const
    calls.receive({ ...order, call_id: '1', client_name: 'Tea Assistant' })
    receive('2', 'change')
    expect(calls.waiting.map(({ client }) => client)).toEqual(['Tea Assistant', undefined])
  })

  test('that is cancelled after the user allowed it does not run, and the user is told', () => {
    const { calls, receive, confirm, ran, withdrawn } = useCalls()
    receive('1', 'change')
    calls.decide('1', 'once')
    calls.cancel('1', 'The call has ended')
    confirm()
    calls.confirm('1')
    expect([ran, withdrawn]).toEqual([[], ['1: The call has ended']])
  })

  test.each([
    ['asking', undefined],
    ['allowed', 'once'],
  ] as const)('that is resent after a drop while it is %s sends its state again', (state, decision) => {
    const { calls, receive, approvals } = useCalls()
    receive('1', 'change')
    if (decision) calls.decide('1', decision)
    const before = approvals().length
    receive('1', 'change')
    expect(approvals().slice(before)).toEqual([`1 ${state}`])
  })

  test('replaces a waiting call that the client repeats', () => {
    const { calls, receive, confirm, waiting, results, ran, withdrawn } = useCalls()
    receive('1', 'change', 'h', { sum: 5 })
    receive('2', 'change', 'h', { sum: 5 })
    expect(waiting()).toEqual(['2'])
    expect(results()).toMatchObject([{ call_id: '1', error: { code: 'replaced' } }])
    expect(withdrawn).toEqual(['1: It repeated the call'])
    calls.decide('1', 'once')
    calls.decide('2', 'once')
    confirm()
    expect(ran).toEqual(['2'])
  })

  test('with another input or of another client waits in addition to the first', () => {
    const { calls, receive, waiting } = useCalls()
    receive('1', 'change', 'h', { sum: 5 })
    receive('2', 'change', 'h', { sum: 6 })
    const order = { type: 'tool/call', name: 'change', args: { sum: 5 }, definition_hash: 'h', deadline: 0 } as const
    calls.receive({ ...order, call_id: '3', client_name: 'Tea Assistant' })
    expect(waiting()).toEqual(['1', '2', '3'])
  })

  test('that the user has allowed before is marked as repeated', () => {
    const { calls, receive, confirm } = useCalls()
    receive('1', 'change')
    expect(calls.waiting[0]?.isRepeated).toBe(false)
    calls.decide('1', 'once')
    confirm()
    receive('2', 'change')
    expect(calls.waiting[0]?.isRepeated).toBe(true)
  })
})

describe('an approval', () => {
  test('for once applies to one call', () => {
    const { calls, receive, confirm, states } = useCalls()
    receive('1', 'change')
    calls.decide('1', 'once')
    confirm()
    receive('2', 'change')
    expect(states()).toEqual({ 1: 'running', 2: 'asking' })
  })

  test('for always applies to waiting and future calls', () => {
    const { calls, receive, confirm, states, ran } = useCalls()
    receive('1', 'change', 'h', { n: 1 })
    receive('2', 'change', 'h', { n: 2 })
    calls.decide('1', 'always')
    confirm()
    receive('3', 'change')
    expect([states(), ran]).toEqual([{ 1: 'running', 2: 'running', 3: 'running' }, ['1', '2', '3']])
  })

  test('for always is listed, and needed again once it is revoked', () => {
    const { calls, receive, confirm, states } = useCalls()
    receive('1', 'change')
    calls.decide('1', 'once')
    expect(calls.permissions).toEqual([])
    receive('2', 'change')
    calls.decide('2', 'always')
    expect(calls.permissions).toEqual([{ subject: expect.any(String), tool: change, connector: undefined }])
    calls.revoke(String(calls.permissions[0]?.subject))
    expect(calls.permissions).toEqual([])
    confirm()
    receive('3', 'change')
    expect(states()).toEqual({ 1: 'running', 2: 'running', 3: 'asking' })
  })

  test.each([
    ['the page changed the tool', { ...change, description: 'Changes more' }, 'h'],
    ['the server has another definition', change, 'other'],
  ])('is needed again when %s', (_, changed, hash) => {
    const { calls, receive, confirm, tools, states } = useCalls()
    receive('1', 'change')
    calls.decide('1', 'always')
    confirm()
    tools.splice(0, 2, changed)
    receive('2', 'change', hash)
    expect(states()).toEqual({ 1: 'running', 2: 'asking' })
  })
})

describe('a question about a tool at a tool server', () => {
  const question = (call_id: string, changes: object = {}) =>
    ({
      type: 'tool/ask',
      call_id,
      connector: { name: 'crm', origin: 'https://crm.example' },
      tool: { name: 'crm.pay', title: 'Pay', description: 'Pays' },
      args: { sum: 5 },
      definition_hash: 'h',
      deadline: 0,
      ...changes,
    }) as const

  test('is answered when the user allows it, and nothing runs in the page', () => {
    const { calls, confirm, states, waiting, approvals, results } = useCalls()
    calls.receiveQuestion(question('1'))
    expect([states(), waiting()]).toEqual([{ 1: 'asking' }, ['1']])
    calls.decide('1', 'once')
    confirm()
    expect([states(), approvals(), results()]).toEqual([{ 1: 'done' }, ['1 asking', '1 allowed'], []])
  })

  test('is declined, withdrawn and replaced like any other', () => {
    const { calls, results, withdrawn } = useCalls()
    calls.receiveQuestion(question('1'))
    calls.receiveQuestion(question('2'))
    calls.cancel('2', 'The client disconnected')
    calls.receiveQuestion(question('3'))
    calls.decide('3', 'no')
    expect(results()).toMatchObject([
      { call_id: '1', error: { code: 'replaced' } },
      { call_id: '3', error: { code: 'declined' } },
    ])
    expect(withdrawn).toEqual(['1: It repeated the call', '2: The client disconnected'])
  })

  test('cannot be answered by the page', () => {
    const { calls, states, results, approvals } = useCalls()
    calls.receiveQuestion(question('1'))
    calls.finish('1', '"allowed"')
    calls.fail('1', 'Boom')
    expect([states(), results(), approvals()]).toEqual([{ 1: 'asking' }, [], ['1 asking']])
    calls.decide('1', 'once')
    calls.finish('1', '"allowed"')
    expect([states(), results()]).toEqual([{ 1: 'allowed' }, []])
  })

  test('is answered immediately if the user always allows it, for this definition of this connector’s tool', () => {
    const { calls, states, waiting } = useCalls()
    calls.receiveQuestion(question('1'))
    calls.decide('1', 'always')
    calls.receiveQuestion(question('2', { args: { sum: 6 } }))
    expect([states(), waiting()]).toEqual([{ 1: 'allowed', 2: 'allowed' }, []])
    calls.receiveQuestion(question('3', { definition_hash: 'other' }))
    calls.receiveQuestion(question('4', { connector: { name: 'crm', origin: 'https://other.example' } }))
    expect(waiting()).toEqual(['3', '4'])
    calls.revoke(String(calls.permissions[0]?.subject))
    calls.receiveQuestion(question('5', { args: { sum: 7 } }))
    expect(waiting()).toEqual(['3', '4', '5'])
  })
})

test('a new session starts empty: running calls stop, questions end, and approvals are dropped', () => {
  const { calls, receive, confirm, states, stopped, waiting } = useCalls()
  receive('1', 'change')
  calls.decide('1', 'always')
  confirm()
  receive('2', 'look')
  calls.finish('2', '1')
  receive('3', 'change', 'other')
  const [asked] = calls.waiting
  calls.startOver()
  expect([calls.list, stopped, waiting(), calls.permissions]).toEqual([[], ['1'], [], []])
  expect(asked).toMatchObject({ id: '3', state: 'cancelled' })
  receive('4', 'change')
  expect(states()).toEqual({ 4: 'asking' })
})

test('drops old calls, but not those in progress', () => {
  const { calls, receive, waiting } = useCalls()
  receive('waiting', 'change')
  for (let n = 0; n < 500; n++) {
    receive(String(n), 'look')
    calls.finish(String(n), '1')
  }
  expect([calls.list.length, waiting()]).toEqual([200, ['waiting']])
})

test.each([
  ['{"a":[1]}', { a: [1] }],
  ['"text"', 'text'],
  ['plain text', 'plain text'],
  ['{broken', '{broken'],
  ['undefined', null],
  ['', ''],
])("a page's result %j is sent as %j", (text, value) => {
  expect(readResult(text)).toEqual(value)
})

describe('earlier calls', () => {
  const recorded = { at: 5, name: 'look', outcome: 'succeeded' as const }

  test.each([
    [{ outcome: 'succeeded' }, { state: 'done' }],
    [{ outcome: 'tool_error' }, { state: 'failed' }],
    [{ outcome: 'failed', failure_code: 'SOURCE_GONE' }, { state: 'failed' }],
    [{ outcome: 'timed_out' }, { state: 'failed', message: 'It timed out' }],
    [{ outcome: 'cancelled' }, { state: 'cancelled' }],
    [{ outcome: 'refused', failure_code: 'DECLINED' }, { state: 'declined' }],
    [{ outcome: 'refused' }, { state: 'failed', message: 'Your organization doesn’t allow it' }],
  ] as const)('show %j as %j', (outcome, shown) => {
    const { calls } = useCalls()
    calls.remember([{ ...recorded, call_id: '1', client_name: 'Ann’s', ...outcome }])
    expect(calls.earlier.map(describeEarlierCall)).toEqual([
      { id: '1', name: 'look', client: 'Ann’s', at: new Date(5), ...shown },
    ])
  })

  test('are listed once, even if they are still running here', () => {
    const { calls, receive } = useCalls()
    receive('2', 'look')
    calls.remember(['1', '2'].map((call_id) => ({ ...recorded, call_id })))
    expect(calls.earlier.map(({ call_id }) => call_id)).toEqual(['1'])
  })

  test('are dropped with the session, because the user may have changed', () => {
    const { calls } = useCalls()
    calls.remember([{ ...recorded, call_id: '1' }])
    calls.startOver()
    expect(calls.earlier).toEqual([])
  })
})

describe('a call that was approved before it was sent', () => {
  const order = { type: 'tool/call', name: 'change', args: {}, definition_hash: 'h', deadline: 0 } as const

  test('runs at once, without asking', () => {
    const { calls, states, ran, approvals, results } = useCalls()
    calls.receive({ ...order, call_id: '1', approval_id: 'a' })
    expect([states(), ran, approvals()]).toEqual([{ 1: 'running' }, ['1'], []])
    calls.finish('1', '1')
    expect(results(), 'the server knows how it was approved').toEqual([
      { type: 'tool/result', call_id: '1', result: 1 },
    ])
  })

  test('doesn’t run again when it’s resent', () => {
    const { calls, ran } = useCalls()
    calls.receive({ ...order, call_id: '1', approval_id: 'a' })
    calls.receive({ ...order, call_id: '1', approval_id: 'a' })
    expect(ran).toEqual(['1'])
  })

  test('continues in the next session of the same user, where its result is sent with its receipt', () => {
    const { calls, states, ran, stopped, results, receive } = useCalls()
    calls.receive({ ...order, call_id: '1', approval_id: 'a', receipt: 'r1' })
    calls.receive({ ...order, call_id: '2', approval_id: 'a', receipt: 'r2' })
    receive('3', 'look')
    calls.finish('2', '2')
    calls.startOver(true)
    expect([states(), stopped]).toEqual([{ 1: 'running', 2: 'done' }, ['3']])
    calls.finish('1', '1')
    const [first, second] = [1, 2].map((n) => ({ type: 'tool/result', call_id: `${n}`, result: n, receipt: `r${n}` }))
    expect(results()).toEqual([second, second, first])
    expect(ran, 'nothing runs again').toEqual(['1', '2', '3'])
    calls.startOver()
    expect(states(), 'another user').toEqual({})
  })

  test('is sent again with at most 15 others', () => {
    const { calls, results } = useCalls()
    for (let n = 0; n < 40; n++) {
      calls.receive({ ...order, call_id: `${n}`, approval_id: 'a', receipt: 'r' })
      calls.finish(`${n}`, '1')
    }
    const before = results().length
    calls.startOver(true)
    expect(
      results()
        .slice(before)
        .map((result) => 'call_id' in result && result.call_id),
    ).toEqual(Array.from({ length: 16 }, (_, n) => `${n + 24}`))
  })

  test('isn’t sent again if its result has arrived long before the connection dropped', () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { calls, states, results } = useCalls()
    calls.receive({ ...order, call_id: '1', approval_id: 'a', receipt: 'r1' })
    calls.finish('1', '1')
    vi.advanceTimersByTime(20_000)
    calls.receive({ ...order, call_id: '2', approval_id: 'a', receipt: 'r2' })
    calls.finish('2', '2')
    calls.dropped()
    vi.advanceTimersByTime(60_000)
    calls.startOver(true)
    expect(states()).toEqual({ 2: 'done' })
    expect(results().slice(2)).toMatchObject([{ call_id: '2', receipt: 'r2' }])
  })

  test('is no permission for the next call', () => {
    const { calls, receive, waiting } = useCalls()
    calls.receive({ ...order, call_id: '1', approval_id: 'a' })
    receive('2', 'change')
    expect([waiting(), calls.permissions]).toEqual([['2'], []])
  })
})
