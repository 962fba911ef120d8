import type { Output } from '../../kernel/foundation/operation.ts'
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
 * Keeps a message's Markdown, but within the message: its headings can't be taken for another message's, a code block
 * that it doesn't close ends with it, and outside of code it contains no HTML, and no images, which would load when the
 * document is shown.
 */
function containText(text: string): string {
  let fenceMark = ''
  let mayBeInCode = false
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
      if (isStart || line.trim() === '') mayBeInCode = false
      if (isStart) return escapeMarkup(line)
      // A code span may continue on the next line, and end there before something that looks like code.
      mayBeInCode ||= hasOpenCode(line)
      const contained = mayBeInCode ? escapeMarkup(line) : line.replace(codeOrText, escapeUnlessCode)
      return contained.replace(/^( {0,3})(#|=+\s*$|-+\s*$)/, '$1\\$2')
    })
  return [...lines, ...(fenceMark ? [fenceMark] : [])].join('\n')
}

const codeSpan = /(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)/
const codeOrText = new RegExp(`${codeSpan.source}|[^\`]+`, 'g')

const hasOpenCode = (line: string): boolean =>
  line.includes('\\`') || line.replaceAll(new RegExp(codeSpan, 'g'), '').includes('`')

const escapeUnlessCode = (part: string): string => (part.startsWith('`') ? part : escapeMarkup(part))

/** As references, because a backslash before one that is already there would undo it. */
const escapeMarkup = (text: string): string => text.replaceAll('<', '&lt;').replaceAll('![', '&#33;[')
