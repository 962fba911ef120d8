import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useOrgPath } from '../session/me.ts'

interface Details {
  /** Undefined while no details are open. */
  id: string | undefined
  /** What is shown, also while the sheet closes. */
  shownId: string | undefined
  /** For the sheet with the details; undefined before the first one is opened. */
  sheet: { key: string; props: { id: string; isOpen: boolean; onClose: () => void } } | undefined
  open: (id: string) => void
  close: () => void
}

/** The thing whose details are open. It's in the URL, beside the filters of the list. */
export function useDetails(path: string): Details {
  const { id } = useParams({ strict: false }) as { id?: string }
  const [shownId, setShownId] = useState(id)
  if (id !== undefined && id !== shownId) setShownId(id)
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const go = (to: string) => void navigate({ to: orgPath(to), search: true as never, resetScroll: false })
  const close = () => go(path)
  const sheet = shownId ? { key: shownId, props: { id: shownId, isOpen: id !== undefined, onClose: close } } : undefined
  return { id, shownId, sheet, open: (next) => go(`${path}/${next}`), close }
}
