import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useTexts } from './context.ts'
import { Icon } from './icons.tsx'

/** How near to the end a user counts as being at the end. */
const nearEnd = 24
/** How far from the start earlier content is loaded, in small portions. */
const nearStart = 2_000

interface FollowingMainProps {
  children: ComponentChildren
  class?: string
  /** Identifies the content. Other content starts at its end. */
  content: string
  /** Starts at its start, and stays there. */
  isFixed?: boolean
  /** Increased to follow the end again, because the user has added something. */
  turn?: number
  /** Identifies the first item, which stays in its place when others are added before it. */
  first?: string | undefined
  /** Loads earlier content, if there is any. */
  onStart?: (() => void) | undefined
}

/** The scrolling part of the panel. It keeps its end in view until the user scrolls up. */
export function FollowingMain(props: FollowingMainProps): JSX.Element {
  const { children, content, isFixed = false, turn, first, onStart } = props
  const { say } = useTexts()
  const main = useRef<HTMLElement>(null)
  const inner = useRef<HTMLDivElement>(null)
  const [isAway, setIsAway] = useState(false)
  const isFollowing = useRef(true)
  const lastTop = useRef(0)
  const now = useRef({ isFixed, onStart })
  now.current = { isFixed, onStart }
  const anchor = useAnchor(main, first)

  const follow = () => {
    const { current } = main
    if (!current || now.current.isFixed || !isFollowing.current) return
    current.scrollTop = current.scrollHeight
    lastTop.current = current.scrollTop
  }
  const onScroll = () => {
    const { current } = main
    // While the element hides the frame, positions are meaningless.
    if (!current || current.offsetWidth === 0) return
    const left = current.scrollHeight - current.clientHeight - current.scrollTop
    const isUp = current.scrollTop < lastTop.current - 1
    lastTop.current = current.scrollTop
    // Text that has just been added doesn't count as scrolling up.
    if (left <= nearEnd) isFollowing.current = true
    else if (isUp) isFollowing.current = false
    setIsAway(!isFixed && !isFollowing.current && left > 200)
    if (current.scrollTop < nearStart && isUp) now.current.onStart?.()
  }
  const jump = () => {
    isFollowing.current = true
    setIsAway(false)
    follow()
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: starts over with other content, and with each turn
  useLayoutEffect(jump, [content, turn])
  useLayoutEffect(() => anchor())
  // biome-ignore lint/correctness/useExhaustiveDependencies: once
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      follow()
      const { current } = main
      if (!current || current.offsetWidth === 0) return
      // Content that doesn't fill the panel can't be scrolled up.
      const isFilled = current.scrollHeight > current.clientHeight
      if (!isFilled || (!isFollowing.current && current.scrollTop < nearStart)) now.current.onStart?.()
    })
    for (const { current } of [main, inner]) if (current) observer.observe(current)
    return () => observer.disconnect()
  }, [])

  return (
    <div class="viewport">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: users scroll it with the keyboard */}
      <main ref={main} onScroll={onScroll} tabIndex={0} class={props.class}>
        <div class="content measured" ref={inner}>
          {children}
        </div>
      </main>
      {isAway && (
        <button type="button" class="jump" onClick={jump}>
          <Icon name="down" />
          {say('jumpToLatest')}
        </button>
      )}
    </div>
  )
}

/** Returns a function that puts the former first item back where it was, after items were added before it. */
function useAnchor(main: { current: HTMLElement | null }, first: string | undefined): () => void {
  const known = useRef(first)
  const item = known.current === first ? undefined : findItem(main.current, known.current)
  const before = item?.getBoundingClientRect().top
  return () => {
    known.current = first
    if (!item?.isConnected || before === undefined || !main.current) return
    // A browser that anchors the scroll position itself has left nothing to do.
    const moved = item.getBoundingClientRect().top - before
    if (Math.abs(moved) > 1) main.current.scrollTop += moved
  }
}

const findItem = (main: HTMLElement | null, id: string | undefined) =>
  id === undefined ? undefined : main?.querySelector(`[data-id="${CSS.escape(id)}"]`)
