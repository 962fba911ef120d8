import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Thread, ThreadList } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useSession, useTexts } from '../context.ts'
import { Icon, IconButton, Inlaid } from '../icons.tsx'
import { ConfirmBrowser, useConfirming } from '../questions/confirm-browser.tsx'

const searchDelayMs = 250
const longestTitle = 200
const longestQuery = 200

interface ConversationsProps {
  list: ThreadList
  openThreadId: string
  onOpen(id: string): void
}

/** The user's conversations, with search and an archive. */
export function Conversations({ list, openThreadId, onOpen }: ConversationsProps): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  const { isConfirmed, hasOtherSites } = useConfirming()
  const [query, setQuery] = useState('')
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  // A confirmed browser shows more.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only then, and at first
  useEffect(() => {
    session.listThreads({ query: query.trim(), isArchive: false })
    return () => clearTimeout(timer.current)
  }, [session, isConfirmed])
  const search = (text: string) => {
    setQuery(text)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => session.listThreads({ query: text.trim() }), searchDelayMs)
  }
  const tab = (isArchive: boolean) => (
    <button
      type="button"
      aria-pressed={list.isArchive === isArchive}
      onClick={() => session.listThreads({ query: query.trim(), isArchive })}
    >
      {say(isArchive ? 'archive' : 'current')}
    </button>
  )
  return (
    <div class="conversations">
      <div class="search">
        <Icon name="search" />
        <input
          type="search"
          aria-label={say('searchConversations')}
          placeholder={say('searchConversations')}
          maxLength={longestQuery}
          value={query}
          onInput={({ currentTarget }) => search(currentTarget.value)}
        />
      </div>
      <div class="segments">
        {tab(false)}
        {tab(true)}
      </div>
      <ul class="threads" aria-label={say('conversations')} aria-busy={list.isLoading}>
        {list.threads.map((thread) => (
          <ThreadRow key={thread.id} thread={thread} isOpen={thread.id === openThreadId} onOpen={onOpen} />
        ))}
      </ul>
      {list.threads.length === 0 && !list.isLoading && (
        <div class="empty">
          <Inlaid />
          <p>{say(list.query !== '' ? 'noMatches' : list.isArchive ? 'noArchive' : 'noConversations')}</p>
        </div>
      )}
      {!isConfirmed && hasOtherSites && <ConfirmBrowser need="confirmHidden" without="conversationsHidden" />}
      {list.hasMore && (
        <button type="button" class="small" onClick={() => session.listThreads({ isMore: true })}>
          {say('more')}
        </button>
      )}
    </div>
  )
}

interface ThreadRowProps {
  thread: Thread
  isOpen: boolean
  onOpen(id: string): void
}

function ThreadRow({ thread, isOpen, onOpen }: ThreadRowProps): JSX.Element {
  const session = useSession()
  const texts = useTexts()
  const { say } = texts
  const [mode, setMode] = useState<'shown' | 'renaming' | 'deleting'>('shown')
  const row = useRef<HTMLLIElement>(null)
  const name = plainText(thread.title ?? '', longestTitle) || say('untitled')
  const back = () => {
    setMode('shown')
    row.current?.querySelector('button')?.focus()
  }
  if (mode === 'renaming')
    return (
      <li ref={row}>
        <RenameForm
          title={thread.title ?? ''}
          onCancel={back}
          onSave={(title) => {
            session.renameThread(thread.id, title)
            back()
          }}
        />
      </li>
    )
  if (mode === 'deleting')
    return (
      <li ref={row} class="confirm">
        <p role="alert">{say('confirmDelete', { name })}</p>
        <button type="button" class="danger" ref={focusFirst} onClick={() => session.deleteThread(thread.id)}>
          {say('deleteIt')}
        </button>
        <button type="button" onClick={back}>
          {say('cancel')}
        </button>
      </li>
    )
  return (
    <li ref={row} class={isOpen ? 'is-open' : ''}>
      <button type="button" class="thread" aria-current={isOpen} onClick={() => onOpen(thread.id)}>
        <span class="thread-name" dir="auto">
          {name}
        </span>
        <span class="thread-note">
          <ThreadStatus status={thread.status} />
          {thread.lastMessageAt && (
            <time dateTime={thread.lastMessageAt}>{texts.time(new Date(thread.lastMessageAt))}</time>
          )}
        </span>
      </button>
      <span class="thread-actions">
        <IconButton icon="pencil" label={say('renameNamed', { name })} onClick={() => setMode('renaming')} />
        <IconButton
          icon={thread.isArchived ? 'restore' : 'archive'}
          label={say(thread.isArchived ? 'unarchiveNamed' : 'archiveNamed', { name })}
          onClick={() => session.archiveThread(thread.id, !thread.isArchived)}
        />
        <IconButton icon="trash" label={say('deleteNamed', { name })} onClick={() => setMode('deleting')} />
      </span>
    </li>
  )
}

function ThreadStatus({ status }: Pick<Thread, 'status'>): JSX.Element | null {
  const { say } = useTexts()
  if (status === 'running') return <span class="badge good">{say('threadRunning')}</span>
  if (status === 'waiting') return <span class="badge warn">{say('threadWaiting')}</span>
  if (status === 'failed') return <span class="badge bad">{say('toolFailed')}</span>
  return null
}

interface RenameFormProps {
  title: string
  onSave(title: string): void
  onCancel(): void
}

function RenameForm({ title, onSave, onCancel }: RenameFormProps): JSX.Element {
  const { say } = useTexts()
  const [text, setText] = useState(title)
  const save = () => (text.trim() === '' ? onCancel() : onSave(text.trim()))
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' && (event.key !== 'Enter' || event.isComposing)) return
    event.stopPropagation()
    event.preventDefault()
    if (event.key === 'Enter') save()
    else onCancel()
  }
  return (
    <div class="rename">
      <input
        aria-label={say('title')}
        dir="auto"
        maxLength={longestTitle}
        value={text}
        ref={focusFirst}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <button type="button" class="primary" onClick={save}>
        {say('saveTitle')}
      </button>
      <button type="button" onClick={onCancel}>
        {say('cancel')}
      </button>
    </div>
  )
}

/** The user has just asked for this control. */
const focusFirst = (element: HTMLElement | null) => element?.focus()
