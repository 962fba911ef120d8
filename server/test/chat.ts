import { randomUUID } from 'node:crypto'
import type { ServerMessage } from '@inlay/protocol'
import type { Page } from './page.ts'

type Of<Type extends ServerMessage['type']> = ServerMessage & { type: Type }

/** A call as a client shows it. */
export interface ShownCall {
  id: string
  name: string
  input: unknown
  question: string | undefined
  answer: boolean | undefined
  output: unknown
  error: string | undefined
}

/** The agent's message as a client shows it. */
export interface ShownRun {
  attempt: number
  n: number
  texts: string[]
  calls: ShownCall[]
  steering: string[]
  end: Of<'chat/end'> | undefined
}

/** The agent's conversation in a page without a widget. */
export interface ChatPage {
  thread: string
  /** Writes to the agent, and returns the id of the run. */
  say(text: string, more?: { trigger?: 'edit-message'; id?: string; skill?: string }): Promise<string>
  request<Type extends ServerMessage['type']>(
    message: Record<string, unknown> & { type: `chat/${string}` },
    response: Type,
  ): Promise<Of<Type>>
  /** Fails with the error instead of a response. */
  refusal(message: Record<string, unknown> & { type: `chat/${string}` }): Promise<Of<'chat/error'>>
  run(id: string): ShownRun
  /** Waits until the run rests. */
  rest(id: string, status?: string): Promise<ShownRun>
  /** Waits until the run has this text. */
  until(id: string, condition: (run: ShownRun) => boolean): Promise<ShownRun>
}

/** What a client shows of its runs: in order, without chunks of lower attempts. */
export interface Transcript {
  run(id: string): ShownRun
  read(message: ServerMessage): void
}

export function createTranscript(): Transcript {
  const runs = new Map<string, ShownRun>()
  const run = (id: string): ShownRun => {
    const known = runs.get(id) ?? { attempt: 0, n: 0, texts: [], calls: [], steering: [], end: undefined }
    runs.set(id, known)
    return known
  }
  return {
    run,
    read(message) {
      if (message.type === 'chat/chunk') show(run(message.run_id), message)
      if (message.type === 'chat/end' && message.attempt >= run(message.run_id).attempt) {
        run(message.run_id).end = message
      }
    },
  }
}

/** Follows a thread like a client. A client that loads its page again begins with what it has. */
export function openChat(page: Page, thread: string = randomUUID(), transcript = createTranscript()): ChatPage {
  const waiting = new Set<() => void>()
  const { run } = transcript
  page.socket.on('message', (data) => {
    const message = JSON.parse(String(data)) as ServerMessage
    transcript.read(message)
    if ('request_id' in message && message.type !== 'chat/message-part') asked.get(message.request_id)?.(message)
    for (const check of waiting) check()
  })
  const until = (id: string, condition: (shown: ShownRun) => boolean) =>
    new Promise<ShownRun>((resolve) => {
      const check = () => {
        if (!condition(run(id))) return
        waiting.delete(check)
        resolve(run(id))
      }
      waiting.add(check)
      check()
    })
  const asked = new Map<string, (response: ServerMessage) => void>()
  const ask = (message: Record<string, unknown>) =>
    new Promise<ServerMessage>((resolve) => {
      const request_id = randomUUID()
      asked.set(request_id, resolve)
      page.send({ request_id, ...message } as never)
    })
  const request: ChatPage['request'] = async (message, type) => {
    const response = await ask(message)
    if (response.type === 'chat/error') throw new Error(`${response.code}: ${response.message}`)
    if (response.type !== type) throw new Error(`Got ${response.type} instead of ${type}`)
    return response as never
  }
  return {
    thread,
    request,
    async refusal(message) {
      const response = await ask(message)
      if (response.type !== 'chat/error') throw new Error(`Got ${response.type} instead of an error`)
      return response
    },
    async say(text, { trigger, id = randomUUID(), skill } = {}) {
      const message = { id, text, ...(skill && { skill }) }
      const start = { type: 'chat/send' as const, thread_id: thread, message, ...(trigger && { trigger }) }
      return (await request(start, 'chat/start')).run_id
    },
    run,
    until,
    rest: (id, status) => until(id, ({ end }) => end !== undefined && (status === undefined || end.status === status)),
  }
}

function show(run: ShownRun, { attempt, n, chunks }: Of<'chat/chunk'>): void {
  if (attempt < run.attempt) return
  if (n === 0) Object.assign(run, { attempt, n: 0, texts: [], calls: [], steering: [], end: undefined })
  if (attempt !== run.attempt || n > run.n) throw new Error(`Chunks are missing: has ${run.n}, got ${n}`)
  for (const chunk of chunks.slice(run.n - n)) add(run, chunk as Record<string, never>)
  run.n = Math.max(run.n, n + chunks.length)
}

function add(run: ShownRun, chunk: Record<string, string> & { input?: unknown; output?: unknown; approved?: boolean }) {
  const call = run.calls.find(({ id }) => id === (chunk.toolCallId ?? chunk.approvalId))
  switch (chunk.type) {
    case 'text-start':
      run.texts.push('')
      break
    case 'text-delta':
      run.texts.push((run.texts.pop() ?? '') + chunk.delta)
      break
    case 'steering-message':
      run.steering.push((chunk as unknown as { parts: { text: string }[] }).parts[0]?.text ?? '')
      break
    case 'tool-input-available':
      run.calls.push({
        id: chunk.toolCallId ?? '',
        name: chunk.toolName ?? '',
        input: chunk.input,
        question: undefined,
        answer: undefined,
        output: undefined,
        error: undefined,
      })
      break
    case 'tool-approval-request':
      if (call) call.question = chunk.reason ?? ''
      break
    case 'tool-approval-response':
      if (call) call.answer = chunk.approved
      break
    case 'tool-output-available':
      if (call) call.output = chunk.output
      break
    case 'tool-output-error':
      if (call) call.error = chunk.errorText
      break
    case 'tool-output-denied':
      if (call) call.error = 'denied'
  }
}
