import { HttpAgent } from '@ag-ui/client'
import type { Event, Message } from '@ag-ui/core'
import type { UIMessageChunk } from 'ai'
import { describe, expect, test } from 'vitest'
import type { RunError, RunStatus } from '../../agent/runs/run.ts'
import { Projection } from './projection.ts'
import { readRunRequest } from './request.ts'

const origin = 'https://shop.example'
const ids = { threadId: '01900000-0000-7000-8000-000000000001', runId: 'client-run' }
const publicUrl = 'https://inlay.example'
const hello: Message = { id: 'u1', role: 'user', content: 'Hello' }

const text = (id: string, ...deltas: string[]): UIMessageChunk[] => [
  { type: 'text-start', id },
  ...deltas.map((delta) => ({ type: 'text-delta' as const, id, delta })),
  { type: 'text-end', id },
]
const call = (toolCallId: string, toolName: string, input: object = {}, metadata: object = {}): UIMessageChunk => ({
  type: 'tool-input-available',
  toolCallId,
  toolName,
  input,
  dynamic: true,
  toolMetadata: { kind: 'page', name: toolName, origin, ...metadata },
})
const weather = call('c1', 'weather', { city: 'Bern' })
const clientsWeather = call('c1', 'weather_2', { city: 'Bern' }, { kind: 'client', name: 'weather' })
const result = (toolCallId: string, output: unknown): UIMessageChunk => ({
  type: 'tool-output-available',
  toolCallId,
  output,
})
const ask = (toolCallId: string, reason?: string): UIMessageChunk => ({
  type: 'tool-approval-request',
  toolCallId,
  approvalId: toolCallId,
  ...(reason && { reason }),
})
const decide = (approvalId: string, approved: boolean): UIMessageChunk => ({
  type: 'tool-approval-response',
  approvalId,
  approved,
})
const used = (...usage: { model: string; prompt_tokens: number; completion_tokens: number }[]): UIMessageChunk => ({
  type: 'finish',
  messageMetadata: { usage },
})
const step: UIMessageChunk = { type: 'start-step' }
const endStep: UIMessageChunk = { type: 'finish-step' }

interface Scenario {
  /** The client's messages at the time of the request. */
  view?: Message[]
  /** The log of each attempt, in order. */
  attempts: UIMessageChunk[][]
  rest?: RunStatus
  error?: RunError
  /** Between `RUN_STARTED` and the last event. */
  events: string[]
  last: object
  /** The client's messages in the end. */
  shows: object[]
}

const finished = { type: 'RUN_FINISHED', ...ids }
const success = { ...finished, outcome: { type: 'success' } }
const user = { role: 'user', content: 'Hello' }
const weatherCall = {
  id: 'c1',
  type: 'function' as const,
  function: { name: 'weather', arguments: '{"city":"Bern"}' },
}
const calledWeather = ['TOOL_CALL_START c1 weather in R.1', 'TOOL_CALL_ARGS c1 {"city":"Bern"}', 'TOOL_CALL_END c1']
const askedWeather: Message = { id: 'R.1', role: 'assistant', toolCalls: [weatherCall] }

