import type { LanguageModelV4Message, LanguageModelV4Prompt } from '@ai-sdk/provider'
import { contentNames, type Finish, nameFinish } from './names.ts'
import type { Attributes } from './otlp.ts'

/** What a model wrote. */
export interface Written {
  text: string
  calls: readonly { toolCallId: string; toolName: string; input: string }[]
}

/** Longest text of one message, and of all messages of a span together, in characters. */
const longestText = 32_000
const longestMessages = 256_000

/** A prompt in the form of the conventions, as JSON. If it's too long, its first messages are left out. */
export function describePrompt(prompt: LanguageModelV4Prompt): Attributes {
  const instructions: object[] = []
  const messages: string[] = []
  for (const { role, content } of prompt) {
    if (typeof content === 'string') instructions.push(text(content))
    else messages.push(JSON.stringify({ role, parts: content.flatMap(toParts) }))
  }
  let length = 0
  const fitting = messages.reverse().filter((message) => {
    length += message.length
    return length <= longestMessages
  })
  return {
    [contentNames.instructions]: JSON.stringify(instructions),
    [contentNames.input]: `[${fitting.reverse().join(',')}]`,
  }
}

/** A reply in the form of the conventions, as JSON. */
export function describeReply({ text: written, calls }: Written, finish: Finish): Attributes {
  const parts = [
    ...(written ? [text(written)] : []),
    ...calls.map(({ toolCallId, toolName, input }) => toolCall(toolCallId, toolName, input)),
  ]
  return { [contentNames.output]: JSON.stringify([{ role: 'assistant', parts, finish_reason: nameFinish(finish) }]) }
}

export const describeArguments = (args: Record<string, unknown>): Attributes => ({
  [contentNames.toolArguments]: shorten(JSON.stringify(args)),
})

export const describeResult = (result: string): Attributes => ({ [contentNames.toolResult]: shorten(result) })

const shorten = (long: string): string => long.slice(0, longestText).toWellFormed()

const text = (content: string) => ({ type: 'text', content: shorten(content) })
const toolCall = (id: string, name: string, input: string) => ({
  type: 'tool_call',
  id,
  name,
  arguments: shorten(input),
})

type Part = Exclude<LanguageModelV4Message['content'], string>[number]

/** Files are left out. */
function toParts(part: Part): object[] {
  if (part.type === 'text') return [text(part.text)]
  if (part.type === 'tool-call') return [toolCall(part.toolCallId, part.toolName, JSON.stringify(part.input))]
  if (part.type !== 'tool-result') return []
  const response = part.output.type === 'text' ? part.output.value : JSON.stringify(part.output)
  return [{ type: 'tool_call_response', id: part.toolCallId, response: shorten(response) }]
}
