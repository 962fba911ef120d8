import type { Service } from '../../kernel/foundation/service.ts'
import type { Standing } from '../../visitors/tickets/standing.ts'
import type { RunLog } from '../feeds/feeds.ts'
import type { Model, Models } from '../models/models.ts'
import type { Prices } from '../models/prices.ts'
import type { Lease } from '../runs/leases.ts'
import type { Conversation } from '../runs/rows.ts'
import type { Run, RunError, RunFailure } from '../runs/run.ts'
import type { TextSaver } from '../runs/text-saver.ts'
import type { AgentSettings } from '../settings/agent-settings.ts'
import type { RunTrace } from '../telemetry/run-trace.ts'
import type { SkillEntry, Toolbox } from '../toolbox/toolbox.ts'

/** The settings of an organization's agent, with the models to try, in order. Empty if none is configured. */
export interface RunSettings extends AgentSettings {
  models: readonly Model[]
}

/** The rows that a run's next step depends on. */
export interface RunRows {
  conversation: Conversation
  standing: Standing | undefined
  skills: SkillEntry[]
}

/** Dependencies that all runs share. */
export interface RunParts extends Pick<Service, 'clock' | 'config' | 'database' | 'log'> {
  models: Models
  prices: Prices
  toolbox: Toolbox
  texts: TextSaver
  settingsOf(organizationId: string): Promise<RunSettings>
  limits: RunLimits
}

interface RunLimits {
  steps: number
  workMs: number
  /** How often work on a run can begin: at first, after each answer of the user, and after a node was lost. */
  beginnings: number
  /** Calls that a model may ask for in one step. */
  callsPerStep: number
  /** How long a model may be silent. Configured by the operator. */
  silenceMs: number
  /** The longest time to wait for a model that asks to wait. */
  waitMs: number
  outputTokens: number
  /** How long a summary may take. */
  summaryMs: number
}

export const runLimits: Omit<RunLimits, 'silenceMs'> = {
  steps: 40,
  workMs: 15 * 60_000,
  beginnings: 100,
  callsPerStep: 16,
  waitMs: 20_000,
  outputTokens: 4_096,
  summaryMs: 120_000,
}

/** A run that this node works on. */
export interface Work {
  run: Run
  lease: Lease
  log: RunLog
  /** Clients discard what they have of a lower one. */
  attempt: number
  /** How many chunks of the progress of each call are in the log. */
  shown: Map<string, number>
  /** Whether this node asked for a summary before the conversation was too long. */
  hasTriedSummary: boolean
  /** Whether no other node has worked on it. */
  isNew: boolean
  startedAt: number
  /** Undefined if telemetry is off. */
  trace: RunTrace | undefined
}

/** Also if the run itself is what stops the servers that work on it. */
export const interruptedTooOften = {
  code: 'TOO_LONG',
  message: 'The agent was interrupted too often, so it stopped. Try again later.',
} satisfies RunError

/** Ends a run with an error that the user sees. */
export class RunFailed extends Error {
  override name = 'RunFailed'
  readonly code: RunFailure

  constructor(code: RunFailure, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
