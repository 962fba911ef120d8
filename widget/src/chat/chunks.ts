import type { AgentEntry, EntryPart, ToolEntryPart } from './state.ts'

/** A `UIMessageChunk` of the AI SDK. Newer servers may send types and fields that aren't known here. */
export type Chunk = Readonly<Record<string, unknown>>

/** The parts of a run's message after more of its chunks. Parts without a change stay the same objects. */
export function addChunks(parts: readonly EntryPart[], chunks: readonly Chunk[], pageOrigin: string): EntryPart[] {
  const next = [...parts]
  for (const chunk of chunks) addChunk(next, chunk, pageOrigin)
  return next
}

/** IDs of the user's messages that entered during the run. */
export const steeringIds = (parts: readonly EntryPart[]): string[] =>
  parts.flatMap((part) => (part.kind === 'steering' ? [part.key] : []))

/** The run has ended: nothing streams, runs or asks anymore. */
export const closeParts = (parts: readonly EntryPart[], status: AgentEntry['status']): EntryPart[] =>
  parts.map((part) => {
    if (part.kind === 'text' && part.isStreaming) return { ...part, isStreaming: false }
    if (part.kind === 'tool' && (part.state === 'running' || part.state === 'asking'))
      return { ...part, state: status === 'stopped' ? 'stopped' : 'failed', inputSchema: undefined }
    return part
  })

function addChunk(parts: EntryPart[], chunk: Chunk, pageOrigin: string): void {
  const changeCall = (id: unknown, change: (call: ToolEntryPart) => Partial<ToolEntryPart>) => {
    const index = parts.findLastIndex((part) => part.kind === 'tool' && part.callId === id)
    const call = parts[index]
    if (call?.kind === 'tool') parts[index] = { ...call, ...change(call) }
  }
  const changeText = (id: unknown, change: (text: string) => { text?: string; isStreaming: boolean }) => {
    const index = parts.findLastIndex((part) => part.kind === 'text' && part.key === id)
    const part = parts[index]
    if (part?.kind === 'text') parts[index] = { ...part, ...change(part.text) }
  }
  const data = toRecord(chunk.data)
  switch (chunk.type) {
    case 'text-start':
      parts.push({ kind: 'text', key: toText(chunk.id), text: '', isStreaming: true })
      break
    case 'text-delta':
      changeText(chunk.id, (text) => ({ text: text + toText(chunk.delta), isStreaming: true }))
      break
    case 'text-end':
      changeText(chunk.id, () => ({ isStreaming: false }))
      break
    case 'steering-message':
      parts.push({ kind: 'steering', key: toText(chunk.id), text: readSteering(chunk.parts) })
      break
    case 'tool-input-available':
      parts.push(describeCall(chunk, pageOrigin))
      break
    case 'data-question':
      changeCall(chunk.id, () => ({ inputSchema: toRecord(data.inputSchema) }))
      break
    case 'data-reason':
      changeCall(chunk.id, () => ({ reasonData: data }))
      break
    case 'tool-approval-request':
      changeCall(chunk.toolCallId, () => ({
        state: 'asking',
        reason: typeof chunk.reason === 'string' ? chunk.reason : null,
      }))
      break
    case 'tool-approval-response':
      changeCall(chunk.approvalId, () => ({
        state: chunk.approved === true ? 'running' : 'declined',
        inputSchema: undefined,
      }))
      break
    case 'data-edited-arguments':
      changeCall(chunk.id, () => ({ editedInput: data }))
      break
    case 'tool-output-available':
      changeCall(chunk.toolCallId, () => ({ state: 'done', inputSchema: undefined, output: toOutput(chunk.output) }))
      break
    case 'tool-output-error':
      changeCall(chunk.toolCallId, ({ reasonData }) => ({
        state: reasonData.code === 'STOPPED' ? 'stopped' : 'failed',
        inputSchema: undefined,
        error: toText(chunk.errorText),
      }))
      break
    case 'tool-output-denied':
      changeCall(chunk.toolCallId, () => ({ state: 'declined', inputSchema: undefined }))
      break
    case 'data-connect':
      changeCall(chunk.id, () => ({ connect: readConnect(data) }))
      break
    case 'data-timing':
      changeCall(chunk.id, () => ({ durationMs: typeof data.durationMs === 'number' ? data.durationMs : null }))
      break
    case 'data-notice':
      parts.push({ kind: 'notice', key: `notice-${parts.length}`, text: toText(data.text) })
      break
    case 'data-skill':
      parts.push({
        kind: 'skill',
        key: `skill-${parts.length}`,
        name: toText(data.name),
        tokens: typeof data.tokens === 'number' ? data.tokens : 0,
      })
      break
    case 'data-summary':
      parts.push({ kind: 'summary', key: `summary-${parts.length}` })
  }
}

function describeCall(chunk: Chunk, pageOrigin: string): ToolEntryPart {
  const { kind, name, title, origin, connector } = toRecord(chunk.toolMetadata)
  const callId = toText(chunk.toolCallId)
  const ownName = toText(name) || toText(chunk.toolName)
  const source = toText(origin) || null
  const call: ToolEntryPart = {
    kind: 'tool',
    key: callId,
    callId,
    name: ownName,
    title: toText(title) || null,
    place: 'unknown',
    source,
    input: toRecord(chunk.input),
    editedInput: undefined,
    inputSchema: undefined,
    state: 'running',
    reason: null,
    reasonData: {},
    output: null,
    error: null,
    durationMs: null,
    connect: undefined,
  }
  if (kind === 'page') return { ...call, place: source === pageOrigin ? 'page' : 'tab' }
  if (kind === 'built_in') return { ...call, place: 'built-in' }
  if (kind === 'client') return { ...call, place: 'client' }
  if (kind !== 'connector') return call
  // `name` is `<connector>.<tool>`.
  const dot = ownName.indexOf('.')
  return {
    ...call,
    place: 'connector',
    name: ownName.slice(dot + 1),
    source: toText(connector) || ownName.slice(0, dot),
  }
}

/** The path must be one of our own pages, because the user follows it. */
function readConnect({ connector, path }: Record<string, unknown>): ToolEntryPart['connect'] {
  const isOurs = /^\/connect\/agent\/[\w.-]+$/.test(toText(path))
  return isOurs ? { service: toText(connector), path: toText(path) } : undefined
}

const toText = (value: unknown): string => (typeof value === 'string' ? value : '')

const toRecord = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}

const toOutput = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')

const readSteering = (parts: unknown): string =>
  Array.isArray(parts) ? parts.map((part) => toText(toRecord(part).text)).join('\n') : ''

/** How much a client has of a run. */
export interface Progress {
  attempt: number
  n: number
}

/** What to do with chunks that arrived. */
type Step =
  | { kind: 'ignore' }
  /** Chunks are missing: ask for the rest. */
  | { kind: 'gap' }
  | { kind: 'add' | 'replace'; chunks: readonly Chunk[]; progress: Progress }

/** The three rules of docs/chat-protocol.md, with which every client ends with the same text. */
export function takeChunks(
  have: Progress | undefined,
  { attempt, n, chunks }: Progress & { chunks: readonly Chunk[] },
): Step {
  if (have && attempt < have.attempt) return { kind: 'ignore' }
  if (n === 0) return { kind: 'replace', chunks, progress: { attempt, n: chunks.length } }
  if (!have || attempt > have.attempt || n > have.n) return { kind: 'gap' }
  const missing = chunks.slice(have.n - n)
  if (missing.length === 0) return { kind: 'ignore' }
  return { kind: 'add', chunks: missing, progress: { attempt, n: have.n + missing.length } }
}
