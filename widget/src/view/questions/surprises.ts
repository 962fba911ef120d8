/** A place on the screen, and in the frame. */
export type Place = Pick<PointerEvent, 'screenX' | 'screenY' | 'clientX' | 'clientY'>

/** How long input is ignored after a surprise, in milliseconds: about as long as users need to notice it. */
export const surpriseMs = 300

/** An event of the document. */
export const surprise = 'inlay:surprise'

/** How large a pixel of a zoomed page can be on the screen. */
const [smallestPixel, largestPixel] = [0.25, 10]

/**
 * Whether the frame has moved on the screen between two events of a pointer. How large a pixel of the frame is isn't
 * known, but while the frame is at rest, the pointer moves in the same direction in both.
 */
export function hasFrameMoved(before: Place, after: Place): boolean {
  const [x, y] = [after.screenX - before.screenX, after.screenY - before.screenY]
  const [inX, inY] = [after.clientX - before.clientX, after.clientY - before.clientY]
  const pixel = (x * inX + y * inY) / (inX ** 2 + inY ** 2) || 1
  const size = Math.min(Math.max(pixel, smallestPixel), largestPixel)
  // Browsers round both coordinates.
  return Math.hypot(x - size * inX, y - size * inY) > 2 + 2 * size
}

/** Follows the mouse in the frame. */
export class MouseWatch {
  /** Where the mouse was after the last surprise, to notice a frame that moves in small steps. */
  #first: Place | undefined
  #last: Place | undefined

  /** Whether the mouse has just come into the frame, or the frame has moved under it. */
  isSurprised(place: Place): boolean {
    const [first, last] = [this.#first, this.#last]
    const isSurprised = !first || !last || hasFrameMoved(first, place) || hasFrameMoved(last, place)
    if (isSurprised) this.#first = place
    this.#last = place
    return isSurprised
  }

  leave(): void {
    this.#last = undefined
  }
}

/**
 * Fires `surprise` when a click may be meant for something else, because the page can move the frame. It has to watch
 * before a question appears. A finger isn't seen before it touches the screen, but browsers that know what covers a
 * question also ignore taps on a frame that has just moved. They take the focus from a button when the page takes it,
 * so keys need no such rule.
 */
export function watchForSurprises(): void {
  const mouse = new MouseWatch()
  const see = (event: PointerEvent) => {
    if (event.pointerType !== 'touch' && mouse.isSurprised(event)) document.dispatchEvent(new Event(surprise))
  }
  window.addEventListener('pointermove', see, true)
  window.addEventListener('pointerdown', see, true)
  document.documentElement.addEventListener('pointerleave', ({ pointerType }) => {
    // Some pens are only seen while they touch the screen.
    if (pointerType === 'mouse') mouse.leave()
  })
}
