import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../lib/clock.ts'
import { randomText } from '../lib/randomness.ts'
import { fingerprint } from '../lib/secrets.ts'
import type { Kv } from './kv.ts'

/**
 * Values that are worth less than writing them down, each for a ticket: whoever holds one asks for another. On one
 * machine they stay in the memory of the process; between machines those of many callers travel as one.
 */
export interface Brief {
  /** The value is handed over, not copied. Its ticket is 264 random bits as text. */
  issue(value: unknown): Promise<string>
  /** Exactly one of several callers gets the value. */
  take<T>(ticket: string): Promise<T | undefined>
}

/** About 100 MB of them. */
export const mostBriefValues = 250_000

const makeRoomEveryMs = 1_000

export function briefInMemory(clock: Clock, lifetimeSeconds: number): Brief {
  const entries = new Map<string, { value: unknown; expiresAt: number }>()
  let roomMadeAt = 0
  /** From the oldest on: those that have expired, and as many more as there are too many. */
  const makeRoom = (now: number) => {
    roomMadeAt = now
    for (const [ticket, { expiresAt }] of entries) {
      if (expiresAt > now && entries.size < mostBriefValues) return
      entries.delete(ticket)
    }
  }
  return {
    async issue(value) {
      const now = clock()
      if (entries.size >= mostBriefValues || now >= roomMadeAt + makeRoomEveryMs) makeRoom(now)
      const ticket = randomText(44)
      entries.set(ticket, { value, expiresAt: now + lifetimeSeconds * 1000 })
      return ticket
    },
    async take<T>(ticket: string) {
      const entry = entries.get(ticket)
      entries.delete(ticket)
      return entry && entry.expiresAt > clock() ? (entry.value as T) : undefined
    },
  }
}

/** Whoever takes one value reads its batch. */
const mostInBatch = 16
const idLength = 20

interface Batch {
  id: string
  /** Each with its secret. */
  values: [secret: string, value: unknown][]
  stored: Promise<void>
}

/**
 * One write is under way at a time, and what is issued meanwhile is the next: sealing a value and sending it costs far
 * more than a place in a batch. A ticket is the name of its batch, and a secret that only the sealed batch knows.
 */
export function briefInBatches(kv: Omit<Kv, 'brief'>, lifetimeSeconds: number): Brief {
  let next: Batch | undefined
  let underWay: Promise<unknown> = Promise.resolve()
  const nameOf = (id: string) => `brief:${id}`

  const begin = (): Batch => {
    const id = randomText(idLength)
    const values: Batch['values'] = []
    const send = async () => {
      await nextTurn()
      if (next?.id === id) next = undefined
      await kv.set(nameOf(id), values, lifetimeSeconds)
    }
    // What waits for a write that fails fails with it: in turn, each would wait as long for a Redis that says nothing.
    const stored = underWay.then(send)
    underWay = stored
    stored.catch(() => {
      if (next?.id === id) next = undefined
      if (underWay === stored) underWay = Promise.resolve()
    })
    return { id, values, stored }
  }
  return {
    async issue(value) {
      if (!next || next.values.length === mostInBatch) next = begin()
      const batch = next
      const secret = randomText(24)
      batch.values.push([secret, value])
      await batch.stored
      return batch.id + secret
    },
    async take<T>(ticket: string) {
      const secret = ticket.slice(idLength)
      const batch = await kv.get<[string, T][]>(nameOf(ticket.slice(0, idLength)))
      const found = batch?.find(([ofEntry]) => ofEntry === secret)
      if (!found) return undefined
      const isFirst = await kv.setIfAbsent(`taken:${fingerprint(ticket)}`, true, lifetimeSeconds)
      return isFirst ? found[1] : undefined
    },
  }
}
