import { createContext, type JSX } from 'preact'
import { useContext, useState } from 'preact/hooks'
import { useTexts } from '../context.ts'
import type { StringKey } from '../strings.ts'

/** Whether the server knows that this frame is the user's, and what it says about confirming it. */
export interface BrowserTrust {
  isConfirmed: boolean
  canConfirm: boolean
  hasOtherSites: boolean
}

export const trusted: BrowserTrust = { isConfirmed: true, canConfirm: false, hasOtherSites: false }

interface Confirming extends BrowserTrust {
  /** Opens the window; false if that isn't allowed. */
  onConfirm(): boolean
}

export const ConfirmingContext: preact.Context<Confirming> = createContext<Confirming>({
  ...trusted,
  onConfirm: () => false,
})

export const useConfirming = (): Confirming => useContext(ConfirmingContext)

/** Says why the user has to confirm this browser, or why they can't. Only shown while it isn't confirmed. */
export function ConfirmBrowser({ need, without }: { need: StringKey; without: StringKey }): JSX.Element {
  const { say } = useTexts()
  const { canConfirm, onConfirm } = useConfirming()
  const [step, setStep] = useState<'idle' | 'opened' | 'blocked'>('idle')
  if (!canConfirm) return <p class="confirm-browser muted">{say(without)}</p>
  return (
    <div class="confirm-browser">
      <p>{say(need)}</p>
      <button type="button" class="small" onClick={() => setStep(onConfirm() ? 'opened' : 'blocked')}>
        {say('confirmBrowser')}
      </button>
      <p role="status" class="muted">
        {step === 'opened' ? say('confirmOpened') : step === 'blocked' ? say('confirmBlocked') : ''}
      </p>
    </div>
  )
}
