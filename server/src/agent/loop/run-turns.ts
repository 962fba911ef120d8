import { type TurnLimits, Turns } from '../../kernel/lib/shares/fair-queue.ts'
import type { RunHolder } from '../runs/run.ts'

/** Runs that a node works on at the same time: in total, of an organization's users, and of its visitors. */
const runsAtATime = { atATime: 2_000, perLane: 500, leavesSpace: true }

interface Waiting {
  holder: Pick<RunHolder, 'organization_id' | 'end_user'>
  /** Aborts when the run is to end, which waits for no turn. */
  signal: AbortSignal
}

/**
 * Works on runs in turns of organizations and their visitors. A run that waits for its turn is held and can be stopped;
 * its user sees that the agent is working. `work` is told whether the run has waited.
 */
export function createRunTurns(limits: Omit<TurnLimits, 'waiting'> = runsAtATime) {
  // Each user can only have a few runs, so the queue needs no limit.
  const turns = new Turns({ ...limits, waiting: Number.POSITIVE_INFINITY })
  return async ({ holder, signal }: Waiting, work: (hasWaited: boolean) => Promise<void>): Promise<void> => {
    const lane = holder.end_user ? holder.organization_id : `${holder.organization_id} visitors`
    const turn = turns.enter(lane)
    if (turn) await Promise.race([turn, aborted(signal)])
    try {
      await work(turn !== undefined)
    } finally {
      if (turn) void turn.then(() => turns.leave(lane))
      else turns.leave(lane)
    }
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
