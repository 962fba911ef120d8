import type { JSX } from 'preact'
import { useTexts } from '../context.ts'
import { Icon } from '../icons.tsx'
import type { Guard } from './guard.ts'

interface ChoicesProps {
  guard: Guard
  /** The label of the standing permission, which is behind a menu. Undefined if the question offers none. */
  always: string | undefined
  /** Whether it can be allowed now; declining is always possible. */
  canAllow?: boolean
  onDecision(decision: 'once' | 'always' | 'no'): void
}

/** The same buttons for every question, in the same order. They ignore input that was meant for something else. */
export function Choices({ guard, always, canAllow = true, onDecision }: ChoicesProps): JSX.Element {
  const { say } = useTexts()
  const button = (text: string, decision: 'once' | 'always' | 'no') => {
    const isOff = !guard.isReady || (decision !== 'no' && !canAllow)
    const decide = ({ detail }: MouseEvent) => {
      if (guard.accepts(detail) && (canAllow || decision === 'no')) onDecision(decision)
    }
    return (
      <button type="button" class={`choice ${decision}`} aria-disabled={isOff} onClick={decide}>
        {text}
      </button>
    )
  }
  return (
    <div class="choices" onPointerDown={guard.press}>
      {guard.isCovered && (
        <p class="covered" role="alert">
          <Icon name="alert" />
          {say('covered')}
        </p>
      )}
      {button(say('allowOnce'), 'once')}
      {button(say('decline'), 'no')}
      {always !== undefined && (
        <details class="more">
          <summary>
            {say('moreOptions')}
            <Icon name="chevron" />
          </summary>
          {button(always, 'always')}
        </details>
      )}
    </div>
  )
}
