import type { ReactNode } from 'react'
import { ApiError } from '../../session/api.ts'
import { Button } from '../controls/button.tsx'
import { words } from '../words.ts'

/** The mark's diamonds, as a small picture for pages without content. */
function Diamonds() {
  return (
    <svg viewBox="0 0 96 48" width="96" height="48" fill="none" aria-hidden="true">
      <path d="M48 6 66 24 48 42 30 24Z" className="fill-accent" />
      <path d="m48 15 9 9-9 9-9-9Z" className="fill-[#dcb25a]" />
      <path d="m48 20 4 4-4 4-4-4Z" className="fill-accent" />
      <path d="M18 14l10 10-10 10L8 24Z" className="stroke-line-strong" strokeWidth="1.5" />
      <path d="m78 14 10 10-10 10-10-10Z" className="stroke-line-strong" strokeWidth="1.5" />
    </svg>
  )
}

/** Explains what a page without content is for, and offers the next step. */
export function EmptyState({ title, text, action }: { title: string; text: string; action?: ReactNode }) {
  return (
    <div className="flex flex-col items-center px-6 py-12 text-center">
      <Diamonds />
      <h2 className="mt-4 text-lg font-semibold">{title}</h2>
      <p className="mt-1 max-w-md text-balance text-muted">{text}</p>
      {action && <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  )
}

export function describeError(error: Error): string {
  return error instanceof ApiError ? error.message : words.offline
}

/** What happened, what to do, and a code to quote. */
export function ErrorState({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <div role="alert" className="flex flex-col items-center px-6 py-12 text-center">
      <h2 className="text-lg font-semibold">{words.failed}</h2>
      <p className="mt-1 max-w-md text-muted">{describeError(error)}</p>
      {error instanceof ApiError && error.requestId && (
        <p className="mono mt-1 text-faint">{words.reference(error.requestId)}</p>
      )}
      {onRetry && (
        <div className="mt-4">
          <Button onClick={onRetry}>{words.retry}</Button>
        </div>
      )}
    </div>
  )
}

/** A problem beside the form that it belongs to. */
export function FormError({ error }: { error: Error | null | undefined }) {
  if (!error) return null
  return (
    <p role="alert" className="rounded-control bg-danger-soft px-3 py-2 text-sm text-danger">
      {describeError(error)}
      {error instanceof ApiError && error.status >= 500 && error.requestId && (
        <span className="mono block">{words.reference(error.requestId)}</span>
      )}
    </p>
  )
}

/** Lines that stand for content while it's loading. */
export function Skeleton({ lines = 3, className = '' }: { lines?: number; className?: string }) {
  return (
    <div role="status" aria-label={words.loading} className={`grid gap-2 ${className}`}>
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all alike
        <div key={line} className="skeleton h-5" style={{ width: `${100 - ((line * 17) % 40)}%` }} />
      ))}
    </div>
  )
}

interface Query<Data> {
  data: Data | undefined
  error: Error | null
  refetch: () => unknown
}

/** Shows what a query returned, or that it's loading, or why it failed. */
export function Loaded<Data>({
  query,
  lines,
  children,
}: {
  query: Query<Data>
  lines?: number
  children: (data: Data) => ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <ErrorState error={query.error} onRetry={() => query.refetch()} />
  return <Skeleton {...(lines && { lines })} />
}
