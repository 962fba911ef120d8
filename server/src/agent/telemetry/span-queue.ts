/** Encoded spans that wait to be sent. Bounded, so that a receiver that is away can't use up the memory. */
export interface SpanQueue {
  /** Returns false if the queue is full. */
  add(span: Buffer): boolean
  /** The oldest spans that fit into one request. */
  peek(): readonly Buffer[]
  remove(count: number): void
  readonly length: number
}

/** Spans with contents can be large. */
const limits = { spans: 2_048, bytes: 16 * 1024 * 1024 }
const batchLimits = { spans: 512, bytes: 4 * 1024 * 1024 }

export function createSpanQueue(): SpanQueue {
  const spans: Buffer[] = []
  let bytes = 0
  return {
    add(span) {
      if (spans.length >= limits.spans || bytes + span.length > limits.bytes) return false
      spans.push(span)
      bytes += span.length
      return true
    },
    peek() {
      let size = 0
      const end = spans.findIndex((span, index) => {
        size += span.length
        return index > 0 && (index >= batchLimits.spans || size > batchLimits.bytes)
      })
      return end === -1 ? [...spans] : spans.slice(0, end)
    },
    remove(count) {
      for (const span of spans.splice(0, count)) bytes -= span.length
    },
    get length() {
      return spans.length
    },
  }
}
