import type { Output } from '../foundation/operation.ts'
import type * as contract from './contract.ts'
import type { FoundMessage, MessageToolCall } from './messages.ts'

/** The head of an exported thread. */
export function describeThread(thread: Output<typeof contract.getThread>): string {
  const { title, id, end_user_id, created_at, total_tokens } = thread
  const facts = [
    `Thread: ${id}`,
    `User: ${end_user_id ?? 'anonymous visitor'}`,
    `Started: ${describeTime(created_at)}`,
    `Tokens: ${total_tokens}`,
  ]
  return `# ${escapeInline(title ?? 'Untitled conversation')}\n\n${facts.map((fact) => `- ${fact}\n`).join('')}`
}

export function describeMessage({ message, steps }: FoundMessage, agentName: string): string {
  const { role, created_at, status, error_code, model, feedback } = message
  const ended = { failed: `failed: ${error_code ?? 'unknown reason'}`, stopped: 'stopped by the user' }
  const facts = [
    role === 'user' ? 'User' : escapeInline(agentName),
    describeTime(created_at),
    ...(model === null ? [] : [escapeInline(model)]),
    ...(status === 'failed' || status === 'stopped' ? [ended[status]] : []),
  ]
  const parts = role === 'user' ? [message.text ?? ''] : steps.flatMap(({ text, calls }) => [text ?? '', ...calls])
  const blocks = parts
    .map((part) => (typeof part === 'string' ? containText(part) : describeCall(part)))
    .filter((block) => block !== '')
  const rating = feedback ? [describeFeedback(feedback)] : []
  return `\n${[`## ${facts.join(' · ')}`, ...blocks, ...rating].join('\n\n')}\n`
}

const describeTime = (timestamp: string): string => `${timestamp.slice(0, 19).replace('T', ' ')} UTC`

const decisions = { not_needed: '', allowed: ', allowed by the user', always_allowed: ', always allowed', declined: '' }

function describeCall({ name, source, state, decision, is_edited, args, result }: MessageToolCall): string {
  const from = source === null ? '' : ` from ${escapeInline(source)}`
  const decided = decision === null ? '' : decisions[decision]
  const edited = is_edited ? ', arguments edited by the user' : ''
  return quote(
    [
      `**Tool ${escapeInline(name)}**${from}: ${state}${decided}${edited}`,
      fence(JSON.stringify(args, null, 2), 'json'),
      ...(result === null ? [] : [fence(result, '')]),
    ].join('\n\n'),
  )
}

const describeFeedback = ({ rating, comment }: { rating: string; comment: string | null }): string =>
  quote(`**Feedback: ${rating}**${comment === null ? '' : `\n\n${containText(comment)}`}`)

const quote = (text: string): string => text.replace(/^/gm, '> ').replace(/^> $/gm, '>')

/** A code block whose fence is longer than any in the text. */
function fence(text: string, language: string): string {
  const longest = text.matchAll(/`+/g).reduce((most, [ticks]) => Math.max(most, ticks.length), 2)
  const mark = '`'.repeat(longest + 1)
  return `${mark}${language}\n${text}\n${mark}`
}

const escapeInline = (text: string): string => text.replace(/[\\`*_[\]<>#|~]/g, '\\$&').replace(/\s+/g, ' ')

/**
 * Keeps a message's Markdown, but within the message: its headings can't be taken for another message's, and a code
 * block that it doesn't close ends with it.
 */
function containText(text: string): string {
  let fenceMark = ''
  const lines = text
    .trim()
    .split(/\r\n?|\n/)
    .map((line) => {
      const [, mark = '', rest = ''] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? []
      if (fenceMark) {
        const isEnd = mark.startsWith(fenceMark) && rest.trim() === ''
        if (isEnd) fenceMark = ''
        return line
      }
      const isStart = mark !== '' && !(mark.startsWith('`') && rest.includes('`'))
      if (isStart) fenceMark = mark
      return isStart ? line : line.replace(/^( {0,3})(#|=+\s*$|-+\s*$)/, '$1\\$2')
    })
  return [...lines, ...(fenceMark ? [fenceMark] : [])].join('\n')
}
