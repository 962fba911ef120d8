import { Dialog as Base } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import { type ReactNode, useRef } from 'react'
import { IconButton } from '../controls/button.tsx'
import { words } from '../words.ts'

export interface OverlayProps {
  isOpen: boolean
  onClose: () => void
  title: string
  text?: ReactNode
  children: ReactNode
}

const places = {
  middle:
    'top-[12vh] left-1/2 max-h-[80vh] w-[calc(100vw-32px)] max-w-md -translate-x-1/2 rounded-card border data-starting-style:translate-y-1',
  wide: 'top-[8vh] left-1/2 max-h-[84vh] w-[calc(100vw-32px)] max-w-2xl -translate-x-1/2 rounded-card border data-starting-style:translate-y-1',
  left: 'inset-y-0 left-0 w-64 border-r data-starting-style:-translate-x-1',
  'wide right': 'inset-y-0 right-0 w-full max-w-3xl border-l data-starting-style:translate-x-1',
  right: 'inset-y-0 right-0 w-full max-w-xl border-l data-starting-style:translate-x-1',
}

const firstField = 'form :is(input:not([type=radio], [type=checkbox]), textarea, select)'

/** The frame of dialogs and sheets: keeps the focus inside, and closes with Escape or a click beside it. */
export default function OverlayFrame({
  isOpen,
  onClose,
  title,
  text,
  children,
  place,
}: OverlayProps & { place: keyof typeof places }) {
  const popup = useRef<HTMLDivElement>(null)
  // A form begins at its first field, everything else at the button that closes it.
  const findFirst = () => popup.current?.querySelector<HTMLElement>(firstField) ?? true
  return (
    <Base.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Base.Portal>
        <Base.Backdrop
          forceRender
          className="fixed inset-0 z-10 bg-[rgb(0_0_0/0.35)] transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0"
        />
        <Base.Popup
          ref={popup}
          initialFocus={findFirst}
          // React passes events on from portals: without this, a form that contains the overlay would be submitted too.
          onSubmit={(event) => event.stopPropagation()}
          className={`fixed z-10 overflow-y-auto border-line bg-surface p-5 shadow-float transition-[opacity,translate] duration-150 ease-out outline-none data-ending-style:opacity-0 data-starting-style:opacity-0 ${places[place]}`}
        >
          <div className="mb-4 flex items-start justify-between gap-4">
            <div className="min-w-0">
              <Base.Title className="text-lg font-semibold wrap-anywhere">{title}</Base.Title>
              {text && <Base.Description className="mt-0.5 text-muted">{text}</Base.Description>}
            </div>
            <Base.Close render={<IconButton icon={X} label={words.close} className="-mt-1 -mr-1" />} />
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
