import { useNavigate } from '@tanstack/react-router'
import { Button } from '../ui/controls/button.tsx'
import { EmptyState, ErrorState } from '../ui/display/states.tsx'
import { t } from './texts.ts'

export function NotFound() {
  const navigate = useNavigate()
  return (
    <EmptyState
      title={t.notFound}
      text={t.notFoundText}
      action={<Button onClick={() => navigate({ to: '/' })}>{t.toOverview}</Button>}
    />
  )
}

/** A fault in the dashboard itself, or a part of it that couldn't be loaded. */
export function Crashed({ error }: { error: Error }) {
  return (
    <div>
      <ErrorState error={error} onRetry={() => location.reload()} />
      <p className="text-center text-sm text-muted">{t.crashedText}</p>
    </div>
  )
}
