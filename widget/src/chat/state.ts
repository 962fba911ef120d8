import type { ServerMessage } from '@inlay/protocol'

/** What the panel shows of the agent. The session replaces changed parts with new objects, and leaves the others. */
export interface ChatState {
  /** Unknown until the server has said it. */
  agent: AgentInfo | undefined
  /** The conversation that is open. A new one has no entries, and exists on the server once something was sent. */
  threadId: string
  title: string | null
  entries: readonly Entry[]
  /** Whether the server has entries before the first one. */
  hasEarlier: boolean
  isLoading: boolean
  /** Whether the agent is working, so that it can be stopped. */
  isWorking: boolean
  /** Calls that wait for the user, oldest first. */
  questions: readonly ToolEntryPart[]
  /** Why the last request failed, until the next one. */
  problem: ChatProblem | undefined
  threads: ThreadList
  /** What the user has typed in this conversation and not sent. Survives reloads. */
  draft: string
  /** The service whose account the user has just connected, until the next request. */
  connectedService: string | undefined
  /** Whether the user has just signed in and can keep the conversation that they had as a visitor. */
  canAdopt: boolean
  /** The last message, if it was sent in another tab while this one showed the conversation. */
  elsewhere: string | undefined
}

export interface AgentInfo {
  name: string
  greeting: string
  starterPrompts: readonly string[]
  skills: readonly { name: string; description: string }[]
  /** Tool servers that the agent can use. */
  connectorCount: number
  /** Why the agent can't answer now: no model, or visitors aren't allowed. */
  problem: ChatProblem | undefined
}

/** Problems that the session finds itself. */
export type OwnProblem = 'MESSAGE_TOO_LONG' | 'TOO_MANY_WAITING' | 'RUN_ACTIVE' | 'CONVERSATION_GONE'

export interface ChatProblem {
  code: string
  /** The server's text for the user. Empty for an `OwnProblem`. */
  message: string
  /** Values in the text. */
  values?: Readonly<Record<string, unknown>>
  /** When it helps to try again, as `Date.now()`. */
  retryAt?: number
}

export interface ThreadList {
  threads: readonly Thread[]
  hasMore: boolean
  isLoading: boolean
  query: string
  isArchive: boolean
}

export interface Thread {
  id: string
  title: string | null
  status: 'running' | 'waiting' | 'succeeded' | 'failed' | 'stopped' | null
  lastMessageAt: string | null
  isArchived: boolean
}

export type Entry = UserEntry | AgentEntry

export interface UserEntry {
  role: 'user'
  id: string
  text: string
  skill: string | null
  createdAt: string
  /** `waiting`: typed while offline, and sent later. `queued`: enters at the run's next step. */
  delivery: 'waiting' | 'sending' | 'queued' | 'delivered' | 'refused'
}

export interface AgentEntry {
  role: 'assistant'
  id: string
  createdAt: string
  status: 'running' | 'waiting' | 'succeeded' | 'failed' | 'stopped'
  error: { code: string; message: string } | null
  parts: readonly EntryPart[]
  feedback: 'up' | 'down' | null
}

export type EntryPart =
  | { kind: 'text'; key: string; text: string; isStreaming: boolean }
  | ToolEntryPart
  /** A message of the user that entered during the run. */
  | { kind: 'steering'; key: string; text: string }
  | { kind: 'notice'; key: string; text: string }
  | { kind: 'skill'; key: string; name: string; tokens: number }
  | { kind: 'summary'; key: string }

export interface ToolEntryPart {
  kind: 'tool'
  key: string
  callId: string
  /** The tool's own name and title, which are untrusted text. */
  name: string
  title: string | null
  /** Where it runs. `source` is the page's origin or the connector's name. */
  place: 'page' | 'tab' | 'connector' | 'built-in' | 'client' | 'unknown'
  source: string | null
  input: Record<string, unknown>
  /** The arguments as the user changed them. */
  editedInput: Record<string, unknown> | undefined
  /** JSON Schema of the arguments, for the form; only while the user is asked. */
  inputSchema: Record<string, unknown> | undefined
  state: 'running' | 'asking' | 'done' | 'failed' | 'declined' | 'stopped'
  /** Why the user is asked, in English. */
  reason: string | null
  /** The same as a `code` with the values in the text. Servers before this one don't send it. */
  reasonData: Readonly<Record<string, unknown>>
  output: string | null
  error: string | null
  durationMs: number | null
  /** The user has to connect their account at this service. `path` is on the frame's own origin. */
  connect: { service: string; path: string } | undefined
}

export interface CallDecision {
  isApproved: boolean
  editedArgs?: Record<string, unknown>
  /** Also later calls: of this tool, or of all tools that the question counts. */
  always?: 'tool' | 'origin'
}

/** The conversations of one frame: holds the state, and talks to the server. */
export interface ChatSession {
  readonly state: ChatState
  /** Calls back after each change, at most once per frame of the screen. Returns a function that ends it. */
  subscribe(onChange: () => void): () => void
  /** Passes on a message of the server. Ignores other messages than those of conversations. */
  receive(message: ServerMessage): void
  /** The socket is ready; another user's session starts over. */
  connected(user: { id: string; isAnonymous: boolean; isResumed: boolean }): void
  /** The socket was lost. Whatever the user sends is kept until it is back. */
  disconnected(): void
  send(text: string, skill?: string): void
  /** Replaces the user's last message and its answer. */
  edit(text: string): void
  /** Answers again, also after a failure. */
  regenerate(): void
  stop(): void
  decide(callId: string, decision: CallDecision): void
  rate(messageId: string, rating: 'up' | 'down' | null, comment?: string): void
  setDraft(text: string): void
  loadEarlier(): void
  newThread(): void
  openThread(id: string): void
  listThreads(options: { query?: string; isArchive?: boolean; isMore?: boolean }): void
  renameThread(id: string, title: string): void
  archiveThread(id: string, isArchived: boolean): void
  deleteThread(id: string): void
  /** Completes the connection of an account at a third party, as soon as the user is known. */
  connectAccount(code: string): void
  /** Answers the offer of `canAdopt`: makes the visitor's conversation the user's own and opens it, or forgets it. */
  adopt(isWanted: boolean): void
}
