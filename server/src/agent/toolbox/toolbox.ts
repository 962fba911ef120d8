import type { Governed, ToolCall } from '../../kernel/foundation/tool.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type { LateResponse } from '../../tools/hub/hub.ts'
import type { AllowedChoice, ReasonData, Run, ThreadTrust, ToolCallRow, ToolRef } from '../runs/run.ts'

/** A tool that the model can call in a run. */
export interface AgentTool {
  /** As the model knows it: matches `^[a-zA-Z0-9_-]{1,64}$`, and is unique in the list. */
  name: string
  title: string | undefined
  description: string
  inputSchema: Record<string, unknown>
  ref: ToolRef
  definitionHash: string
  /** Whether it may change something. */
  isWriting: boolean
  /** The organization's setting for the tool. */
  policy: 'auto' | 'ask' | 'never' | undefined
}

export interface Verdict {
  verdict: 'run' | 'ask' | 'refuse'
  /** Why the user is asked, or why the call is refused: a sentence for the user and the model. */
  reason: string
  /** The same for clients, which may have the sentence in another language. */
  data?: ReasonData
  /** What the user can allow for the rest of the thread, if the call has no arguments. */
  choice?: AllowedChoice
}

/** How a call ended. `result` is the text for the model, not yet capped. */
export interface ToolOutcome {
  state: 'succeeded' | 'failed' | 'refused'
  result: string
  /** The origins that the text comes from. */
  origins: readonly string[]
  /** Undefined for tools that no governance provider is asked about. */
  governance?: Governed | undefined
  /** The ID of the connector that the user has to connect their account to. */
  connectTo?: string
}

/** A skill in the index that the model sees. */
export interface SkillEntry {
  name: string
  description: string
}

/** The tools of the user's pages, the organization's connectors, the AG-UI client, and the built-in ones. */
export interface Toolbox {
  /**
   * The tools that the model gets in the next step, sorted by name. Above 64 it gets `find_tools` and the tools that it
   * has found in this run, according to `calls`.
   */
  list(run: Run, calls: readonly ToolCallRow[]): Promise<AgentTool[]>
  /** The tool that a call was made for, among all that the user has now; undefined if it's gone or has changed. */
  find(run: Run, call: Pick<ToolCallRow, 'definition_hash'>): Promise<AgentTool | undefined>
  /** Decides about a call before it is made. `calls` are those that the run has made so far. */
  judge(run: Run, tool: AgentTool, args: Record<string, unknown>, trust: ThreadTrust): Promise<Verdict>
  /** What is wrong with arguments that the user edited; undefined if they fit the tool's schema. */
  findProblem(tool: AgentTool, args: Record<string, unknown>): string | undefined
  /**
   * Makes the call, once, unless the caller loses its right to. Governance judges it before and after. Throws only if
   * the signal aborts.
   */
  call(run: Run, call: ToolCallRow, caller: Pick<ToolCall, 'signal' | 'mayStillCall'>): Promise<ToolOutcome>
  /** How a call of a page's tool ended whose result arrived late. Throws if it can't be judged or recorded now. */
  readLateResponse(run: Run, call: ToolCallRow, late: LateResponse): Promise<ToolOutcome>
  /** The skills for the page's host. */
  listSkills(sql: Sql, run: Run): Promise<SkillEntry[]>
  /** A skill's body, verbatim; undefined if there is none with this name for the page's host. */
  readSkill(run: Run, name: string): Promise<string | undefined>
}
