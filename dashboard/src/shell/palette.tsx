import { Dialog } from '@base-ui/react/dialog'
import { Search } from 'lucide-react'
import { type KeyboardEvent, useId, useRef, useState } from 'react'
import { type Command, useCommands } from './commands.ts'
import { findCommands } from './find-commands.ts'
import { t } from './texts.ts'

export default function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  const id = useId()
  const found = findCommands(useCommands(), typed)

  function run(command: Command | undefined) {
    if (!command) return
    onClose()
    command.run()
  }
  function move(to: number) {
    const next = (to + found.length) % Math.max(found.length, 1)
    setAt(next)
    list.current?.querySelectorAll('[role=option]')[next]?.scrollIntoView({ block: 'nearest' })
  }
  function press(event: KeyboardEvent) {
    const moves: Record<string, () => void> = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      Enter: () => run(found[at]),
    }
    const action = event.nativeEvent.isComposing ? undefined : moves[event.key]
    if (!action) return
    event.preventDefault()
    action()
  }
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 bg-[rgb(0_0_0/0.35)]" />
        <Dialog.Popup
          aria-label={t.palette}
          className="floating fixed top-[12vh] left-1/2 w-[calc(100vw-32px)] max-w-xl -translate-x-1/2 overflow-hidden"
        >
          <div className="flex items-center gap-2 border-b border-line px-4">
            <Search size={16} strokeWidth={1.5} className="text-faint" aria-hidden />
            <input
              role="combobox"
              aria-expanded
              aria-controls={`${id}-list`}
              aria-activedescendant={found[at] && `${id}-${at}`}
              aria-label={t.search}
              placeholder={t.search}
              className="h-12 w-full bg-transparent outline-none"
              value={typed}
              onChange={(event) => {
                setTyped(event.target.value)
                setAt(0)
              }}
              onKeyDown={press}
            />
          </div>
          <div
            ref={list}
            id={`${id}-list`}
            role="listbox"
            aria-label={t.palette}
            className="max-h-[50vh] overflow-y-auto p-2"
          >
            {found.length === 0 && <p className="px-2 py-6 text-center text-muted">{t.noCommand}</p>}
            {found.map((command, index) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the input handles the keys
              <div
                key={`${command.group} ${command.name}`}
                id={`${id}-${index}`}
                role="option"
                tabIndex={-1}
                aria-selected={index === at}
                className="floating-item aria-selected:bg-accent-soft aria-selected:text-accent"
                onPointerMove={() => setAt(index)}
                onClick={() => run(command)}
              >
                <command.icon size={16} strokeWidth={1.5} aria-hidden />
                <span className="flex-1">{command.name}</span>
                {command.keys ? (
                  command.keys.map((key) => (
                    <kbd key={key} className="kbd">
                      {key}
                    </kbd>
                  ))
                ) : (
                  <span className="text-xs text-faint">{command.group}</span>
                )}
              </div>
            ))}
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
