import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Call, Decision } from '../../frame/calls.ts'
import { plainText } from '../../frame/plain-text.ts'
import { useTexts } from '../context.ts'
import { clientOf, labelOfCall } from '../pages/call-texts.ts'
import { Choices } from './choices.tsx'
import { ConfirmBrowser } from './confirm-browser.tsx'
import { ExactInput } from './exact-input.tsx'
import { useGuard } from './guard.ts'

const oneLine = (text: string) => plainText(text).replace(/\s+/g, ' ')

interface DockedQuestionProps {
  call: Call
  /** How many calls wait, this one included. */
  count: number
  isShown: boolean
  onDecision(id: string, decision: Decision): void
}

/**
 * Asks about a call of another assistant. Neither modal nor focused automatically, because the user may be typing in
 * the page. Screen readers announce its text.
 */
export function DockedQuestion({ call, count, isShown, onDecision }: DockedQuestionProps): JSX.Element {
  const texts = useTexts()
  const { say } = texts
  const section = useRef<HTMLElement>(null)
  const scroller = useRef<HTMLDivElement>(null)
  const isHidden = call.isHidden === true
  // Once the input is shown, the user needs the time to read it.
  const guard = useGuard(`${call.id} ${isHidden}`, isShown, section)
  const { tool, connector } = call
  const name = labelOfCall(call)
  const client = clientOf(call, texts)

  // biome-ignore lint/correctness/useExhaustiveDependencies: for each new question
  useLayoutEffect(() => {
    if (scroller.current) scroller.current.scrollTop = 0
  }, [call.id])

  const decide = (decision: Decision) => onDecision(call.id, decision)
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return
    event.stopPropagation()
    // A key that is held down must not answer the next question too.
    if (!event.repeat && guard.accepts(0)) decide('no')
  }
  const wish = connector
    ? say('wishElsewhere', { client: '\n', tool: oneLine(tool.name), origin: oneLine(connector.origin) })
    : say('wishOnPage', { client: '\n' })
  const [before, after] = wish.split('\n')
  return (
    <section
      ref={section}
      class="question"
      role="alertdialog"
      aria-labelledby="question"
      tabIndex={-1}
      onKeyDown={onKeyDown}
    >
      <div class="question-scroller" ref={scroller}>
        <div class="question-text" aria-live="polite">
          <div class="question-head">
            <h2 id="question">{say('question', { name })}</h2>
            <span class="place">{count > 1 ? say('place', { count: 1, total: count }) : ''}</span>
          </div>
          <p>
            {before}
            <b>{client}</b>
            {after}
          </p>
          <blockquote>{plainText(tool.description)}</blockquote>
          {call.isRepeated && <p>{say('alreadyAllowed')}</p>}
          {!isHidden && <p>{say('questionInput')}</p>}
          {!isHidden && <ExactInput key={call.id} args={call.args} label={say('inputOfCall')} />}
        </div>
      </div>
      {isHidden && <ConfirmBrowser need="confirmNeeded" without="confirmUnavailable" />}
      <Choices key={call.id} guard={guard} always={say('alwaysHere')} canAllow={!isHidden} onDecision={decide} />
    </section>
  )
}
