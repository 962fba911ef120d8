import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import type { ChatState } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { ElsewhereContext, useSession, useTexts } from '../context.ts'
import { FollowingMain } from '../following-main.tsx'
import { AskingContext } from './agent-message.tsx'
import { Announcer } from './announcer.tsx'
import { Entries } from './entries.tsx'
import { AgentProblem, EmptyChat, Refused } from './states.tsx'

interface ChatProps {
  chat: ChatState
  agentName: string
  greeting: string
  /** The reason why the server refuses this page. */
  refusal: string | undefined
  onRetry(): void
  isShown: boolean
  /** Increased by each message that the user sends. */
  turn: number
  onSent(): void
}

/** The open conversation. */
export function Chat({ chat, agentName, greeting, refusal, onRetry, isShown, turn, onSent }: ChatProps): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  const { entries, hasEarlier, isLoading, questions, agent } = chat
  const asker = plainText(agent?.name ?? '', 100)
  const asking = useMemo(
    () => ({ callIds: questions.map(({ callId }) => callId), isShown, agentName, asker }),
    [questions, isShown, agentName, asker],
  )
  const isEmpty = entries.length === 0
  const loadEarlier = hasEarlier && !isLoading ? () => session.loadEarlier() : undefined
  return (
    <FollowingMain content={chat.threadId} isFixed={isEmpty} turn={turn} first={entries[0]?.id} onStart={loadEarlier}>
      {refusal && <Refused reason={refusal} onRetry={onRetry} />}
      {isEmpty && !refusal && !isLoading && agent?.problem && <AgentProblem problem={agent.problem} />}
      {isEmpty && !refusal && !isLoading && !agent?.problem && (
        <EmptyChat agent={agent} greeting={greeting} isOff={agent === undefined} onSent={onSent} />
      )}
      {isLoading && <p class="loading">{say(isEmpty ? 'loading' : 'loadingEarlier')}</p>}
      <AskingContext.Provider value={asking}>
        <div class="log" role="log" aria-live="off" aria-label={say('log')} hidden={isEmpty}>
          <h2 class="unseen">{say('log')}</h2>
          <ElsewhereContext.Provider value={chat.elsewhere}>
            <Entries entries={entries} isWorking={chat.isWorking || questions.length > 0} />
          </ElsewhereContext.Provider>
        </div>
      </AskingContext.Provider>
      <Announcer chat={chat} />
    </FollowingMain>
  )
}
