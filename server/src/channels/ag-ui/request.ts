import { hash } from 'node:crypto'
import { maxDescriptionLength, maxNameLength } from '@inlay/protocol'
import { z } from 'zod'
import type { ClientTool } from '../../agent/runs/run.ts'
import { check } from '../../kernel/foundation/input.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'

/** The parts of an AG-UI request that the server uses. Clients can't add anything else to a conversation. */
export interface RunRequest {
  /** As the client wrote it, because it expects the same text back. */
  threadId: string
  /** The same as an id of ours. */
  thread: string
  runId: string
  /** The last message, if the user wrote it. */
  message: { id: string; text: string } | undefined
  decisions: InterruptDecision[]
  /** Messages with the role `tool` that the client has added after the agent's last message. */
  results: ClientResult[]
  tools: ClientTool[]
  /** The client's view of the conversation. Only decides which events this client still needs. */
  view: ViewMessage[]
}

interface InterruptDecision {
  call_id: string
  is_approved: boolean
  edited_args?: Record<string, unknown> | undefined
}

interface ClientResult {
  call_id: string
  content: string
  is_error: boolean
}

/** A message in the client's view, with all its fields. */
export type ViewMessage = z.output<typeof Message>

const maxMessages = 2_000
const maxTools = 64
/** Maximum size of all tools together, as JSON. They become part of the prompt, and anonymous visitors can declare some. */
const maxToolBytes = 64 * 1024
const maxDecisions = 64
const text = (max: number) => z.string().min(1).max(max)

const ThreadId = z.string().refine((id) => isId(id.toLowerCase()), 'Must be a UUID')

/** Some clients send null for a field without a value. */
const orNull = <T extends z.ZodType>(type: T) => type.nullish().transform((value) => value ?? undefined)

const ToolCall = z.looseObject({
  id: z.string().max(200),
  function: z.looseObject({ arguments: z.string().optional() }).optional(),
})

const Message = z.looseObject({
  id: text(200),
  role: text(20),
  content: z.unknown().optional(),
  toolCallId: orNull(z.string().max(200)),
  toolCalls: orNull(z.array(ToolCall)),
})

/** `{"approved": true}`, with the arguments if the user changed them. */
const Payload = z.strictObject({ approved: z.boolean(), editedArgs: z.record(z.string(), z.unknown()).optional() })

const ResumeEntry = z.discriminatedUnion('status', [
  z.object({ status: z.literal('resolved'), interruptId: text(200), payload: Payload }),
  z.object({ status: z.literal('cancelled'), interruptId: text(200) }),
])

const Tool = z.object({
  name: text(maxNameLength),
  description: z.string().default(''),
  parameters: z.record(z.string(), z.unknown()).default({ type: 'object', properties: {} }),
})

/** Without `state`, `context` and `forwardedProps`, which are ignored. */
const RunInput = z.object({
  threadId: ThreadId,
  runId: text(200),
  messages: z.array(Message).max(maxMessages),
  tools: orNull(z.array(Tool).max(maxTools)),
  resume: orNull(z.array(ResumeEntry).max(maxDecisions)),
})

const StopInput = z.object({ threadId: ThreadId })

export const readStopRequest = (body: unknown): { thread: string } => ({
  thread: check(StopInput, body).threadId.toLowerCase(),
})

const ConnectInput = z.object({ code: z.string().min(1).max(128) })

export const readConnectRequest = (body: unknown): { code: string } => check(ConnectInput, body)

export function readRunRequest(body: unknown): RunRequest {
  const { threadId, runId, messages, tools = [], resume = [] } = check(RunInput, body)
  const thread = threadId.toLowerCase()
  if (messages.length === 0) throw invalid('messages', 'Must end with the user’s message')
  const last = messages.at(-1)
  const newest = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1)
  return {
    threadId,
    thread,
    runId,
    message:
      last?.role === 'user' ? { id: messageId(thread, last.id), text: textOf(last, messages.length - 1) } : undefined,
    decisions: resume.map((entry) => ({
      call_id: entry.interruptId,
      is_approved: entry.status === 'resolved' && entry.payload.approved,
      edited_args: entry.status === 'resolved' ? entry.payload.editedArgs : undefined,
    })),
    results: newest
      .filter(({ role }) => role === 'tool')
      .map((message) => ({
        call_id: message.toolCallId ?? '',
        content: textOf(message, messages.indexOf(message)),
        is_error: typeof message.error === 'string',
      })),
    tools: readTools(tools),
    view: messages,
  }
}

/**
 * The same for the same message of a thread, so that a repeated request doesn't start a second run. Derived, because
 * clients may use any text, and may show the same message in several threads.
 */
function messageId(thread: string, id: string): string {
  const digits = hash('sha256', `${thread} ${id}`)
  // Version 8 of RFC 9562: all other bits are our own.
  return [digits.slice(0, 8), digits.slice(8, 12), `8${digits.slice(13, 16)}`, `8${digits.slice(17, 20)}`]
    .concat(digits.slice(20, 32))
    .join('-')
}

const TextParts = z.array(z.object({ type: z.literal('text'), text: z.string() }))

function textOf({ content }: ViewMessage, index: number): string {
  if (typeof content === 'string') return content
  const parts = TextParts.safeParse(content)
  if (!parts.success) throw invalid(`messages.${index}.content`, 'Must be text, or a list of text parts')
  return parts.data.map((part) => part.text).join('\n')
}

function readTools(tools: z.output<typeof Tool>[]): ClientTool[] {
  const names = new Set<string>()
  const read = tools.map(({ name, description, parameters }, index) => {
    if (names.has(name)) throw invalid(`tools.${index}.name`, 'Two tools have the same name')
    names.add(name)
    return { name, description: description.slice(0, maxDescriptionLength), inputSchema: parameters }
  })
  if (Buffer.byteLength(JSON.stringify(read)) > maxToolBytes) {
    throw invalid('tools', `Must be at most ${maxToolBytes} bytes of JSON in total`)
  }
  return read
}
