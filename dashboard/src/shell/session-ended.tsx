import { useMutation } from '@tanstack/react-query'
import { useRef, useSyncExternalStore } from 'react'
import { sessionEnd } from '../session/session.ts'
import { Button } from '../ui/controls/button.tsx'
import { Dialog, FormActions } from '../ui/overlays/overlays.tsx'
import { t } from './texts.ts'

/** Lets the user sign in again without leaving the page. Requests that are waiting are then sent. */
export function SessionEnded() {
  const hasEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.hasEnded)
  const attempt = useRef<AbortController>(undefined)
  const signIn = useMutation({
    mutationFn() {
      attempt.current?.abort()
      attempt.current = new AbortController()
      return sessionEnd.signInAgain(/^\/o\/([^/]+)/.exec(location.pathname)?.[1], attempt.current.signal)
    },
  })
  return (
    <Dialog isOpen={hasEnded} onClose={() => undefined} title={t.ended} text={t.endedText}>
      {signIn.error && !(signIn.error instanceof DOMException) && (
        <p role="alert" className="text-danger">
          {signIn.error.message}
        </p>
      )}
      {signIn.isPending && <p className="text-muted">{t.waiting}</p>}
      <FormActions>
        <Button variant="primary" onClick={() => signIn.mutate()}>
          {t.signIn}
        </Button>
      </FormActions>
    </Dialog>
  )
}
