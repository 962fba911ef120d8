import type { JSX } from 'preact'
import type { Status } from '../frame/connection.ts'
import { useTexts } from './context.ts'
import { IconButton, Mark } from './icons.tsx'
import type { StringKey } from './strings.ts'

export type Page = 'chat' | 'conversations' | 'activity'

const statusTexts: Record<Status['state'], StringKey> = {
  idle: 'statusIdle',
  connecting: 'statusConnecting',
  connected: 'statusConnected',
  waiting: 'statusWaiting',
  unidentified: 'statusUnidentified',
  refused: 'statusRefused',
}

interface HeaderProps {
  page: Page
  name: string
  state: Status['state']
  toolCount: number
  serviceCount: number
  canClose: boolean
  onPage(page: Page): void
  onNewThread(): void
  onClose(): void
}

export function Header(props: HeaderProps): JSX.Element {
  const { page, name, state, canClose, onPage, onNewThread, onClose } = props
  const { say } = useTexts()
  const isChat = page === 'chat'
  return (
    <header class="measured">
      {isChat ? <Mark /> : <IconButton icon="back" label={say('back')} onClick={() => onPage('chat')} />}
      <div class="title">
        <h1 dir="auto">{isChat ? name : say(page)}</h1>
        {isChat && <Abilities {...props} />}
      </div>
      <span class="unseen" role="status">
        {state === 'connected' || !isChat ? say(statusTexts[state]) : ''}
      </span>
      {isChat && <IconButton icon="compose" label={say('newConversation')} onClick={onNewThread} />}
      {isChat && <IconButton icon="history" label={say('conversations')} onClick={() => onPage('conversations')} />}
      {isChat && <IconButton icon="activity" label={say('activity')} onClick={() => onPage('activity')} />}
      {canClose && <IconButton icon="cross" label={say('close')} onClick={onClose} />}
    </header>
  )
}

/** What the agent can do here, or why it can't. */
function Abilities({ state, toolCount, serviceCount }: HeaderProps): JSX.Element | null {
  const { say, count } = useTexts()
  if (state !== 'connected')
    return (
      <p class="sub" role="status" data-state={state}>
        {say(statusTexts[state])}
      </p>
    )
  const parts = [
    ...(toolCount > 0 ? [count('tools', toolCount)] : []),
    ...(serviceCount > 0 ? [count('services', serviceCount)] : []),
  ]
  const text = parts.join(say('listDivider'))
  return parts.length > 0 ? (
    <p class="sub" title={text}>
      {text}
    </p>
  ) : null
}
