import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useOrgPath } from '../../session/me.ts'

/** The name of a row, which opens its details. The list stays as it is: its filters, and how far it's scrolled. */
export function DetailsLink({ path, children }: { path: string; children: ReactNode }) {
  const orgPath = useOrgPath()
  return (
    <Link to={orgPath(path)} search={true as never} resetScroll={false} className="truncate font-[550] hover:underline">
      {children}
    </Link>
  )
}
