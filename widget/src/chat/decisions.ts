import { isActive } from './merge.ts'
import type { CallDecision, Entry, EntryPart, ToolEntryPart } from './state.ts'

/** What the user has decided, by call. Each decision is shown until the server shows it. */
export type Decisions = Map<string, Decision>

interface Decision {
  made: CallDecision
  /** The call as the server asks about it, and as it's shown instead. */
  asked?: ToolEntryPart
  shown?: ToolEntryPart
}

/** No longer asks about calls on which the user has decided, although the server still does. */
export function showDecisions(decisions: Decisions, entries: readonly Entry[]): readonly Entry[] {
  if (decisions.size === 0) return entries
  const show = (part: EntryPart): EntryPart => {
    const decision = part.kind === 'tool' && part.state === 'asking' && decisions.get(part.callId)
    if (!decision) return part
    const { isApproved, editedArgs } = decision.made
    const shown: ToolEntryPart = {
      ...part,
      state: isApproved ? 'running' : 'declined',
      editedInput: isApproved ? editedArgs : undefined,
      inputSchema: undefined,
    }
    Object.assign(decision, { asked: part, shown })
    return shown
  }
  return entries.map((entry) =>
    entry.role === 'user' || !isActive(entry) ? entry : { ...entry, parts: entry.parts.map(show) },
  )
}

/** Keeps the decision, if an active run has this call. */
export function decide(
  decisions: Decisions,
  entries: readonly Entry[],
  callId: string,
  made: CallDecision,
): readonly Entry[] {
  const isThere = (part: EntryPart) => part.kind === 'tool' && part.callId === callId
  if (entries.some((entry) => entry.role === 'assistant' && isActive(entry) && entry.parts.some(isThere)))
    decisions.set(callId, { made })
  return showDecisions(decisions, entries)
}

/** The server didn't accept the decision: asks again. */
export function undecide(decisions: Decisions, entries: readonly Entry[], callId: string): readonly Entry[] {
  const { asked, shown } = decisions.get(callId) ?? {}
  decisions.delete(callId)
  if (!asked || !shown) return entries
  return entries.map((entry) => {
    if (entry.role === 'user' || !entry.parts.includes(shown)) return entry
    return { ...entry, parts: entry.parts.map((part) => (part === shown ? asked : part)) }
  })
}
