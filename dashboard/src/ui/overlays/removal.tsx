import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query'
import type { LucideIcon } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../controls/button.tsx'
import { words } from '../words.ts'
import { ConfirmDialog } from './overlays.tsx'
import { notify } from './toasts.tsx'

/** The end of a sheet: removes what it shows, after its name was typed. */
export function Removal({
  name,
  label,
  icon,
  title,
  text,
  removed,
  remove,
  list,
  onRemoved,
}: {
  name: string
  label: string
  icon?: LucideIcon
  title: string
  text: string
  /** What to say afterwards. */
  removed: string
  remove: () => Promise<unknown>
  /** The query that still has it. */
  list: QueryKey
  onRemoved: () => void
}) {
  const queryClient = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const removal = useMutation({
    mutationFn: remove,
    async onSuccess() {
      // The list first: its sheet closes, and what was typed there can't keep the user from leaving.
      await queryClient.invalidateQueries({ queryKey: list })
      onRemoved()
      notify(removed)
    },
  })
  return (
    <div className="border-t border-line pt-4">
      <Button {...(icon && { icon })} onClick={() => setAsking(true)}>
        {label}
      </Button>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={title}
        text={text}
        action={words.delete}
        typed={name}
        isPending={removal.isPending}
        error={removal.error}
        onConfirm={() => removal.mutate()}
      />
    </div>
  )
}
