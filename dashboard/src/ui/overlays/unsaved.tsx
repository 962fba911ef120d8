import { useBlocker } from '@tanstack/react-router'
import { texts } from '../../lib/texts.ts'
import { Button } from '../controls/button.tsx'
import { FormError } from '../display/states.tsx'
import { words } from '../words.ts'
import { Dialog, FormActions } from './overlays.tsx'

export const t = texts('unsaved', {
  leave: 'Leave without saving?',
  leaveText: 'Your changes on this page will be lost.',
  stay: 'Keep editing',
  leaveNow: 'Discard changes',
})

interface Place {
  pathname: string
  search: { create?: unknown }
}

/** Filters and tabs of the same page keep what was typed. */
const isOtherPage = (current: Place, next: Place) =>
  current.pathname !== next.pathname || current.search.create !== next.search.create

/** Asks before the user leaves a page with unsaved changes, also by closing the tab. */
export function LeaveGuard({ isDirty }: { isDirty: boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => isDirty && isOtherPage(current, next),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  return (
    <Dialog isOpen={blocker.status === 'blocked'} onClose={() => blocker.reset?.()} title={t.leave} text={t.leaveText}>
      <FormActions>
        <Button onClick={() => blocker.reset?.()}>{t.stay}</Button>
        <Button variant="danger" onClick={() => blocker.proceed?.()}>
          {t.leaveNow}
        </Button>
      </FormActions>
    </Dialog>
  )
}

/** Stays in view while a form has unsaved changes. Place it at the end of the form, whose submit button it has. */
export function UnsavedBar({
  isDirty,
  isPending,
  error,
  onDiscard,
}: {
  isDirty: boolean
  isPending: boolean
  error: Error | null
  onDiscard: () => void
}) {
  return (
    <>
      <LeaveGuard isDirty={isDirty} />
      {isDirty && (
        <div className="sticky bottom-4 z-5 mt-3">
          <section
            aria-label={words.unsaved}
            className="floating mx-auto grid max-w-2xl gap-2 border-line-strong py-2 pr-2 pl-4"
          >
            <FormError error={error} />
            <div className="flex flex-wrap items-center gap-2">
              <p className="flex items-center gap-2 py-1.5 font-[550]">
                <i className="size-2 rotate-45 bg-brass" aria-hidden />
                {words.unsaved}
              </p>
              <div className="ml-auto flex gap-2">
                <Button onClick={onDiscard}>{words.discard}</Button>
                <Button type="submit" variant="primary" isPending={isPending}>
                  {words.save}
                </Button>
              </div>
            </div>
          </section>
        </div>
      )}
    </>
  )
}
