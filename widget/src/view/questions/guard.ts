import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { AnswerDelay } from '../../frame/answer-delay.ts'
import { type Sight, watchSight } from './sight.ts'
import { surprise, surpriseMs } from './surprises.ts'

export interface Guard {
  /** Whether the question has been in view long enough to be answered. */
  isReady: boolean
  isCovered: boolean
  /** Must be called when a choice is pressed, before its click. */
  press(): void
  /** `clicks` is the `detail` of a click event. */
  accepts(clicks: number): boolean
}

/** Makes sure that the user has seen a question before it can be answered. */
export function useGuard(question: string, isShown: boolean, section: RefObject<HTMLElement | null>): Guard {
  const [isOver, setIsOver] = useState(false)
  const [sight, setSight] = useState<Sight>('away')
  const latest = useRef<Sight>('away')
  const delay = useRef<AnswerDelay | undefined>(undefined)
  delay.current ??= new AnswerDelay(setIsOver)

  // biome-ignore lint/correctness/useExhaustiveDependencies: another question, or a panel that opens, starts over
  useEffect(() => {
    const restart = () => delay.current?.restart()
    const onVisibility = () => document.hidden || restart()
    restart()
    const see = (next: Sight) => {
      if (next === 'seen' && latest.current !== 'seen') restart()
      latest.current = next
      setSight(next)
    }
    const pause = () => delay.current?.restart(surpriseMs)
    const watching = new AbortController()
    const { signal } = watching
    if (section.current) watchSight(section.current, see, pause, signal)
    document.addEventListener('visibilitychange', onVisibility, { signal })
    document.addEventListener(surprise, pause, { signal })
    return () => watching.abort()
  }, [question, isShown])

  return {
    isReady: isOver && sight === 'seen',
    isCovered: sight === 'covered',
    press: () => delay.current?.press(),
    accepts: (clicks) => latest.current === 'seen' && (delay.current?.accepts(clicks) ?? false),
  }
}
