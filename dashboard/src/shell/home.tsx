import { useQuery } from '@tanstack/react-query'
import { Navigate } from '@tanstack/react-router'
import { meQuery } from '../session/me.ts'
import { currentOrganizationId } from '../session/session.ts'
import { ErrorState, Skeleton } from '../ui/display/states.tsx'

/** The root URL leads to the organization that the user worked in last. */
export function Home() {
  const { data, error, refetch } = useQuery(meQuery)
  if (error) return <ErrorState error={error} onRetry={() => refetch()} />
  if (!data) return <Skeleton className="mx-auto max-w-lg p-12" />
  const last = data.organizations.find(({ id }) => id === currentOrganizationId())
  return last ? <Navigate to={`/o/${last.slug}`} replace /> : <Navigate to="/organizations/new" replace />
}
