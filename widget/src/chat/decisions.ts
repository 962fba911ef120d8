import { isActive } from './merge.ts'
import type { CallDecision, Entry, EntryPart, ToolEntryPart } from './state.ts'

/** What the user has decided, by call. Each decision is shown until the server shows it. */
export type Decisions = Map<string, Decision>

interface Decision {
  made: CallDecision
  /** The call as the server asks about it, and as it's shown instead. */
  asked: ToolEntryPart
  shown: ToolEntryPart
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
    decisions.set(part.callId, { ...decision, asked: part, shown })
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
  for (const entry of entries) {
    if (entry.role === 'user' || !isActive(entry)) continue
    const asked = entry.parts.find((part) => part.kind === 'tool' && part.callId === callId)
    if (asked?.kind === 'tool') decisions.set(callId, { made, asked, shown: asked })
  }
  return showDecisions(decisions, entries)
}

/** The server didn't accept the decision: asks again. */
export function undecide(decisions: Decisions, entries: readonly Entry[], callId: string): readonly Entry[] {
  const decision = decisions.get(callId)
  if (!decision) return entries
  decisions.delete(callId)
  const { asked, shown } = decision
  return entries.map((entry) => {
    if (entry.role === 'user' || !entry.parts.includes(shown)) return entry
    return { ...entry, parts: entry.parts.map((part) => (part === shown ? asked : part)) }
  })
}
