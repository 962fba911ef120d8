import { newsBadge, type Signs } from '../channel.ts'

export interface Sight {
  waiting: number
  /** Whether the page shows the panel. */
  isShown: boolean
  isInBackground: boolean
  /** Whether a tool ran while the panel was closed. */
  hasNews: boolean
}

/** Shows questions on the button and in the title while the panel is closed, and in the title while the tab is hidden. */
export function describeSigns({ waiting, isShown, isInBackground, hasNews }: Sight): Signs {
  const isMarked = waiting > 0 && (isInBackground || !isShown)
  const marker = isMarked ? `● (${waiting})` : ''
  if (isShown) return { badge: '', marker }
  return { badge: waiting > 0 ? String(waiting) : hasNews ? newsBadge : '', marker }
}
