import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { AgentEntry, ChatState } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useTexts } from '../context.ts'
import { titleOf } from '../questions/approval.tsx'
import { endOfPortion, readable } from './announcements.ts'

const pauseMs = 1_500

/** What was announced of the last answer. */
interface Progress {
  /** Unknown while the conversation is being read. */
  thread: string | undefined
  entry: string | undefined
  position: number
  status: AgentEntry['status'] | undefined
  question: string | undefined
}

/** Tells screen readers what happens, in portions of whole sentences. The log itself is silent. */
export function Announcer({ chat }: { chat: ChatState }): JSX.Element {
  const { say } = useTexts()
  const [spoken, setSpoken] = useState<{ id: number; text: string }[]>([])
  const [now, setNow] = useState(0)
  const progress = useRef<Progress | undefined>(undefined)
  const known = useRef(new Set<string>())
  const freeAt = useRef(0)
  const answer = chat.entries.findLast((entry) => entry.role === 'assistant')
  const text = answer ? textOf(answer) : ''
  const [question] = chat.questions

  // biome-ignore lint/correctness/useExhaustiveDependencies: after each change, and when a pause is over
  useEffect(() => {
    const thread = chat.isLoading ? undefined : chat.threadId
    const current = { thread, entry: answer?.id, status: answer?.status, question: question?.callId }
    // What a conversation contains when it's opened isn't new, except a question that waits.
    let seen = progress.current
    if (!thread || thread !== seen?.thread) {
      known.current = new Set(chat.entries.map(({ id }) => id))
      seen = { ...current, question: undefined, position: text.length }
    } else if (answer && answer.id !== seen.entry && known.current.has(answer.id))
      seen = { ...current, question: seen.question, position: text.length }
    progress.current = seen
    const wait = freeAt.current - Date.now()
    if (wait > 0) {
      const timer = setTimeout(() => setNow(now + 1), wait)
      return () => clearTimeout(timer)
    }
    if (answer) known.current.add(answer.id)
    const from = seen.entry === answer?.id ? Math.min(seen.position, text.length) : 0
    const isEnded = answer?.status !== 'running'
    const position = endOfPortion(text, from, isEnded)
    const parts = answer?.status === 'running' && seen.entry !== answer.id ? [say('announceWorking')] : []
    parts.push(readable(text.slice(from, position)))
    if (question && question.callId !== seen.question) parts.push(say('announceQuestion', { name: titleOf(question) }))
    const isFinished = position === text.length
    if (isFinished && answer && answer.status !== seen.status && seen.entry === answer.id) {
      if (answer.status === 'succeeded') parts.push(say('announceDone'))
      if (answer.status === 'failed') parts.push(say('announceFailed', { reason: answer.error?.message ?? '' }))
      if (answer.status === 'stopped') parts.push(say('stopped'))
    }
    const status = isFinished || isEnded === false ? current.status : seen.status
    progress.current = { ...current, status, position }
    const words = plainText(parts.filter((part) => part !== '').join(' '), 2_000)
    if (words === '') return
    freeAt.current = Date.now() + pauseMs
    setSpoken((before) => [...before.slice(-2), { id: (before.at(-1)?.id ?? 0) + 1, text: words }])
    if (!isFinished && isEnded) setNow(now + 1)
  }, [chat.threadId, chat.isLoading, text, answer?.id, answer?.status, question?.callId, now])

  return (
    <div class="unseen" aria-live="polite">
      {spoken.map(({ id, text: words }) => (
        <p key={id}>{words}</p>
      ))}
    </div>
  )
}

/** It only grows at its end. */
const textOf = ({ parts }: AgentEntry) => parts.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join('\n')
