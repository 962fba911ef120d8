/** `covered`: the browser says that something hides the question, or makes it transparent, distorted or filtered. */
export type Sight = 'seen' | 'away' | 'covered'

interface VisibilityEntry extends IntersectionObserverEntry {
  isVisible?: boolean
}

/** Of Intersection Observer v2. Browsers without it ignore the first two options. */
const options = { trackVisibility: true, delay: 100, threshold: [0, 0.25, 0.5, 0.75, 0.99, 1] }
/** How much of a question must be in view, in pixels: its heading, its buttons, and some of what it's about. */
const least = 120
const enough = 180

const canTrack = () => 'isVisible' in IntersectionObserverEntry.prototype

/**
 * Watches whether the user can really see a question, also against the page around the frame, and whether its choices
 * move in the frame. Browsers that can't tell report `seen`.
 *
 * The browser can only tell for elements that nothing covers, not even a part of themselves that sticks to an edge. So
 * what it watches is a veil that exactly covers the visible part of the question, and lets all input through.
 */
export function watchSight(
  question: Element,
  onChange: (sight: Sight) => void,
  onMove: () => void,
  signal: AbortSignal,
): void {
  const area = question.closest('main') ?? document.body
  const veil = document.createElement('div')
  veil.className = 'veil'
  let lastPlace = ''
  const place = () => {
    const choices = question.querySelector('.choices')?.getBoundingClientRect()
    const choicesPlace = `${choices?.left} ${choices?.top}`
    if (choicesPlace !== lastPlace) onMove()
    lastPlace = choicesPlace
    const whole = question.getBoundingClientRect()
    const frame = area.getBoundingClientRect()
    const top = Math.max(whole.top, frame.top)
    const height = Math.min(whole.bottom, frame.bottom) - top
    veil.hidden = height < Math.max(least, Math.min(whole.height, enough, frame.height * 0.8))
    const { style } = veil
    style.top = `${top}px`
    style.left = `${whole.left}px`
    style.width = `${whole.width}px`
    style.height = `${height}px`
  }
  const sizes = new ResizeObserver(place)
  for (const part of [question, ...document.querySelectorAll('body, main, .content')]) sizes.observe(part)
  // The page may have resized the frame right before a click.
  for (const type of ['scroll', 'pointerdown'])
    document.addEventListener(type, place, { capture: true, passive: true, signal })
  document.documentElement.append(veil)
  place()

  const observer = new IntersectionObserver((entries) => {
    const last = entries.at(-1)
    if (last) onChange(judge(last))
  }, options)
  if (canTrack()) observer.observe(veil)
  else onChange('seen')
  signal.onabort = () => {
    observer.disconnect()
    sizes.disconnect()
    veil.remove()
  }
}

function judge({ isIntersecting, isVisible, intersectionRect: seen, boundingClientRect: all }: VisibilityEntry): Sight {
  if (!isIntersecting) return 'away'
  return isVisible && seen.height >= all.height - 1 && seen.width >= all.width - 1 ? 'seen' : 'covered'
}
