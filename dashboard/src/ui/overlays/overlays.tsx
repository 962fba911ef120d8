import { type ComponentProps, type FormEvent, lazy, type ReactNode, Suspense, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { Field, Input } from '../controls/form.tsx'
import { FormError } from '../display/states.tsx'
import { words } from '../words.ts'
import type { OverlayProps } from './overlay-frame.tsx'

const OverlayFrame = lazy(() => import('./overlay-frame.tsx'))

/** The frame's code is loaded when something opens for the first time. */
function Overlay(props: ComponentProps<typeof OverlayFrame>) {
  const [wasOpen, setWasOpen] = useState(props.isOpen)
  if (props.isOpen && !wasOpen) setWasOpen(true)
  return (
    wasOpen && (
      <Suspense>
        <OverlayFrame {...props} />
      </Suspense>
    )
  )
}

/** A question or a short form above the page. */
export const Dialog = ({ isWide, ...props }: OverlayProps & { isWide?: boolean }) => (
  <Overlay {...props} place={isWide ? 'wide' : 'middle'} />
)

/** Details of one thing, beside the page that lists it. The page gives it a URL. */
export const Sheet = ({ isWide, ...props }: OverlayProps & { isWide?: boolean }) => (
  <Overlay {...props} place={isWide ? 'wide right' : 'right'} />
)

/** The navigation on small screens. */
export const Drawer = (props: OverlayProps) => <Overlay {...props} place="left" />

/** The buttons at the end of a form. */
export const FormActions = ({ children }: { children: ReactNode }) => (
  <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>
)

/** Asks before something that can't be undone. `typed` must be typed first, for what would hurt most. */
export function ConfirmDialog({
  isOpen,
  onClose,
  title,
  text,
  action,
  typed,
  isPending,
  error,
  onConfirm,
}: Omit<OverlayProps, 'children'> & {
  action: string
  typed?: string
  isPending?: boolean
  error?: Error | null
  onConfirm: () => void
}) {
  const [answer, setAnswer] = useState('')
  const isReady = typed === undefined || answer.trim() === typed
  function submit(event: FormEvent) {
    event.preventDefault()
    if (isReady && !isPending) onConfirm()
  }
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={title} text={text}>
      <form onSubmit={submit} className="grid gap-3">
        {typed !== undefined && (
          <Field label={words.typeToConfirm(typed)}>
            <Input value={answer} onChange={(event) => setAnswer(event.target.value)} autoComplete="off" />
          </Field>
        )}
        <FormError error={error} />
        <FormActions>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button type="submit" variant="danger" isPending={isPending ?? false} disabled={!isReady}>
            {action}
          </Button>
        </FormActions>
      </form>
    </Dialog>
  )
}
