import { vi } from 'vitest'

/**
 * Waits longer than the default of one second, because the machine may be busy. Conditions that hold at once cost
 * nothing.
 */
const { waitFor } = vi
vi.waitFor = (callback, options) =>
  waitFor(callback, typeof options === 'number' ? options : { timeout: 60_000, ...options })
