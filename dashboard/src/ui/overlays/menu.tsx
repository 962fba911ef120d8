import { lazy, Suspense, useState } from 'react'
import type { MenuProps } from './open-menu.tsx'

const load = () => import('./open-menu.tsx')
const OpenMenu = lazy(load)

/** A list of actions that opens from a button. Its code is loaded when the user reaches for the button. */
export function Menu(props: MenuProps) {
  const [isWanted, setWanted] = useState(false)
  const button = (
    <button
      type="button"
      aria-haspopup="menu"
      aria-expanded={false}
      {...props.trigger}
      onPointerEnter={load}
      onFocus={load}
      onClick={() => setWanted(true)}
    >
      {props.children}
    </button>
  )
  if (!isWanted) return button
  return (
    <Suspense fallback={button}>
      <OpenMenu {...props} />
    </Suspense>
  )
}
