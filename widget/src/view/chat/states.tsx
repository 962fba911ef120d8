import { maxChatMessageLength } from '@inlay/protocol/values'
import type { JSX } from 'preact'
import type { AgentInfo, ChatProblem, OwnProblem } from '../../chat/state.ts'
import type { Status } from '../../frame/connection.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useSession, useTexts } from '../context.ts'
import { Icon, Inlaid } from '../icons.tsx'
import type { StringKey, Texts } from '../strings.ts'

/** How the panel is connected to the server. */
export interface Connectedness {
  state: Status['state']
  /** The server has said that it restarts. */
  isRestarting: boolean
  isOnline: boolean
}

interface EmptyChatProps {
  agent: AgentInfo | undefined
  greeting: string
  isOff: boolean
  onSent(): void
}

/** A new conversation: the greeting, and what one could ask. */
export function EmptyChat({ agent, greeting, isOff, onSent }: EmptyChatProps): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  const ask = (prompt: string) => {
    session.send(prompt)
    onSent()
  }
  return (
    <div class="empty">
      <Inlaid />
      <p class="greeting" dir="auto">
        {greeting || (agent && say('greeting'))}
      </p>
      {agent && !isOff && agent.starterPrompts.length > 0 && (
        <ul class="prompts" aria-label={say('starterPrompts')}>
          {agent.starterPrompts.map((prompt) => (
            <li key={prompt}>
              <button type="button" onClick={() => ask(prompt)}>
                <span dir="auto">{plainText(prompt, 200)}</span>
                <Icon name="up" />
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** Why the agent can't answer this user. */
export function AgentProblem({ problem }: { problem: ChatProblem }): JSX.Element {
  const { say } = useTexts()
  const known: Record<string, [StringKey, StringKey] | undefined> = {
    NOT_CONFIGURED: ['notConfigured', 'notConfiguredRemedy'],
    SIGN_IN_NEEDED: ['signInNeeded', 'signInNeededRemedy'],
  }
  const [title, remedy] = known[problem.code] ?? []
  return (
    <div class="empty">
      <Inlaid />
      <p class="greeting">{say(title ?? 'tooLate')}</p>
      <p class="muted">{remedy ? say(remedy) : plainText(problem.message)}</p>
    </div>
  )
}

/** Why the server refuses this page. */
export function Refused({ reason, onRetry }: { reason: string; onRetry(): void }): JSX.Element {
  const { say } = useTexts()
  return (
    <div class="empty" role="alert">
      <Inlaid />
      <p class="greeting">{say('tooLate')}</p>
      <p class="muted">{reason}</p>
      <button type="button" class="small" onClick={onRetry}>
        {say('retry')}
      </button>
    </div>
  )
}

/** Between the conversation and the field: what is wrong with the connection. */
export function ConnectionBanner({ state, isRestarting, isOnline }: Connectedness): JSX.Element | null {
  const { say } = useTexts()
  const text = findBanner({ state, isRestarting, isOnline })
  if (!text) return null
  return (
    <p class="banner measured" role="status">
      <span class="spinner" />
      {say(text)}
    </p>
  )
}

function findBanner({ state, isRestarting, isOnline }: Connectedness): StringKey | undefined {
  if (state === 'unidentified') return 'expired'
  if (state === 'idle') return 'notConnected'
  if (!isOnline && state !== 'refused') return 'offline'
  if (state === 'waiting') return isRestarting ? 'restarting' : 'reconnecting'
  return undefined
}

const ownProblems: Record<OwnProblem, StringKey> = {
  MESSAGE_TOO_LONG: 'tooLong',
  TOO_MANY_WAITING: 'tooManyWaiting',
  RUN_ACTIVE: 'stillAnswering',
  CONVERSATION_GONE: 'conversationGone',
}

/** The server's English text is for clients without a text of their own. */
function explainRefusal({ code, message, values }: ChatProblem, { say }: Texts): string {
  const own = ownProblems[code as OwnProblem]
  if (own) return say(own, { limit: maxChatMessageLength })
  if (code === 'CONNECT_EXPIRED') return say('connectExpired')
  const { connector, reason } = values ?? {}
  if (code === 'CONNECT_FAILED' && typeof connector === 'string' && typeof reason === 'string')
    return say('connectFailed', { name: plainText(connector, 80), reason: plainText(reason) })
  return plainText(message)
}

/** Why the last request failed. */
export function RequestProblem({ problem }: { problem: ChatProblem }): JSX.Element {
  const texts = useTexts()
  const { say } = texts
  const isBudget = problem.code === 'BUDGET_REACHED'
  const retry = problem.retryAt === undefined ? '' : say('tryAgainAt', { time: texts.time(new Date(problem.retryAt)) })
  return (
    <div class={`banner measured ${isBudget ? 'is-budget' : 'is-problem'}`} role="alert">
      <Icon name={isBudget ? 'clock' : 'alert'} />
      <p>
        {isBudget && <b>{say('budgetReached')}</b>}
        {explainRefusal(problem, texts)} {retry}
      </p>
    </div>
  )
}

/** The user is back from a third party, where they connected their account. */
export function ConnectedNotice({ service }: { service: string }): JSX.Element {
  const { say } = useTexts()
  return (
    <p class="banner measured" role="status">
      <Icon name="check" />
      {say('connected', { name: plainText(service, 80) })}
    </p>
  )
}

/** The user has signed in, and had a conversation before. */
export function AdoptionOffer(): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  return (
    <section class="banner measured is-offer" aria-label={say('adopt')}>
      <p>{say('adopt')}</p>
      <button type="button" class="small primary" onClick={() => session.adopt(true)}>
        {say('adoptYes')}
      </button>
      <button type="button" class="small" onClick={() => session.adopt(false)}>
        {say('adoptNo')}
      </button>
    </section>
  )
}