const scenarios: Record<string, Scenario> = {
  'text becomes a message': {
    attempts: [[{ type: 'start' }, step, ...text('t', 'Hel', 'lo', '!'), endStep, { type: 'finish' }]],
    events: ['TEXT_MESSAGE_START R.1', 'TEXT_MESSAGE_CONTENT R.1 "Hello!"', 'TEXT_MESSAGE_END R.1'],
    last: success,
    shows: [user, { role: 'assistant', content: 'Hello!' }],
  },
  'text without content adds no message': {
    attempts: [[step, ...text('t', ''), endStep]],
    events: [],
    last: success,
    shows: [user],
  },
  'every step has its own message, with its calls': {
    attempts: [
      [
        step,
        ...text('a', 'Let me look.'),
        weather,
        result('c1', { sky: 'blue' }),
        endStep,
        step,
        ...text('b', 'Blue.'),
        endStep,
      ],
    ],
    events: [
      'TEXT_MESSAGE_START R.1',
      'TEXT_MESSAGE_CONTENT R.1 "Let me look."',
      'TEXT_MESSAGE_END R.1',
      ...calledWeather,
      'TOOL_CALL_RESULT c1 {"sky":"blue"}',
      'TEXT_MESSAGE_START R.2',
      'TEXT_MESSAGE_CONTENT R.2 "Blue."',
      'TEXT_MESSAGE_END R.2',
    ],
    last: success,
    shows: [
      user,
      { role: 'assistant', content: 'Let me look.', toolCalls: [weatherCall] },
      { role: 'tool', toolCallId: 'c1', content: '{"sky":"blue"}' },
      { role: 'assistant', content: 'Blue.' },
    ],
  },
  'parallel calls share a message': {
    attempts: [
      [
        step,
        weather,
        call('c2', 'time'),
        { type: 'tool-output-error', toolCallId: 'c2', errorText: 'No clock' },
        result('c1', 'blue'),
        endStep,
      ],
    ],
    events: [
      ...calledWeather,
      'TOOL_CALL_START c2 time in R.1',
      'TOOL_CALL_ARGS c2 {}',
      'TOOL_CALL_END c2',
      'TOOL_CALL_RESULT c2 No clock',
      'TOOL_CALL_RESULT c1 blue',
    ],
    last: success,
    shows: [
      user,
      {
        role: 'assistant',
        toolCalls: [weatherCall, { id: 'c2', type: 'function', function: { name: 'time', arguments: '{}' } }],
      },
      { role: 'tool', toolCallId: 'c2', content: 'No clock' },
      { role: 'tool', toolCallId: 'c1', content: 'blue' },
    ],
  },
  'questions become interrupts': {
    attempts: [
      [
        step,
        weather,
        call('c2', 'time'),
        call('c3', 'mail', {}, { kind: 'connector', origin: 'https://mail.example' }),
        ask('c1', 'It changes the sky.'),
        ask('c2'),
        ask('c3', 'It sends an email.'),
      ],
    ],
    rest: 'waiting',
    events: [
      ...calledWeather,
      'TOOL_CALL_START c2 time in R.1',
      'TOOL_CALL_ARGS c2 {}',
      'TOOL_CALL_END c2',
      'TOOL_CALL_START c3 mail in R.1',
      'TOOL_CALL_ARGS c3 {}',
      'TOOL_CALL_END c3',
    ],
    last: {
      ...finished,
      outcome: {
        type: 'interrupt',
        interrupts: [
          {
            id: 'c1',
            reason: 'approval',
            message: 'It changes the sky.',
            toolCallId: 'c1',
            responseSchema: expect.objectContaining({ required: ['approved'] }),
          },
          expect.objectContaining({ id: 'c2', message: 'The agent wants to use time.' }),
          expect.objectContaining({ id: 'c3', message: 'It sends an email. Approve it in the agent’s panel.' }),
        ],
      },
    },
    shows: [user, { role: 'assistant', toolCalls: [{ id: 'c1' }, { id: 'c2' }, { id: 'c3' }] }],
  },
  'after a question is answered, only the rest is sent': {
    view: [hello, { ...askedWeather, content: 'Let me look.' }],
    attempts: [
      [step, ...text('a', 'Let me look.'), weather, ask('c1')],
      [
        step,
        ...text('a', 'Let me look.'),
        weather,
        ask('c1'),
        decide('c1', true),
        result('c1', 'blue'),
        endStep,
        step,
        ...text('b', 'Blue.'),
        endStep,
      ],
    ],
    events: [
      'TOOL_CALL_RESULT c1 blue',
      'TEXT_MESSAGE_START R.2',
      'TEXT_MESSAGE_CONTENT R.2 "Blue."',
      'TEXT_MESSAGE_END R.2',
    ],
    last: success,
    shows: [
      user,
      { role: 'assistant', content: 'Let me look.', toolCalls: [weatherCall] },
      { role: 'tool', content: 'blue' },
      { role: 'assistant', content: 'Blue.' },
    ],
  },
  'a declined call has a result that says so': {
    view: [hello, askedWeather],
    attempts: [
      [step, weather, ask('c1')],
      [step, weather, ask('c1'), decide('c1', false), { type: 'tool-output-denied', toolCallId: 'c1' }],
    ],
    events: ['TOOL_CALL_RESULT c1 The user declined the call. Nothing was done.'],
    last: success,
    shows: [user, { role: 'assistant' }, { role: 'tool', content: 'The user declined the call. Nothing was done.' }],
  },
  'a frontend tool ends the run with its pending call, under its own name': {
    attempts: [[step, clientsWeather]],
    rest: 'waiting',
    events: calledWeather,
    last: { ...finished, outcome: { type: 'success', pendingToolCallIds: ['c1'] } },
    shows: [user, { role: 'assistant', toolCalls: [weatherCall] }],
  },
  'a frontend tool that the user has to approve is pending after that': {
    view: [hello, askedWeather],
    attempts: [
      [step, clientsWeather, ask('c1')],
      [step, clientsWeather, ask('c1'), decide('c1', true)],
    ],
    rest: 'waiting',
    events: [],
    last: { ...finished, outcome: { type: 'success', pendingToolCallIds: ['c1'] } },
    shows: [user, { role: 'assistant', toolCalls: [weatherCall] }],
  },
  'the client’s own result isn’t repeated': {
    view: [hello, askedWeather, { id: 'x', role: 'tool', toolCallId: 'c1', content: 'blue' }],
    attempts: [
      [step, clientsWeather],
      [step, clientsWeather, result('c1', 'blue'), endStep, step, ...text('b', 'Blue.')],
    ],
    events: ['TEXT_MESSAGE_START R.2', 'TEXT_MESSAGE_CONTENT R.2 "Blue."', 'TEXT_MESSAGE_END R.2'],
    last: success,
    shows: [
      user,
      { role: 'assistant', toolCalls: [weatherCall] },
      { id: 'x', content: 'blue' },
      { role: 'assistant', content: 'Blue.' },
    ],
  },
  'a client that reattaches gets the rest of the text and of the arguments': {
    view: [
      hello,
      { id: 'R.1', role: 'assistant', content: 'Let me lo' },
      {
        id: 'R.2',
        role: 'assistant',
        toolCalls: [{ ...weatherCall, function: { name: 'weather', arguments: '{"ci' } }],
      },
    ],
    attempts: [[step, ...text('a', 'Let me', ' look.'), endStep, step, weather, result('c1', '')]],
    events: [
      'TEXT_MESSAGE_START R.1',
      'TEXT_MESSAGE_CONTENT R.1 "ok."',
      'TEXT_MESSAGE_END R.1',
      'TOOL_CALL_START c1 weather in R.2',
      'TOOL_CALL_ARGS c1 ty":"Bern"}',
      'TOOL_CALL_END c1',
      'TOOL_CALL_RESULT c1 ',
    ],
    last: success,
    shows: [
      user,
      { role: 'assistant', content: 'Let me look.' },
      { role: 'assistant', toolCalls: [weatherCall] },
      { role: 'tool', content: '' },
    ],
  },
  'a failed run is an error with its message': {
    attempts: [[step, ...text('a', 'I th').slice(0, -1), { type: 'error', errorText: 'The budget is used up.' }]],
    rest: 'failed',
    error: { code: 'BUDGET_REACHED', message: 'The budget is used up.' },
    events: ['TEXT_MESSAGE_START R.1', 'TEXT_MESSAGE_CONTENT R.1 "I th"', 'TEXT_MESSAGE_END R.1'],
    last: { type: 'RUN_ERROR', code: 'BUDGET_REACHED', message: 'The budget is used up.' },
    shows: [user, { role: 'assistant', content: 'I th' }],
  },
  'a stopped run is cancelled': {
    attempts: [[step, ...text('a', 'I th').slice(0, -1), { type: 'abort' }]],
    rest: 'stopped',
    events: ['TEXT_MESSAGE_START R.1', 'TEXT_MESSAGE_CONTENT R.1 "I th"', 'TEXT_MESSAGE_END R.1'],
    last: { ...finished, outcome: { type: 'cancelled' } },
    shows: [user, { role: 'assistant', content: 'I th' }],
  },
  'usage is reported for each model': {
    attempts: [
      [
        step,
        ...text('a', 'Hi'),
        used(
          { model: 'a', prompt_tokens: 1, completion_tokens: 2 },
          { model: 'b', prompt_tokens: 3, completion_tokens: 4 },
        ),
      ],
    ],
    events: ['TEXT_MESSAGE_START R.1', 'TEXT_MESSAGE_CONTENT R.1 "Hi"', 'TEXT_MESSAGE_END R.1'],
    last: {
      ...success,
      usage: [
        { model: 'a', inputTokens: 1, outputTokens: 2, totalTokens: 3 },
        { model: 'b', inputTokens: 3, outputTokens: 4, totalTokens: 7 },
      ],
    },
    shows: [user, { content: 'Hi' }],
  },
  'a new attempt replaces the text of the old one': {
    attempts: [
      [
        step,
        ...text('a', 'Let me look.'),
        weather,
        result('c1', 'blue'),
        endStep,
        step,
        ...text('b', 'Gr').slice(0, -1),
      ],
      [step, ...text('a', 'Let me look.'), weather, result('c1', 'blue'), endStep, step, ...text('b', 'Blue.')],
    ],
    events: [
      'TEXT_MESSAGE_START R.1',
      'TEXT_MESSAGE_CONTENT R.1 "Let me look."',
      'TEXT_MESSAGE_END R.1',
      ...calledWeather,
      'TOOL_CALL_RESULT c1 blue',
      'TEXT_MESSAGE_START R.2',
      'TEXT_MESSAGE_CONTENT R.2 "Gr"',
      'TEXT_MESSAGE_END R.2',
      'MESSAGES_SNAPSHOT u1',
      'TEXT_MESSAGE_START R.1',
      'TEXT_MESSAGE_CONTENT R.1 "Let me look."',
      'TEXT_MESSAGE_END R.1',
      ...calledWeather,
      'TOOL_CALL_RESULT c1 blue',
      'TEXT_MESSAGE_START R.2',
      'TEXT_MESSAGE_CONTENT R.2 "Blue."',
      'TEXT_MESSAGE_END R.2',
    ],
    last: success,
    shows: [
      user,
      { role: 'assistant', content: 'Let me look.', toolCalls: [weatherCall] },
      { role: 'tool', content: 'blue' },
      { role: 'assistant', content: 'Blue.' },
    ],
  },
  'a new attempt replaces text that the client has from an earlier request': {
    view: [
      hello,
      askedWeather,
      { id: 'x', role: 'tool', toolCallId: 'c1', content: 'blue' },
      { id: 'R.2', role: 'assistant', content: 'Gr' },
    ],
    attempts: [[], [step, clientsWeather, result('c1', 'blue'), endStep, step, ...text('b', 'Blue.')]],
    events: [
      'MESSAGES_SNAPSHOT u1',
      ...calledWeather,
      'TOOL_CALL_RESULT c1 blue',
      'TEXT_MESSAGE_START R.2',
      'TEXT_MESSAGE_CONTENT R.2 "Blue."',
      'TEXT_MESSAGE_END R.2',
    ],
    last: success,
    shows: [
      user,
      { role: 'assistant', toolCalls: [weatherCall] },
      { role: 'tool', content: 'blue' },
      { role: 'assistant', content: 'Blue.' },
    ],
  },
}

