import { createContext, type JSX } from 'preact'
import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { AgentEntry, EntryPart, ToolEntryPart } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { Markdown } from '../../markdown/markdown.ts'
import { useSession, useTexts } from '../context.ts'
import { Icon, IconButton } from '../icons.tsx'
import { memo } from '../memo.tsx'
import { Approval, LaterApproval } from '../questions/approval.tsx'
import { ConnectOffers, ToolCard } from './tool-card.tsx'
import { SkillChip, SteeringMessage } from './user-message.tsx'

const copiedMs = 2_000
const longestComment = 2_000

/** The calls that wait for the user, and whether the panel is shown. */
export interface Asking {
  callIds: readonly string[]
  isShown: boolean
  agentName: string
  /** The agent's name for questions, which the page can't replace. */
  asker: string
}
export const AskingContext: preact.Context<Asking> = createContext<Asking>({
  callIds: [],
  isShown: false,
  agentName: '',
  asker: '',
})

interface AgentMessageProps {
  entry: AgentEntry
  /** Only the last answer can be replaced, while the agent rests. */
  canRepeat: boolean
}

export const AgentMessage = memo<AgentMessageProps>(({ entry, canRepeat }): JSX.Element => {
  const { say } = useTexts()
  const { agentName } = useContext(AskingContext)
  const isBusy = entry.status === 'running' && !isWriting(entry.parts.at(-1))
  return (
    <article class="entry answer" data-id={entry.id} data-status={entry.status} aria-label={agentName || say('agent')}>
      {entry.parts.map((part) => (
        <Part key={part.key} part={part} />
      ))}
      {isBusy && <Working />}
      <Outcome entry={entry} canRepeat={canRepeat} />
      {canRepeat && <ConnectOffers parts={entry.parts} />}
      {canRate(entry) && <Actions entry={entry} canRepeat={canRepeat} />}
    </article>
  )
})

/** An answer that failed before it began can only be repeated, which its outcome offers. */
const canRate = ({ status, parts }: AgentEntry) =>
  status !== 'running' && status !== 'waiting' && (status !== 'failed' || parts.length > 0)

const isWriting = (part: EntryPart | undefined) =>
  (part?.kind === 'text' && part.isStreaming && part.text !== '') || (part?.kind === 'tool' && part.state === 'running')

const Part = memo<{ part: EntryPart }>(({ part }): JSX.Element | null => {
  const { say } = useTexts()
  if (part.kind === 'text') return <AnswerText text={part.text} isStreaming={part.isStreaming} />
  if (part.kind === 'tool') return part.state === 'asking' ? <Question part={part} /> : <ToolCard part={part} />
  if (part.kind === 'skill') return <SkillChip name={part.name} />
  if (part.kind === 'notice')
    return (
      <p class="remark">
        <Icon name="alert" />
        {plainText(part.text)}
      </p>
    )
  if (part.kind === 'steering') return <SteeringMessage id={part.key} text={part.text} />
  return (
    <p class="divider">
      <span>{say('summary')}</span>
    </p>
  )
})

function AnswerText({ text, isStreaming }: { text: string; isStreaming: boolean }): JSX.Element {
  const { say } = useTexts()
  const strings = useMemo(
    () => ({
      code: say('code'),
      copy: say('copy'),
      copied: say('copied'),
      selected: say('selectedCode'),
      table: say('table'),
      done: say('itemDone'),
      notDone: say('itemNotDone'),
    }),
    [say],
  )
  return (
    <div class="text">
      <Markdown text={text} isStreaming={isStreaming} strings={strings} />
    </div>
  )
}

function Question({ part }: { part: ToolEntryPart }): JSX.Element {
  const { callIds, isShown, asker } = useContext(AskingContext)
  const index = callIds.indexOf(part.callId)
  // Another tab has answered it, and this one will learn so.
  if (index < 0) return <ToolCard part={part} />
  const shared = { part, place: index + 1, total: callIds.length }
  return index === 0 ? <Approval {...shared} isShown={isShown} agentName={asker} /> : <LaterApproval {...shared} />
}

