import { Toast } from '@base-ui/react/toast'
import { X } from 'lucide-react'
import { useEffect } from 'react'
import { IconButton } from '../controls/button.tsx'
import { words } from '../words.ts'

export interface Message {
  title: string
  text?: string
  undo?: () => void
  isError?: boolean
}

const manager = Toast.createToastManager()

/** Shows messages one above the other. They stay while the pointer or the focus is on them. */
export default function ToastList({ messages, onShown }: { messages: readonly Message[]; onShown: () => void }) {
  // After the region was mounted, so that screen readers read what is added to it.
  useEffect(() => {
    for (const { title, text, undo, isError } of messages) {
      const id = manager.add({
        title,
        description: text,
        timeout: undo || isError ? 10_000 : 5_000,
        ...(isError && { type: 'error', priority: 'high' as const }),
        ...(undo && {
          actionProps: {
            children: words.undo,
            onClick() {
              manager.close(id)
              undo()
            },
          },
        }),
      })
    }
    if (messages.length > 0) onShown()
  }, [messages, onShown])
  return (
    <Toast.Provider toastManager={manager}>
      <Toast.Portal>
        <Toast.Viewport className="fixed right-4 bottom-4 z-20 grid w-80 max-w-[calc(100vw-32px)] gap-2">
          <Toasts />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  )
}

function Toasts() {
  const { toasts } = Toast.useToastManager()
  return toasts.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      className={`floating flex items-start gap-2 py-2 pr-2 pl-3 ${toast.type === 'error' ? 'border-danger/40' : ''}`}
    >
      <div className="min-w-0 flex-1 py-1">
        <Toast.Title className={`font-[550] ${toast.type === 'error' ? 'text-danger' : ''}`} />
        <Toast.Description className="text-sm wrap-anywhere text-muted" />
      </div>
      <Toast.Action className="button" />
      {/* Base UI hides it from screen readers while toasts are stacked, which ours never are. */}
      <Toast.Close aria-hidden={false} render={<IconButton icon={X} label={words.close} />} />
    </Toast.Root>
  ))
}
