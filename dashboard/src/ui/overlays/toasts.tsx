import { lazy, Suspense, useSyncExternalStore } from 'react'
import { describeError } from '../display/states.tsx'
import type { Message } from './toast-list.tsx'

let messages: readonly Message[] | undefined
const listeners = new Set<() => void>()

function setMessages(next: readonly Message[]): void {
  messages = next
  for (const listener of listeners) listener()
}

/** Says briefly that something was done, and offers to undo it where that's possible. */
export const notify = (title: string, more: Pick<Message, 'text' | 'undo'> = {}): void =>
  setMessages([...(messages ?? []), { title, ...more }])

/** Says that an action failed, where there is no form to say it in. */
export const notifyError = (title: string, error: Error): void =>
  setMessages([...(messages ?? []), { title, text: describeError(error), isError: true }])

const ToastList = lazy(() => import('./toast-list.tsx'))
const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}
const clear = () => setMessages([])

/** The place for messages. Its code is loaded with the first one. */
export function Toasts() {
  const current = useSyncExternalStore(subscribe, () => messages)
  return (
    current && (
      <Suspense>
        <ToastList messages={current} onShown={clear} />
      </Suspense>
    )
  )
}
