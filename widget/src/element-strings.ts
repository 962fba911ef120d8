import { newsBadge, type Signs } from './channel.ts'

/** Texts of the element itself. The frame has its own; the page can replace both with `setHostContext({ strings })`. */
export const english = {
  agent: 'Agent',
  openAgent: 'Open the agent',
  closeAgent: 'Close the agent',
  newActivity: 'new activity',
  waitingCalls: '{count} waiting for approval',
  agentConnecting: 'Connecting…',
  agentNotConnected: "The assistant isn't connected right now.",
}

export type ElementStrings = typeof english

/** Label of the launcher while the panel is closed. */
export function describeLauncher({ openAgent, newActivity, waitingCalls }: ElementStrings, { badge }: Signs): string {
  if (badge === '') return openAgent
  return `${openAgent}: ${badge === newsBadge ? newActivity : waitingCalls.replace('{count}', badge)}`
}