describe.each(Object.entries(scenarios))('%s', (_, scenario) => {
  const { view = [hello], events, last, shows } = scenario

  test('in one batch per attempt', async () => {
    const sent = project(scenario, (chunks) => [chunks])
    expect(sent[0]).toEqual({ type: 'RUN_STARTED', ...ids, protocolVersion: '1.0' })
    expect(sent.slice(1, -1).map(describeEvent)).toEqual(events)
    expect(sent.at(-1)).toEqual(last)
    expect(await show(view, sent)).toMatchObject(shows)
  })

  test('chunk by chunk', async () => {
    const sent = project(scenario, (chunks) => chunks.map((chunk) => [chunk]))
    expect(await show(view, sent)).toMatchObject(shows)
  })
})

test('chunks of an older attempt are ignored', () => {
  const projection = new Projection({ ...ids, publicUrl, view: [], origin })
  projection.take({ id: 'R', attempt: 2 }, 0, [step])
  expect(projection.take({ id: 'R', attempt: 1 }, 0, text('a', 'old'))).toEqual([])
})

test('a log that is read from the rows continues in other chunks', () => {
  const projection = new Projection({ ...ids, publicUrl, view: [], origin })
  const run = { id: 'R', attempt: 1 }
  projection.take(run, 0, [step, ...text('a', 'He', 'll', 'o ', 'th', 'er').slice(0, -1)])
  const events = projection.take(run, 0, [step, ...text('a', 'Hello there.'), endStep])
  expect(events.map(describeEvent)).toEqual([
    'TEXT_MESSAGE_END R.1',
    'TEXT_MESSAGE_START R.1',
    'TEXT_MESSAGE_CONTENT R.1 "e."',
    'TEXT_MESSAGE_END R.1',
  ])
})

