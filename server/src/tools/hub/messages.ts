import type { Approval } from '@inlay/protocol'
import type { Owner } from '../../kernel/foundation/tool-user.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'

/** What nodes send each other about pages, and about the calls to their tools. The messages are sealed. */
export const hubChannels = {
  /** To every node. */
  all: 'hub:4',
  node: (node: string) => `${hubChannels.all}:${node}`,
}

/** An open page, as `GET /hub/sources` returns it. */
export interface SourceDescription {
  sourceId: string
  tabId: string
  origin: string
  title: string
  url: string
  toolCount: number
  connectedAt: string
  lastSeenAt: string
}

/** A page's tool as JSON text: a parsed schema takes about ten times the memory. */
export interface KeptTool {
  readonly name: string
  readonly hash: string
  readonly bytes: number
  /** The `PageTool` as JSON. */
  readonly text: string
}

/** Whether the user sees the page, as reported by the page. Empty for widgets that don't report it. */
export interface Sight {
  inFront?: boolean
  /** The current time while the page is in front; absent if it never was. */
  lastInFrontAt?: number
}

export interface CallOrder {
  call_id: string
  name: string
  args: Record<string, unknown>
  definition_hash: string
  client_name?: string
  /** Set if the user doesn't have to be asked again. */
  approval_id?: string
  deadline: number
  /** Set for a connector's tool: the page only asks the user and doesn't run it. */
  question?: CallQuestion
}

/** Asks the user about a tool that doesn't run in the page. */
interface CallQuestion {
  connector: { name: string; origin: string }
  title?: string
  description: string
  /** Identical for retries: derived from the tool, its arguments and the client. */
  key: string
}

/** Ranks a page as the place to ask the user. */
export interface Asker {
  /** Whether the user can answer there now. Otherwise they have to confirm their browser first. */
  isConfirmed: boolean
  /** The page is already asking this question. */
  isAsking: boolean
  isVisible: boolean
  /** When the page last became visible. */
  shownAt: number
}

/** Selects pages: all without tools, all with their tools, those with one tool, or those that can ask a question. */
export type Wanted = 'sources' | 'tools' | { toolName: string; sourceId: string | undefined } | { question: string }

/** A page on some node, with the tools that the search asked for. */
export interface FoundSource {
  node: string
  source: SourceDescription
  /** Absent if the node runs an older version. */
  sight?: Sight
  tools: KeptTool[]
  /** Absent if the node runs an older version. */
  frame?: PageFrame
  asker?: Asker | undefined
}

/** What shows whose page it is, because a program with the user's ID token can claim its origin. */
export interface PageFrame {
  /** Null without a frame that has one. */
  key: string | null
  isConfirmed: boolean
}

/** Proves that a page may resume its session on another node. */
export interface Claim {
  session: string
  secret: string
  /** Identity, key and origin of the new ticket, which must match the session's. */
  bearer: string
}

/** State that the other node needs to resume a session. */
export interface Handover {
  connectedAt: number
  tools: KeptTool[]
  calls: { order: CallOrder; replyTo: string; startedAt: number }[]
}

export interface Progress {
  progress: number
  total?: number
  message?: string
}

export type CallFailure =
  | 'SOURCE_GONE'
  | 'TOOL_CHANGED'
  | 'SOURCE_BUSY'
  | 'CALL_TIMED_OUT'
  | 'APPROVAL_TIMED_OUT'
  | 'CALL_CANCELLED'

export type Outcome = PageResponse | { failure: CallFailure }

export type HubMessage =
  | { kind: 'find'; ask: string; owner: Owner; wanted: Wanted }
  /** Asks how many pages of an organization the node holds. */
  | { kind: 'count'; ask: string; organizationId: string }
  | { kind: 'claim'; ask: string; claim: Claim }
  | { kind: 'call'; sourceId: string; owner: Owner; order: CallOrder }
  | { kind: 'cancel'; sourceId: string; callId: string; reason: string }
  | { kind: 'asking'; callId: string }
  | { kind: 'allowed'; sourceId: string; callId: string; approval: Approval | undefined }
  | { kind: 'run'; sourceId: string; callId: string }
  | { kind: 'progress'; callId: string; progress: Progress }
  /** With `ask`, the sender wants to know whether the caller was still waiting. */
  | { kind: 'settled'; callId: string; outcome: Outcome; ask?: string }
  | { kind: 'moved'; callId: string }
  | { kind: 'tab opened'; owner: Owner; tabId: string; sourceId: string }

export type NodeSignal =
  /** The node is alive, with or without sources; `who` asks the other nodes to announce themselves. */
  | { signal: 'holding' | 'empty' | 'who' }
  /** One part of a reply. `from` is its offset in the text. */
  | { signal: 'part'; ask: string; text: string; from: number; length: number }
  | { signal: 'more'; ask: string; from: number }
