/** The batches to pass on at the end of this turn of the event loop. */
const due: (() => void)[] = []
let isScheduled = false

function schedule(flush: () => void): void {
  due.push(flush)
  if (!isScheduled) setImmediate(endTurn)
  isScheduled = true
}

/** A batch may fill another one, which is passed on in the same turn. */
function endTurn(): void {
  try {
    for (let flush = due.shift(); flush; flush = due.shift()) flush()
  } finally {
    isScheduled = due.length > 0
    if (isScheduled) setImmediate(endTurn)
  }
}

/**
 * Collects items during one turn of the event loop and passes them on together at its end. Writing to a socket or a
 * stream costs far more for many small writes than for a few that follow each other.
 */
export function createTurnBatch<T>(passOn: (items: readonly T[]) => void) {
  let waiting: T[] = []

  function flush(): void {
    if (waiting.length === 0) return
    const items = waiting
    waiting = []
    passOn(items)
  }

  return {
    add(item: T): void {
      if (waiting.length === 0) schedule(flush)
      waiting.push(item)
    },
    /** Passes the items on now, for a caller that can't wait for the end of the turn. */
    flush,
  }
}