test('a failure of the server ends what is open', () => {
  const projection = new Projection({ ...ids, publicUrl, view: [], origin })
  projection.take({ id: 'R', attempt: 1 }, 0, text('a', 'Hi').slice(0, 2))
  expect(projection.fail('SERVER_RESTARTING', 'The server restarts.').map(describeEvent)).toEqual([
    'TEXT_MESSAGE_END R.1',
    'RUN_ERROR The server restarts.',
  ])
})

/** Takes every batch twice, because a node may repeat chunks. */
function project(
  { view = [hello], attempts, rest = 'succeeded', error }: Scenario,
  split: (chunks: UIMessageChunk[]) => UIMessageChunk[][],
): Event[] {
  const request = readRunRequest({ ...ids, messages: view })
  const projection = new Projection({ ...ids, publicUrl, view: request.view, origin })
  const events = [...projection.start()]
  for (const [index, chunks] of attempts.entries()) {
    const run = { id: 'R', attempt: index + 1 }
    let n = 0
    for (const batch of chunks.length > 0 ? split(chunks) : []) {
      events.push(...projection.take(run, n, batch), ...projection.take(run, n, batch))
      n += batch.length
    }
  }
  return [...events, ...projection.end(rest, error ?? null)]
}

/** Gives the events to AG-UI's own client, and returns the messages that it has in the end. */
async function show(view: Message[], events: Event[]): Promise<Message[]> {
  const body = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
  const agent = new HttpAgent({
    url: 'http://agent.test/ag-ui',
    threadId: ids.threadId,
    initialMessages: view,
    fetch: async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } }),
  })
  await agent.runAgent({ runId: ids.runId })
  return agent.messages
}

/** One line per event. */
function describeEvent(event: Event): string {
  switch (event.type) {
    case 'TEXT_MESSAGE_CONTENT':
      return `${event.type} ${event.messageId} ${JSON.stringify(event.delta)}`
    case 'TEXT_MESSAGE_START':
    case 'TEXT_MESSAGE_END':
      return `${event.type} ${event.messageId}`
    case 'TOOL_CALL_START':
      return `${event.type} ${event.toolCallId} ${event.toolCallName} in ${event.parentMessageId}`
    case 'TOOL_CALL_ARGS':
      return `${event.type} ${event.toolCallId} ${event.delta}`
    case 'TOOL_CALL_END':
      return `${event.type} ${event.toolCallId}`
    case 'TOOL_CALL_RESULT':
      return `${event.type} ${event.toolCallId} ${event.content}`
    case 'MESSAGES_SNAPSHOT':
      return `${event.type} ${event.messages.map(({ id }) => id).join(' ')}`
    case 'RUN_ERROR':
      return `${event.type} ${event.message}`
    default:
      return event.type
  }
}
