/** How long a question must be in view before it can be answered. */
const answerDelayMs = 500

/**
 * Ignores input that was meant for something else: anything in the question's first half second, and the second click
 * of a double click.
 */
export class AnswerDelay {
  readonly #onChange: (isOver: boolean) => void
  #isOver = false
  /** Whether it was over when the user began to click. */
  #wasOver = false
  #end = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(onChange: (isOver: boolean) => void) {
    this.#onChange = onChange
  }

  /** A question has just come into view, or has moved. A longer delay that has begun isn't shortened. */
  restart(ms = answerDelayMs): void {
    const now = performance.now()
    this.#end = Math.max(this.#end, now + ms)
    clearTimeout(this.#timer)
    this.#set(false)
    this.#timer = setTimeout(() => this.#set(true), this.#end - now)
  }

  /** The user presses the mouse, a pen or a finger on a choice. */
  press(): void {
    this.#wasOver = this.#isOver
  }

  /** `clicks` is the `detail` of a click event: 2 for the second click of a double click, 0 for a key press. */
  accepts(clicks: number): boolean {
    return this.#isOver && (clicks === 0 || (clicks === 1 && this.#wasOver))
  }

  #set(isOver: boolean): void {
    this.#isOver = isOver
    this.#wasOver &&= isOver
    this.#onChange(isOver)
  }
}
