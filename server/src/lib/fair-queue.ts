/** The queue is full, and the lane already has its share of it. */
export class QueueFull extends Error {
  override name = 'QueueFull'
}

interface Waiting {
  start(): void
  refuse(): void
}

/**
 * Runs a few jobs at a time and queues a bounded number. Lanes take turns. When the queue is full, a job from a shorter
 * lane replaces the newest job of the longest lane, so that no lane can starve the others.
 */
export function createFairQueue({ atATime, waiting: limit }: { atATime: number; waiting: number }) {
  /** The lane at the front is next. */
  const lanes = new Map<string, Waiting[]>()
  let running = 0
  let waiting = 0

  function next(): Waiting | undefined {
    const [turn] = lanes
    if (!turn) return undefined
    const [lane, jobs] = turn
    const job = jobs.shift()
    lanes.delete(lane)
    if (jobs.length > 0) lanes.set(lane, jobs)
    waiting -= 1
    return job
  }

  function makeRoom(lane: string): void {
    let longest: Waiting[] = []
    for (const jobs of lanes.values()) if (jobs.length > longest.length) longest = jobs
    if (longest.length <= (lanes.get(lane)?.length ?? 0) + 1) throw new QueueFull('Too many jobs are waiting')
    longest.pop()?.refuse()
    waiting -= 1
  }

  function wait(lane: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const job = { start: resolve, refuse: () => reject(new QueueFull('A lane with fewer jobs took the place')) }
      const jobs = lanes.get(lane)
      if (jobs) jobs.push(job)
      else lanes.set(lane, [job])
      waiting += 1
    })
  }

  return async <T>(lane: string, work: () => Promise<T>): Promise<T> => {
    if (running < atATime) running += 1
    else {
      if (waiting >= limit) makeRoom(lane)
      await wait(lane)
    }
    try {
      return await work()
    } finally {
      // Hands the slot directly to the next job, so that a new job can't jump the queue.
      const job = next()
      if (job) job.start()
      else running -= 1
    }
  }
}
