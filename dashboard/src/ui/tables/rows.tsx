import { ArrowDown, ArrowUp, X } from 'lucide-react'
import { texts } from '../../lib/texts.ts'
import { IconButton } from '../controls/button.tsx'

export const t = texts('rows', {
  up: (what: string) => `Move ${what} up`,
  down: (what: string) => `Move ${what} down`,
  remove: (what: string) => `Remove ${what}`,
})

/** Buttons that move or remove an entry of a short list. */
export function RowButtons<Entry>({
  name,
  list,
  at,
  onList,
}: {
  /** What the entry is called, for screen readers. */
  name: string
  list: readonly Entry[]
  at: number
  onList: (list: Entry[]) => void
}) {
  const move = (by: number) => {
    const next = [...list]
    next.splice(at + by, 0, ...next.splice(at, 1))
    onList(next)
  }
  return (
    <div className="flex shrink-0">
      {list.length > 1 && (
        <>
          <IconButton icon={ArrowUp} label={t.up(name)} disabled={at === 0} onClick={() => move(-1)} />
          <IconButton icon={ArrowDown} label={t.down(name)} disabled={at === list.length - 1} onClick={() => move(1)} />
        </>
      )}
      <IconButton icon={X} label={t.remove(name)} onClick={() => onList(list.filter((_, index) => index !== at))} />
    </div>
  )
}