function Working(): JSX.Element {
  const { say } = useTexts()
  return (
    <p class="working">
      <i />
      <i />
      <i />
      <span class="unseen">{say('working')}</span>
    </p>
  )
}

function Outcome({ entry, canRepeat }: AgentMessageProps): JSX.Element | null {
  const session = useSession()
  const { say } = useTexts()
  if (entry.status === 'stopped')
    return (
      <p class="remark">
        <Icon name="stop" />
        {say('stopped')}
      </p>
    )
  if (entry.status !== 'failed') return null
  const isBudget = entry.error?.code === 'BUDGET_REACHED'
  return (
    <div class={`outcome ${isBudget ? 'is-budget' : ''}`}>
      <Icon name={isBudget ? 'clock' : 'alert'} />
      <div>
        <b>{say(isBudget ? 'budgetReached' : 'failed')}</b>
        <p>{plainText(entry.error?.message ?? '')}</p>
        {entry.error && <p class="code">{say('errorCode', { code: plainText(entry.error.code, 60) })}</p>}
      </div>
      {canRepeat && (
        <button type="button" class="small" onClick={() => session.regenerate()}>
          {say('retryAnswer')}
        </button>
      )}
    </div>
  )
}

function Actions({ entry, canRepeat }: AgentMessageProps): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  const [isCopied, setIsCopied] = useState(false)
  const [comment, setComment] = useState<'none' | 'open' | 'sent'>('none')
  useEffect(() => {
    if (!isCopied) return
    const timer = setTimeout(() => setIsCopied(false), copiedMs)
    return () => clearTimeout(timer)
  }, [isCopied])
  const text = entry.parts.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join('\n\n')
  const rate = (rating: 'up' | 'down') => {
    const next = entry.feedback === rating ? null : rating
    session.rate(entry.id, next)
    setComment(next === 'down' ? 'open' : 'none')
  }
  const sendComment = (words: string) => {
    session.rate(entry.id, 'down', words)
    setComment('sent')
  }
  return (
    <>
      <div class={`actions ${canRepeat ? 'is-last' : ''}`}>
        {text !== '' && (
          <IconButton
            icon={isCopied ? 'check' : 'copy'}
            label={say(isCopied ? 'copied' : 'copy')}
            onClick={() => void copyText(text).then(setIsCopied)}
          />
        )}
        <IconButton
          icon="thumbUp"
          label={say('rateUp')}
          isPressed={entry.feedback === 'up'}
          onClick={() => rate('up')}
        />
        <IconButton
          icon="thumbDown"
          label={say('rateDown')}
          isPressed={entry.feedback === 'down'}
          onClick={() => rate('down')}
        />
        {canRepeat && entry.status !== 'failed' && (
          <IconButton icon="repeat" label={say('regenerate')} onClick={() => session.regenerate()} />
        )}
      </div>
      {comment === 'open' && <CommentForm onSend={sendComment} onCancel={() => setComment('none')} />}
      {comment === 'sent' && (
        <p class="remark" role="status">
          {say('thanks')}
        </p>
      )}
    </>
  )
}

/** Some pages don't let frames use the clipboard; then the button simply doesn't say “Copied”. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copySelection(text)
  }
}

function copySelection(text: string): boolean {
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'unseen'
  const focused = document.activeElement
  document.body.append(field)
  field.select()
  const isCopied = document.execCommand('copy')
  field.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}

interface CommentFormProps {
  onSend(words: string): void
  onCancel(): void
}

function CommentForm({ onSend, onCancel }: CommentFormProps): JSX.Element {
  const { say } = useTexts()
  const field = useRef<HTMLTextAreaElement>(null)
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return
    event.stopPropagation()
    onCancel()
  }
  return (
    <div class="edit comment">
      <textarea
        ref={field}
        dir="auto"
        rows={2}
        maxLength={longestComment}
        aria-label={say('ratingComment')}
        placeholder={say('ratingComment')}
        onKeyDown={onKeyDown}
      />
      <div class="row">
        <button type="button" onClick={onCancel}>
          {say('cancel')}
        </button>
        <button type="button" class="primary" onClick={() => onSend(field.current?.value.trim() ?? '')}>
          {say('sendComment')}
        </button>
      </div>
    </div>
  )
}
