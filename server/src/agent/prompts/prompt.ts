import type { LanguageModelV4FunctionTool, LanguageModelV4Message, LanguageModelV4Prompt } from '@ai-sdk/provider'
import { beginningOf, shownLength } from '../../kernel/untrusted/long-results.ts'
import { explainEnd, unknownOutcome } from '../feeds/chunks.ts'
import type { Conversation, MessageRow, RunStory } from '../runs/rows.ts'
import type { RunPage, ToolCallRow } from '../runs/run.ts'
import type { AgentTool } from '../toolbox/toolbox.ts'

interface Told {
  system: string
  conversation: Conversation
  /** Bodies of the skills that users activated, by name. */
  skills: ReadonlyMap<string, string>
  page: RunPage | null
}

/** What the model reads, in an order in which the beginning rarely changes, for the providers' caches. */
export function writePrompt({ system, conversation, skills, page }: Told): LanguageModelV4Prompt {
  const { thread, stories } = conversation
  const prompt: LanguageModelV4Prompt = [{ role: 'system', content: system, ...cacheUpToHere }]
  if (thread.summary !== null) prompt.push(user(`<summary>\n${quote(thread.summary, 'summary')}\n</summary>`))
  for (const story of stories) prompt.push(...writeStory(story, skills))
  const last = prompt.findLast(({ role }) => role === 'user')
  if (last?.role === 'user' && page) last.content.push({ type: 'text', text: describePage(page) })
  Object.assign(prompt.at(-1) as LanguageModelV4Message, cacheUpToHere)
  return prompt
}

export const toFunctionTool = ({ name, description, inputSchema }: AgentTool): LanguageModelV4FunctionTool => ({
  type: 'function',
  name,
  description,
  inputSchema,
})

/** Other providers ignore it, or cache on their own. */
const cacheUpToHere = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } }

const user = (text: string): LanguageModelV4Message => ({ role: 'user', content: [{ type: 'text', text }] })

function* writeStory(
  { messages, steps, calls }: RunStory,
  skills: ReadonlyMap<string, string>,
): Iterable<LanguageModelV4Message> {
  for (const message of messages) if (message.step === null) yield user(writeMessage(message, skills))
  for (const { step, text, finish_reason } of steps) {
    for (const message of messages) if (message.step === step) yield user(writeMessage(message, skills))
    // A step without an end is being repeated.
    if (finish_reason === null) continue
    const own = calls.filter((call) => call.step === step)
    if (text || own.length > 0) {
      yield {
        role: 'assistant',
        content: [
          ...(text ? [{ type: 'text' as const, text }] : []),
          ...own.map(({ id, name, args }) => ({
            type: 'tool-call' as const,
            toolCallId: id,
            toolName: name,
            input: args,
          })),
        ],
      }
    }
    if (own.length > 0) yield { role: 'tool', content: own.map(writeResult) }
    for (const call of calls) if (call.late_step === step) yield user(writeLateResult(call))
  }
  // The run failed before their step began.
  const begun = new Set(steps.map(({ step }) => step))
  for (const message of messages) {
    if (message.step !== null && !begun.has(message.step)) yield user(writeMessage(message, skills))
  }
}

function writeMessage({ text, skill }: MessageRow, skills: ReadonlyMap<string, string>): string {
  const body = skill === null ? undefined : skills.get(skill)
  return body === undefined ? text : `${text}\n\nThe user activated the skill ${skill}:\n\n${body}`
}

function writeResult(call: ToolCallRow) {
  const { id, name, edited_args } = call
  const notes = edited_args ? [`The user changed the arguments to ${JSON.stringify(edited_args)}.`] : []
  const value = [...notes, call.late_step === null ? writeOutcome(call) : unknownOutcome].join('\n')
  return { type: 'tool-result' as const, toolCallId: id, toolName: name, output: { type: 'text' as const, value } }
}

const writeOutcome = (call: ToolCallRow): string =>
  call.result === null ? explainEnd(call) : writeUntrusted(call, call.result)

/** Models accept only one result per call, so a late one is a message of its own. */
const writeLateResult = (call: ToolCallRow): string =>
  `This is not a message of the user. The outcome of the call ${call.id} of ${call.name} was unknown; its result has arrived now (${call.state}):\n${writeOutcome(call)}`

/** Results of built-in tools are our own text, except for the rest of another tool's result. */
function writeUntrusted(call: ToolCallRow, result: string): string {
  const { id, tool, state } = call
  if (tool?.kind === 'built_in' && tool.name !== 'read_result') return result
  if (state === 'refused') return result
  const origin = tool && 'origin' in tool ? ` origin="${tool.origin}"` : ''
  const { shown, length } = beginningOf(result, call)
  const rest =
    length > shownLength
      ? `\nThese are the first ${shownLength} of ${length} characters. Read on with read_result {"call_id": "${id}", "from": ${shownLength}}.`
      : ''
  return `<tool_result${origin}>\n${quote(shown, 'tool_result')}\n</tool_result>${rest}`
}

const describePage = ({ url, title }: RunPage): string => `<page>\n${quote(`${title}\n${url}`, 'page')}\n</page>`

/** Keeps untrusted text from closing the element that it's in. */
const quote = (text: string, element: string): string =>
  text.replaceAll(new RegExp(`</(?=\\s*${element})`, 'gi'), '<\\/')
