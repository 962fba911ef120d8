/**
 * Reports how large the panel would like to be: as large as its parts, with all of a question that is scrolled. Returns a
 * function to call after parts were added or removed.
 */
export function watchSize(root: HTMLElement, onSize: (width: number, height: number) => void): () => void {
  const watched = new Set<Element>()
  const observer = new ResizeObserver(() => {
    // While the element hides the frame, sizes are meaningless.
    if (root.offsetWidth === 0) return
    const text = findText(root)
    const hidden = text?.parentElement ? text.offsetHeight - text.parentElement.offsetHeight : 0
    onSize(
      root.offsetWidth,
      findParts(root).reduce((sum, part) => sum + outerHeight(part), hidden),
    )
  })
  return () => {
    for (const part of watched)
      if (!part.isConnected) {
        watched.delete(part)
        observer.unobserve(part)
      }
    for (const part of [...findParts(root), findText(root)]) {
      if (!part || watched.has(part)) continue
      watched.add(part)
      observer.observe(part)
    }
  }
}

/** The question of another assistant. A search of the whole panel would go through every message. */
export const findQuestion = (root: HTMLElement): HTMLElement | null | undefined =>
  [...root.children].find(({ classList }) => classList.contains('asking'))?.querySelector('.question')

const findText = (root: HTMLElement) => findQuestion(root)?.querySelector<HTMLElement>('.question-text')

const findParts = (root: HTMLElement) =>
  [...root.children, root.querySelector('main')?.firstElementChild].filter(
    (part): part is HTMLElement => part instanceof HTMLElement && part.classList.contains('measured'),
  )

function outerHeight(part: HTMLElement): number {
  const { marginTop, marginBottom } = getComputedStyle(part)
  return part.offsetHeight + Number.parseFloat(marginTop) + Number.parseFloat(marginBottom)
}
