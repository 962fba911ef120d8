import { vi } from 'vitest'

/** A busy machine may need longer than the second that the runner waits by default. What is true at once costs nothing. */
const { waitFor } = vi
vi.waitFor = (callback, options) =>
  waitFor(callback, typeof options === 'number' ? options : { timeout: 10_000, ...options })
