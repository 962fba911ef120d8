/**
 * Reports how large the panel would like to be: as large as its parts, with all of a question that is scrolled. Returns a
 * function to call after parts were added or removed.
 */
export function watchSize(root: HTMLElement, onSize: (width: number, height: number) => void): () => void {
  const watched = new Set<Element>()
  const observer = new ResizeObserver(() => {
    // While the element hides the frame, sizes are meaningless.
    if (root.offsetWidth === 0) return
    const parts = [...root.querySelectorAll<HTMLElement>('.measured')]
    const text = root.querySelector<HTMLElement>('.question-text')
    const hidden = text?.parentElement ? text.offsetHeight - text.parentElement.offsetHeight : 0
    onSize(
      root.offsetWidth,
      parts.reduce((sum, part) => sum + outerHeight(part), hidden),
    )
  })
  return () => {
    for (const part of watched)
      if (!part.isConnected) {
        watched.delete(part)
        observer.unobserve(part)
      }
    for (const part of root.querySelectorAll('.measured, .question-text')) {
      if (watched.has(part)) continue
      watched.add(part)
      observer.observe(part)
    }
  }
}

function outerHeight(part: HTMLElement): number {
  const { marginTop, marginBottom } = getComputedStyle(part)
  return part.offsetHeight + Number.parseFloat(marginTop) + Number.parseFloat(marginBottom)
}
