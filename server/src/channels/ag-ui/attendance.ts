import type { Service } from '../../kernel/foundation/service.ts'
import { failure } from '../../kernel/lib/errors.ts'
import { hasFairShare } from '../../kernel/lib/shares/fair-share.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'

export const attendanceChannel = 'ag-ui'

/** About a thread that a client shows, as `<organization>:<thread>`. */
export type AttendanceMessage =
  /** A client lost its connection; nodes where another client shows the thread respond with `attached`. */
  { lost: string } | { attached: string }

const MiB = 1024 * 1024

/**
 * Maximum number of streams on one node: per end user or visitor, per key for visitors, and in total. An organization has
 * a fair share of the total: half of it, and less while others need it.
 */
const maxStreams = { user: 10, visitors: 500, node: 2_000 }
/**
 * Maximum size of the views that clients have sent with their open streams: per key for visitors, per organization, and in
 * total. A stream needs its view until it ends, because a run that starts anew is shown with the messages before it.
 */
const maxViewBytes = { visitors: 32 * MiB, organization: 64 * MiB, node: 256 * MiB }

/** How long a run continues after its client has disconnected. */
const reattachWithinMs = 10_000
/** How often the other nodes are asked meanwhile, because a question or an answer can be lost. */
const askAgainMs = 3_000

/** Knows which threads have a client, on any node, and stops the runs whose client doesn't come back. */
export interface Attendance {
  /** Counts a stream until the returned function is called. Throws if there are too many. */
  admit(holder: TicketHolder, visitor: string | undefined, bytes: number): () => void
  /** A client shows the thread. */
  attach(thread: string): void
  /** A client has the end of its run. */
  finish(thread: string): void
  /**
   * A client disconnected before the end of its run. `over` is called once: with true if no client came back in time,
   * with false if one did, or if the server shuts down. The returned function cancels it.
   */
  lose(thread: string, over: (isAbandoned: boolean) => void): () => void
  close(): Promise<void>
}

/** `graceMs` is for tests. */
export async function createAttendance(
  { bus, log }: Pick<Service, 'bus' | 'log'>,
  graceMs = reattachWithinMs,
): Promise<Attendance> {
  /** Number of streams of this node, by thread. */
  const streams = new Map<string, number>()
  /** Functions that end the wait for a client, by thread. */
  const waits = new Map<string, Set<(isAbandoned: boolean) => void>>()
  const places = new Map<string, number>()
  let isClosed = false

  const publish = (message: AttendanceMessage) =>
    void bus
      .publish(attendanceChannel, message)
      .catch((error) => log.warn({ err: error }, 'Could not tell the other nodes about an AG-UI client'))

  function endWaits(thread: string): void {
    for (const end of waits.get(thread) ?? []) end(false)
  }

  function detach(thread: string): void {
    const rest = (streams.get(thread) ?? 0) - 1
    if (rest > 0) streams.set(thread, rest)
    else streams.delete(thread)
  }

  const taken = (key: string): number => places.get(key) ?? 0
  const hasSpace = ({ key, size, limit, owner }: Claim): boolean =>
    owner === undefined
      ? taken(key) + size <= limit
      : hasFairShare({ total: limit, taken: taken(key), own: taken(owner) }, size)

  const unsubscribe = await bus.subscribe<AttendanceMessage>(attendanceChannel, (message) => {
    if ('attached' in message) endWaits(message.attached)
    else if (streams.has(message.lost)) publish({ attached: message.lost })
  })

  return {
    admit(holder, visitor, bytes) {
      const claims = claimsOf(holder, visitor, bytes)
      const full = claims.find((claim) => !hasSpace(claim))
      if (full) throw tooManyStreams(full.message)
      for (const { key, size } of claims) places.set(key, taken(key) + size)
      return () => {
        for (const { key, size } of claims) {
          const rest = taken(key) - size
          if (rest > 0) places.set(key, rest)
          else places.delete(key)
        }
      }
    },
    attach(thread) {
      streams.set(thread, (streams.get(thread) ?? 0) + 1)
      publish({ attached: thread })
    },
    finish: detach,
    lose(thread, over) {
      detach(thread)
      const end = (isAbandoned: boolean) => {
        if (!stop()) return
        over(isAbandoned)
      }
      const timer = setTimeout(() => end(true), graceMs).unref()
      const asking = setInterval(() => publish({ lost: thread }), askAgainMs).unref()
      const stop = (): boolean => {
        clearTimeout(timer)
        clearInterval(asking)
        const ends = waits.get(thread)
        const isFirst = ends?.delete(end) ?? false
        if (ends?.size === 0) waits.delete(thread)
        return isFirst
      }
      waits.getOrInsertComputed(thread, () => new Set()).add(end)
      if (isClosed) end(false)
      // Another stream may show the thread, here or on another node, which then responds with `attached`.
      publish({ lost: thread })
      return stop
    },
    async close() {
      isClosed = true
      for (const thread of [...waits.keys()]) endWaits(thread)
      await unsubscribe()
    },
  }
}

/** A part of something that is limited. */
interface Claim {
  key: string
  size: number
  limit: number
  /** The key of the one who only has a fair share of the limit. */
  owner?: string
  message: string
}

function claimsOf(
  { end_user, publishable_key_id, organization_id }: TicketHolder,
  visitor: string | undefined,
  bytes: number,
): Claim[] {
  const [streams, views] = [`organization ${organization_id}`, `bytes of ${organization_id}`]
  const isBusy = 'This server has no room for more conversations of this organization.'
  const ofVisitors = [
    {
      key: `key ${publishable_key_id}`,
      size: 1,
      limit: maxStreams.visitors,
      message: `Visitors with this key already have ${maxStreams.visitors} conversations running on this server.`,
    },
    {
      key: `bytes of key ${publishable_key_id}`,
      size: bytes,
      limit: maxViewBytes.visitors,
      message: 'Visitors with this key have too many long conversations open on this server.',
    },
  ]
  return [
    {
      key: end_user ? `user ${end_user.id}` : `visitor ${visitor}`,
      size: 1,
      limit: maxStreams.user,
      message: `This user already has ${maxStreams.user} conversations running on this server.`,
    },
    ...(end_user ? [] : ofVisitors),
    { key: streams, size: 1, limit: maxStreams.node, message: isBusy },
    { key: 'node', size: 1, limit: maxStreams.node, owner: streams, message: isBusy },
    {
      key: views,
      size: bytes,
      limit: maxViewBytes.organization,
      message: 'This organization has too many long conversations open on this server.',
    },
    {
      key: 'bytes',
      size: bytes,
      limit: maxViewBytes.node,
      owner: views,
      message: 'This server has no room for more long conversations of this organization.',
    },
  ]
}

const tooManyStreams = (message: string) =>
  failure(429, 'TOO_MANY_STREAMS', `${message} Try again when one has finished.`, { headers: { 'retry-after': '5' } })
