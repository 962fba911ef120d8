import type { ServerMessage } from '@inlay/protocol'
import { addChunks, closeParts, steeringIds } from './chunks.ts'
import { deliveryOnServer, isUnsent } from './delivery.ts'
import type { AgentEntry, Entry } from './state.ts'

type ListedMessage = Extract<ServerMessage, { type: 'chat/message-list' }>['messages'][number]

export const isActive = ({ status }: Pick<AgentEntry, 'status'>): boolean =>
  status === 'running' || status === 'waiting'

export function readEntry(message: ListedMessage, pageOrigin: string): Entry {
  const { id, created_at: createdAt } = message
  if (message.role === 'user') {
    const { text, skill, is_queued } = message
    return { role: 'user', id, text, skill, createdAt, delivery: deliveryOnServer(is_queued) }
  }
  const { status, error, feedback } = message
  const parts = addChunks([], message.chunks, pageOrigin)
  return {
    role: 'assistant',
    id,
    createdAt,
    status,
    error,
    feedback,
    parts: isActive({ status }) ? parts : closeParts(parts, status),
  }
}

interface PageOfEntries {
  entries: readonly Entry[]
  /** Whether the thread has entries before them. */
  hasEarlier: boolean
}

/**
 * Replaces the end of a thread by what the server has, and keeps what it can't have yet: entries that are newer than the
 * request, and messages that weren't sent. Undefined if there are unknown entries between the two.
 */
export function mergeEnd(
  local: readonly Entry[],
  { entries: page, hasEarlier }: PageOfEntries,
  isNewer: (entry: Entry) => boolean,
): Entry[] | undefined {
  const first = page[0]
  const start = hasEarlier && first ? local.findIndex(({ id }) => id === first.id) : 0
  if (start < 0) return undefined
  const known = new Map(local.slice(start).map((entry) => [entry.id, entry]))
  const listed = page.map((entry) => {
    const before = known.get(entry.id)
    return before && (isNewer(before) || isSame(before, entry)) ? before : entry
  })
  const ids = new Set(page.map(({ id }) => id))
  for (const entry of listed) if (entry.role === 'assistant') for (const id of steeringIds(entry.parts)) ids.add(id)
  const rest = [...known.values()].filter((entry) => !ids.has(entry.id) && (isUnsent(entry) || isNewer(entry)))
  return [...local.slice(0, start), ...listed, ...rest]
}

/** The contents of a run that has ended don't change, and the local one may have notices that aren't stored. */
const isSame = (local: Entry, listed: Entry): boolean =>
  local.role === 'user'
    ? listed.role === 'user' && local.delivery === listed.delivery
    : listed.role === 'assistant' &&
      !isActive(local) &&
      local.status === listed.status &&
      local.feedback === listed.feedback

/** Without the user's last message and its answer, which an edited message replaces. */
export function cutLastTurn(entries: readonly Entry[]): Entry[] {
  const sent = entries.filter((entry) => !isUnsent(entry))
  let end = Math.max(
    sent.findLastIndex(({ role }) => role === 'assistant'),
    0,
  )
  while (sent[end - 1]?.role === 'user') end -= 1
  return [...sent.slice(0, end), ...entries.filter(isUnsent)]
}
