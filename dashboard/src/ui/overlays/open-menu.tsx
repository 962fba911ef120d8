import { Menu as Base } from '@base-ui/react/menu'
import { Check, type LucideIcon } from 'lucide-react'
import type { ComponentProps, ReactNode } from 'react'

type MenuEntry =
  | { name: string; icon?: LucideIcon; note?: string; isChecked?: boolean; isHarmful?: boolean; onClick: () => void }
  | MenuChoices
  | { heading: string; text: string }
  | 'line'

/** One of several, of which one is taken. */
interface MenuChoices {
  choices: string
  value: string
  options: readonly (readonly [value: string, name: string])[]
  onValue: (value: never) => void
}

export interface MenuProps {
  /** The button's properties. */
  trigger: ComponentProps<'button'>
  children: ReactNode
  align?: 'start' | 'end'
  entries: MenuEntry[]
}

/** The menu behind `Menu`, open from the start. */
export default function OpenMenu({ trigger, children, align = 'end', entries }: MenuProps) {
  return (
    <Base.Root defaultOpen>
      <Base.Trigger {...trigger}>{children}</Base.Trigger>
      <Base.Portal>
        <Base.Positioner align={align} sideOffset={4} className="z-10">
          <Base.Popup className="floating max-h-(--available-height) min-w-52 overflow-y-auto p-1">
            {entries.map((entry, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a menu's entries don't move while it's open
              <Entry key={index} entry={entry} />
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}

function Entry({ entry }: { entry: MenuEntry }) {
  if (entry === 'line') return <Base.Separator className="my-1 h-px bg-line" />
  if ('heading' in entry) {
    return (
      <div className="px-2 py-1.5">
        <p className="font-[550]">{entry.heading}</p>
        <p className="text-sm text-muted">{entry.text}</p>
      </div>
    )
  }
  if ('choices' in entry) {
    return (
      <Base.RadioGroup
        value={entry.value}
        onValueChange={entry.onValue as (value: string) => void}
        aria-label={entry.choices}
      >
        <p className="px-2 pt-2 pb-1 text-xs text-faint" aria-hidden>
          {entry.choices}
        </p>
        {entry.options.map(([option, name]) => (
          <Base.RadioItem key={option} value={option} className="floating-item justify-between">
            {name}
            <Base.RadioItemIndicator className="text-accent">
              <Check size={16} strokeWidth={1.5} aria-hidden />
            </Base.RadioItemIndicator>
          </Base.RadioItem>
        ))}
      </Base.RadioGroup>
    )
  }
  const { name, icon: Icon, note, isChecked, isHarmful, onClick } = entry
  return (
    <Base.Item className={`floating-item ${isHarmful ? 'text-danger' : ''}`} onClick={onClick}>
      {Icon && <Icon size={16} strokeWidth={1.5} aria-hidden className={isHarmful ? '' : 'text-muted'} />}
      <span className="flex-1 truncate">{name}</span>
      {note && <span className="badge">{note}</span>}
      {isChecked !== undefined && (
        <Check size={16} strokeWidth={1.5} aria-hidden className={isChecked ? 'text-accent' : 'invisible'} />
      )}
    </Base.Item>
  )
}
