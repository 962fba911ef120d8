/** How long a question must be in view before it can be answered. */
const answerDelayMs = 500

/**
 * Ignores input that was meant for something else: anything in the question's first half second, and the second click
 * of a double click.
 */
export class AnswerDelay {
  readonly #onChange: (isOver: boolean) => void
  #isOver = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(onChange: (isOver: boolean) => void) {
    this.#onChange = onChange
  }

  /** A question has just come into view. */
  restart(): void {
    clearTimeout(this.#timer)
    this.#set(false)
    this.#timer = setTimeout(() => this.#set(true), answerDelayMs)
  }

  /** `clicks` is the `detail` of a click event: 2 for the second click of a double click, 0 for a key press. */
  accepts(clicks: number): boolean {
    return this.#isOver && clicks < 2
  }

  #set(isOver: boolean): void {
    this.#isOver = isOver
    this.#onChange(isOver)
  }
}
