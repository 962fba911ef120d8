import type { LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'

/** The top of each page: what it is called, what it is for, and its main action. */
export function PageHeader({ title, text, actions }: { title: string; text: string; actions?: ReactNode }) {
  return (
    <header className="mb-5 flex flex-wrap items-end justify-between gap-x-4 gap-y-3">
      <div>
        <h1 className="text-xl font-semibold tracking-[-0.02em]">{title}</h1>
        <p className="text-muted">{text}</p>
      </div>
      {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
    </header>
  )
}

/** A part of a page with a heading. */
export function Section({
  title,
  text,
  actions,
  children,
  className = '',
}: {
  title: string
  text?: string
  actions?: ReactNode
  children: ReactNode
  className?: string
}) {
  return (
    <section className={`card p-4 ${className}`} aria-label={title}>
      <div className="mb-3 flex flex-wrap items-start justify-between gap-2">
        <div>
          <h2 className="font-semibold">{title}</h2>
          {text && <p className="text-sm text-muted">{text}</p>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {children}
    </section>
  )
}

type Tone = 'plain' | 'good' | 'wait' | 'bad'

/** A short state. The color only underlines what the words say. */
export function Badge({
  tone = 'plain',
  icon: Icon,
  children,
}: {
  tone?: Tone
  icon?: LucideIcon
  children: ReactNode
}) {
  return (
    <span className={tone === 'plain' ? 'badge' : `badge badge-${tone}`}>
      {Icon && <Icon size={12} strokeWidth={2} aria-hidden />}
      {children}
    </span>
  )
}

/** Names and values of one thing. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[minmax(7rem,auto)_1fr] gap-x-4 gap-y-2 text-sm">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="min-w-0 wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** A setting that only admins can change, shown to others. */
export function Notice({
  tone = 'plain',
  icon: Icon,
  children,
}: {
  tone?: Tone
  icon?: LucideIcon
  children: ReactNode
}) {
  const colors = {
    plain: 'border-line bg-sunken text-muted',
    good: 'border-accent/30 bg-accent-soft text-accent',
    wait: 'border-brass/30 bg-brass-soft text-brass',
    bad: 'border-danger/30 bg-danger-soft text-danger',
  }
  return (
    <div className={`mb-4 flex items-start gap-2 rounded-control border px-3 py-2 text-sm ${colors[tone]}`}>
      {Icon && <Icon size={16} strokeWidth={1.5} className="mt-px shrink-0" aria-hidden />}
      <div className="min-w-0">{children}</div>
    </div>
  )
}
