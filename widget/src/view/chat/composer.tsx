import { maxChatMessageLength } from '@inlay/protocol/values'
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ChatState } from '../../chat/state.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useSession, useTexts } from '../context.ts'
import { Icon } from '../icons.tsx'
import { findSkills, optionId, type Skill, SkillMenu, splitSkill } from './skill-menu.tsx'

const counterFrom = maxChatMessageLength - 1_000
const menuId = 'skills'

interface ComposerProps {
  chat: ChatState
  isAnonymous: boolean
  /** The agent can't answer now. */
  isOff: boolean
  onSent(): void
}

export function Composer({ chat, isAnonymous, isOff, onSent }: ComposerProps): JSX.Element {
  const session = useSession()
  const { say } = useTexts()
  const field = useRef<HTMLTextAreaElement>(null)
  const [text, setText] = useDraft(chat)
  const [skill, setSkill] = useState<string>()
  const [active, setActive] = useState(0)
  const [isMenuClosed, setIsMenuClosed] = useState(false)
  const skills = chat.agent?.skills ?? []
  const found = isMenuClosed || skill !== undefined ? [] : findSkills(skills, text)
  const isTooLong = text.length > maxChatMessageLength
  const canSend = text.trim() !== '' && !isTooLong && !isOff
  const canStop = chat.isWorking || chat.questions.length > 0
  useGrowth(field, text)

  const write = (next: string) => {
    setText(next)
    setActive(0)
    if (next === '') setIsMenuClosed(false)
  }
  const choose = ({ name }: Skill) => {
    setSkill(name)
    write('')
    field.current?.focus()
  }
  const send = () => {
    if (!canSend) return
    const typed = splitSkill(skills, text.trim())
    session.send(typed.text, skill ?? typed.skill)
    // A message that can't be kept stays in the field.
    if (session.state.problem) return
    setSkill(undefined)
    write('')
    field.current?.focus()
    onSent()
  }
  const onMenuKey = ({ key, shiftKey }: KeyboardEvent): boolean => {
    const chosen = found[active]
    if (!chosen) return false
    if (key === 'ArrowDown') setActive((active + 1) % found.length)
    else if (key === 'ArrowUp') setActive((active + found.length - 1) % found.length)
    else if ((key === 'Enter' && !shiftKey) || key === 'Tab') choose(chosen)
    else if (key === 'Escape') setIsMenuClosed(true)
    else return false
    return true
  }
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter may confirm a word of an input method.
    if (event.isComposing || event.keyCode === 229) return
    if (onMenuKey(event)) {
      event.preventDefault()
      event.stopPropagation()
    } else if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault()
      send()
    } else if (event.key === 'Backspace' && text === '' && skill !== undefined) setSkill(undefined)
  }

  return (
    <footer class="composer measured">
      {found.length > 0 && <SkillMenu id={menuId} skills={found} active={active} onChoose={choose} />}
      {/* biome-ignore lint/a11y: a click beside the field means the field, which has its own keyboard support */}
      <div
        class={`box ${isOff ? 'is-off' : ''}`}
        onClick={(event) => event.target === event.currentTarget && field.current?.focus()}
      >
        {skill !== undefined && (
          <button
            type="button"
            class="chip"
            aria-label={say('removeSkill', { name: plainText(skill, 80) })}
            onClick={() => setSkill(undefined)}
          >
            /{plainText(skill, 80)}
            <Icon name="cross" />
          </button>
        )}
        <textarea
          ref={field}
          class="field"
          rows={1}
          dir="auto"
          enterkeyhint="send"
          aria-label={say('compose')}
          placeholder={say(skills.length > 0 ? 'placeholderSkills' : 'placeholder')}
          aria-autocomplete="list"
          aria-controls={found.length > 0 ? menuId : undefined}
          aria-activedescendant={found.length > 0 ? optionId(menuId, active) : undefined}
          aria-invalid={isTooLong}
          aria-describedby="hint"
          value={text}
          onInput={({ currentTarget }) => write(currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        {canStop && (
          <button
            type="button"
            class="round stop"
            aria-label={say('stop')}
            title={say('stop')}
            onClick={() => session.stop()}
          >
            <Icon name="stop" />
          </button>
        )}
        {(!canStop || text !== '') && (
          <button
            type="button"
            class="round send"
            aria-label={say('send')}
            title={say('send')}
            aria-disabled={!canSend}
            onClick={send}
          >
            <Icon name="up" />
          </button>
        )}
      </div>
      <Hint length={text.length} isAnonymous={isAnonymous} />
    </footer>
  )
}

function Hint({ length, isAnonymous }: { length: number; isAnonymous: boolean }): JSX.Element {
  const { say } = useTexts()
  const values = { count: length, limit: maxChatMessageLength }
  if (length > maxChatMessageLength)
    return (
      <p class="hint is-wrong" id="hint" role="alert">
        {say('tooLong', values)}
      </p>
    )
  return (
    <p class="hint" id="hint">
      {isAnonymous ? <span /> : <span>{say('actingAsUser')}</span>}
      <span>{length >= counterFrom ? say('characters', values) : say('answersCanBeWrong')}</span>
    </p>
  )
}

/** What is in the field. The session keeps it, and replaces it when another conversation opens. */
function useDraft({ threadId, draft }: ChatState): [string, (text: string) => void] {
  const session = useSession()
  const [text, setText] = useState(draft)
  const kept = useRef({ threadId, draft })
  // biome-ignore lint/correctness/useExhaustiveDependencies: after each change of the conversation or its draft
  useEffect(() => {
    // Not what is drawn, which is older than what a fast typist has just added.
    const newest = session.state
    const isOther = newest.threadId !== kept.current.threadId || newest.draft !== kept.current.draft
    kept.current = { threadId: newest.threadId, draft: newest.draft }
    if (isOther) setText(newest.draft)
  }, [threadId, draft])
  const write = (next: string) => {
    kept.current.draft = next
    setText(next)
    session.setDraft(next)
  }
  return [text, write]
}

/** Lets the field grow with its text, in browsers that don't do it themselves. */
function useGrowth(field: { current: HTMLTextAreaElement | null }, text: string): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: after each change of the text
  useLayoutEffect(() => {
    const { current } = field
    if (!current || CSS.supports('field-sizing', 'content')) return
    current.style.height = 'auto'
    current.style.height = `${current.scrollHeight}px`
  }, [text])
}
