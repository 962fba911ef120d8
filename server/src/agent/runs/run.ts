import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'

/** A run as its parts see it. The rows have the rest. */
export interface Run {
  id: string
  organizationId: string
  threadId: string
  holder: RunHolder
  /** The open page where the user wrote. Null over AG-UI. */
  page: RunPage | null
  /** Null on the socket, and once the run has ended. */
  client: RunClient | null
}

/** On whose behalf the agent works. */
export interface RunHolder extends TicketHolder {
  /** For an anonymous visitor: UUIDs under which the budgets count the visitor and the network address. */
  subjects?: { address: string; visitor: string } | undefined
}

export interface RunPage {
  /** The session's id, which is the source's id in the hub. It changes when the page is loaded again. */
  source_id: string
  url: string
  title: string
}

/** An AG-UI client. */
export interface RunClient {
  /** The client's name for the run. A resumed run has a new one. */
  run_id: string
  /** The session's origin, empty outside a browser. Older versions didn't store it. */
  origin?: string
  /** Tools that run in the client. */
  tools: ClientTool[]
}

export interface ClientTool {
  name: string
  description: string
  inputSchema: Record<string, unknown>
}

export type RunStatus = 'running' | 'waiting' | 'succeeded' | 'failed' | 'stopped'

/** Why a run failed, for the user. */
export interface RunError {
  code: RunFailure
  message: string
}

export type RunFailure =
  | 'NOT_CONFIGURED'
  | 'MODEL_FAILED'
  | 'CONTEXT_TOO_LONG'
  | 'BUDGET_REACHED'
  | 'ACCESS_ENDED'
  | 'TOO_MANY_STEPS'
  | 'TOO_LONG'
  | 'REPEATED_CALLS'
  | 'INTERNAL_ERROR'

/** Which tool a call is for, as stored with the call. */
export type ToolRef =
  /** `source_id` is the page's that offered the tool. */
  | { kind: 'page'; name: string; origin: string; source_id: string; title: string }
  /** `name` is `<connector>.<tool>`. */
  | { kind: 'connector'; name: string; origin: string; connector: string }
  | { kind: 'built_in'; name: string }
  /** Declared by an AG-UI client, and run there. `origin` is the client's. */
  | { kind: 'client'; name: string; origin: string }

/** A reason as a code with the values in its sentence. Clients may have the sentence in another language. */
export type ReasonData =
  | { code: 'ENDS_ACCESS' | 'ALWAYS_ASKED' | 'MAY_CHANGE' | 'INTERRUPTED_BEFORE' | 'STOPPED' }
  /**
   * `more` is the number of other origins. `may_change` is false if the tool only reads. `tools` is there if the call has
   * no arguments: how many tools the user can allow with one answer.
   */
  | { code: 'TEXT_FROM_ELSEWHERE'; from: string; more: number; to: string; may_change: boolean; tools?: number }

/**
 * A permission to call these tools without arguments, while the conversation's text comes from these origins and the
 * tool's own. Which tool the model calls carries data too, so this isn't part of a permission for a tool.
 */
export interface AllowedChoice {
  from: readonly string[]
  /** Definition hashes. */
  tools: readonly string[]
}

/** A call that the model asked for: a row of `tool_calls`. */
export interface ToolCallRow {
  id: string
  run_id: string
  step: number
  position: number
  /** The name that the model used. */
  name: string
  /** The id that the model used. */
  model_call_id: string
  /** Null if the model called a tool that doesn't exist. */
  tool: ToolRef | null
  /** The tool's title, which is untrusted text. */
  title: string | null
  definition_hash: string | null
  /** For the form in which the user edits the arguments. Null if the user wasn't asked, and if it's too large. */
  input_schema: Record<string, unknown> | null
  args: Record<string, unknown>
  edited_args: Record<string, unknown> | null
  state: ToolCallState
  reason: string | null
  /** Why the user was asked, or that the user stopped the call. */
  reason_data: ReasonData | null
  /** What the user can allow beyond this call, which has no arguments. Not part of a story. */
  allowed_choice?: AllowedChoice | null
  asked_at: string | null
  expires_at: string | null
  decision: 'not_needed' | 'allowed' | 'always_allowed' | 'declined' | null
  decided_at: string | null
  dispatched_at: string | null
  /** In a story only its beginning, unless the tool is a built-in one. */
  result: string | null
  /** Characters of a long result of which a story has the beginning. */
  result_length?: number | null
  ended_at: string | null
  /** Set if the result arrived after the outcome had been reported as unknown: the run's last step by then. */
  late_step: number | null
  /** The connector that the user has to connect their account to before the call can be made. */
  connect_to: string | null
}

/**
 * `new` → `approved` | `asking` | `refused`; `asking` → `approved` | `declined`; `approved` → `running`; `running` →
 * `succeeded` | `failed` | `unknown`. Every state before the end can become `cancelled`. `unknown`: the call may or may
 * not have happened, because the node that made it is gone. If its result arrives later, it becomes `succeeded`,
 * `failed` or `refused`.
 */
type ToolCallState =
  | 'new'
  | 'asking'
  | 'approved'
  | 'running'
  | 'succeeded'
  | 'failed'
  | 'unknown'
  | 'refused'
  | 'declined'
  | 'cancelled'

/** The part of a thread that decides about its calls. */
export interface ThreadTrust {
  /** Origins whose text is in the conversation. */
  origins: readonly string[]
  /** Definition hashes of tools that the user allowed for the rest of the thread. */
  allowed_tools: readonly string[]
  allowed_choices: readonly AllowedChoice[]
}
