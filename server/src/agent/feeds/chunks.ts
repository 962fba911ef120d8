import type { UIMessageChunk } from 'ai'
import { beginningOf, shownLength } from '../../kernel/untrusted/long-results.ts'
import type { MessageRow, RunStory } from '../runs/rows.ts'
import type { ToolCallRow } from '../runs/run.ts'

export type Chunk = UIMessageChunk

export const textId = (step: number): string => `text-${step}`

/** The chunks that rebuild a run's message from the beginning, with each text in one piece, unless it is very long. */
export const describeStory = (story: RunStory): Chunk[] => [
  startChunk(story.run.id),
  ...describeSteps(story),
  ...describeEnd(story.run),
]

/** The chunks between a run's first and its last, also of some of its steps. */
export const describeSteps = ({ messages, steps, calls }: Pick<RunStory, 'messages' | 'steps' | 'calls'>): Chunk[] =>
  steps.flatMap(({ step, text, finish_reason }) => {
    const chunks: Chunk[] = messages.filter((message) => message.step === step && step > 1).map(steeringChunk)
    chunks.push({ type: 'start-step' })
    if (text) {
      chunks.push({ type: 'text-start', id: textId(step) }, ...describeText(step, text))
      if (finish_reason !== null) chunks.push({ type: 'text-end', id: textId(step) })
    }
    const own = calls.filter((call) => call.step === step)
    chunks.push(...own.flatMap(describeCall))
    if (finish_reason !== null && own.every(hasEnded)) chunks.push({ type: 'finish-step' })
    return chunks
  })

/** Models can't write longer texts now. */
const mostTextAtOnce = 64 * 1024

function describeText(step: number, text: string): Chunk[] {
  const chunks: Chunk[] = []
  for (let from = 0; from < text.length; from += mostTextAtOnce) {
    chunks.push({ type: 'text-delta', id: textId(step), delta: text.slice(from, from + mostTextAtOnce) })
  }
  return chunks
}

/** The last chunk of a run that has ended. */
export function describeEnd({ status, error }: Pick<RunStory['run'], 'status' | 'error'>): Chunk[] {
  if (status === 'succeeded') return [{ type: 'finish', finishReason: 'stop' }]
  if (status === 'stopped') return [{ type: 'abort' }]
  if (status === 'failed') return [{ type: 'error', errorText: error?.message ?? 'The run failed.' }]
  return []
}

export const startChunk = (runId: string): Chunk => ({ type: 'start', messageId: runId })

/** A message that entered the conversation while the run was going on. */
export const steeringChunk = ({ id, text }: MessageRow): Chunk => ({
  type: 'steering-message',
  id,
  parts: [{ type: 'text', text }],
})

/** Everything that clients show of a call. */
const describeCall = (call: ToolCallRow): Chunk[] => [describeInput(call), ...describeProgress(call)]

export const hasEnded = ({ state }: ToolCallRow): boolean => !['new', 'asking', 'approved', 'running'].includes(state)

export function describeInput(call: ToolCallRow): Chunk {
  const { id, name, args } = call
  const toolMetadata = describeTool(call)
  const input = shownArguments(args)
  return { type: 'tool-input-available', toolCallId: id, toolName: name, input, dynamic: true, toolMetadata }
}

/** Characters of arguments that clients get. Models can't write longer ones now. */
const mostArguments = 256 * 1024

function shownArguments(args: Record<string, unknown>): Record<string, unknown> {
  const { length } = JSON.stringify(args)
  return length <= mostArguments ? args : { '…': `These arguments have ${length} characters, so they are left out.` }
}

/** What clients know about a call beyond the AI SDK's fields. */
const describeTool = ({ tool, name, title }: ToolCallRow) => ({
  kind: tool?.kind ?? 'unknown',
  name: tool?.name ?? name,
  title,
  origin: tool && 'origin' in tool ? tool.origin : null,
  connector: tool?.kind === 'connector' ? tool.connector : null,
  /** The session of the page that offers it. */
  session: tool?.kind === 'page' ? tool.source_id : null,
})

/** The question, the answer and the outcome, as far as the call has come. The list only grows. */
export function describeProgress(call: ToolCallRow): Chunk[] {
  const { id, state, reason, reason_data, asked_at, decision, edited_args, input_schema, dispatched_at, ended_at } =
    call
  const chunks: Chunk[] = []
  if (asked_at !== null) {
    if (input_schema) chunks.push({ type: 'data-question', id, data: { inputSchema: input_schema } })
    if (reason_data) chunks.push({ type: 'data-reason', id, data: reason_data })
    chunks.push({ type: 'tool-approval-request', approvalId: id, toolCallId: id, ...(reason !== null && { reason }) })
    if (decision !== null) {
      chunks.push({ type: 'tool-approval-response', approvalId: id, approved: decision !== 'declined' })
      if (edited_args) chunks.push({ type: 'data-edited-arguments', id, data: edited_args })
    }
  }
  if (reason_data?.code === 'STOPPED') chunks.push({ type: 'data-reason', id, data: reason_data })
  if (call.late_step !== null) chunks.push({ type: 'tool-output-error', toolCallId: id, errorText: unknownOutcome })
  if (hasEnded(call) && state !== 'unknown' && dispatched_at !== null && ended_at !== null) {
    const durationMs = Math.max(0, Date.parse(ended_at) - Date.parse(dispatched_at))
    chunks.push({ type: 'data-timing', id, data: { durationMs } })
  }
  if (call.connect_to !== null) chunks.push({ type: 'data-connect', id, data: { connector: connectorOf(call) } })
  if (state === 'succeeded') chunks.push({ type: 'tool-output-available', toolCallId: id, output: shownResult(call) })
  else if (state === 'declined') chunks.push({ type: 'tool-output-denied', toolCallId: id })
  else if (hasEnded(call)) chunks.push({ type: 'tool-output-error', toolCallId: id, errorText: explainEnd(call) })
  return chunks
}

/** The connector that the user has to connect their account to. The link is added for each client; see ConnectLinks. */
const connectorOf = ({ tool }: ToolCallRow): string =>
  tool?.kind === 'connector' ? tool.connector : (tool?.name.replace(/^connect_/, '') ?? '')

function shownResult(call: Outcome): string {
  const { shown, length } = beginningOf(call.result ?? '', call)
  return length > shownLength ? `${shown}\n\n(These are the first ${shownLength} of ${length} characters.)` : shown
}

/** How a call ended, as far as it is shown. */
type Outcome = Pick<ToolCallRow, 'state' | 'result' | 'result_length' | 'reason'>

/** What the model and the user are told about a call without a result, and the user about one that failed. */
export function explainEnd(call: Outcome): string {
  const { state, result, reason } = call
  if (result !== null) return shownResult(call)
  if (state === 'refused') return reason ?? 'The call was refused.'
  if (state === 'declined') return reason ?? 'The user declined the call. Nothing was done.'
  if (state === 'cancelled') return 'The call was cancelled before it ran. Nothing was done.'
  if (state === 'unknown') return unknownOutcome
  return 'The call failed.'
}

export const unknownOutcome =
  'This call was interrupted, so it is unknown whether it was carried out. Check before you try again.'
