import * as z from 'zod'
import {
  longestTicket,
  maxChatMessageLength,
  maxMessageBytes,
  maxNameLength,
  maxRunsPerPage,
  maxThreadTitleLength,
} from './values.ts'

export * from './values.ts'

/**
 * The messages between the widget and the runtime socket: JSON text with a `type`. The server validates them with these
 * schemas; the widget is compiled against their types.
 *
 *   widget                                   server
 *     opens `/runtime` with the subprotocols `inlay.v1` and `inlay.ticket.<ticket>`
 *     hello ───────────────────────────────▶
 *       ◀─────────────────────────────────── ready, calls/recent
 *     tools/list, tools/changed, page ─────▶
 *       ◀─────────────────────────────────── tools/accepted
 *       ◀─────────────────────────────────── tool/call
 *     tool/progress, tool/result ──────────▶
 *
 * A tool that may change something runs in three steps, so that nothing runs for a caller that is no longer waiting:
 *
 *     tool/approval asking ────────────────▶  the user now has `answerWithinMs` to answer
 *     tool/approval allowed ───────────────▶
 *       ◀─────────────────────────────────── tool/run, or tool/cancel
 *
 * `tool/ask` asks the user about a tool that runs at a tool server: the same steps, but nothing runs in the page.
 *
 * The agent's conversations have messages of their own, which start with `chat/`. They follow the AI SDK's
 * `WebSocketChatTransport`: send, resume and abort; start, chunk, end, error and no-active.
 *
 * After its socket drops, a session can be resumed: with a new ticket, a new socket, and a `hello` with the values from
 * `ready`. The server then resends every call that has no result yet. A widget that knows the call_id must not run the
 * tool again: it sends the result it has, or sends it once the tool finishes.
 *
 * A call of the agent has a `receipt`, because the agent continues on another server if the one that made the call is
 * lost. If the page's session is lost too, the page sends the result in its next session, with the receipt.
 */

/** Whether the page's tab is the visible one in its window. Reported by the page, so don't trust it. */
const Visible = z.boolean().optional()

const CallId = z.string().min(1).max(64)
/** Proves that a call was sent to this user, in this tab. */
const Receipt = z.string().min(1).max(64)
const VisitorSecret = z.string().min(32).max(128)
const Milliseconds = z.int().min(0)

/** Uses the names of MCP and WebMCP. */
export const ToolDefinition = z.object({
  name: z.string().min(1).max(maxNameLength),
  title: z.string().optional(),
  description: z.string().default(''),
  /** JSON Schema. The server passes it on to callers; it neither compiles it nor resolves references. */
  inputSchema: z.record(z.string(), z.unknown()).default({ type: 'object', properties: {} }),
  annotations: z
    .object({
      title: z.string().optional(),
      readOnlyHint: z.boolean().optional(),
      destructiveHint: z.boolean().optional(),
      idempotentHint: z.boolean().optional(),
      openWorldHint: z.boolean().optional(),
      consequentialHint: z.boolean().optional(),
      untrustedContentHint: z.boolean().optional(),
    })
    .optional(),
})

/** The first message on a socket. */
const Hello = z.object({
  type: z.literal('hello'),
  /** The widget's id for the tab; it survives reloads. */
  tab_id: z.string().min(1).max(64),
  /** URL of the page that embeds the widget; its origin must be the ticket's. */
  url: z.string(),
  title: z.string(),
  visible: Visible,
  /** The values from `ready`, to resume the session of the same page. */
  resume: z.object({ session: z.string().max(64), secret: z.string().max(128) }).optional(),
  /** For an anonymous visitor: a random secret that the widget keeps. The visitor's threads belong to it. */
  visitor_secret: VisitorSecret.optional(),
})

/**
 * The page's URL, title or visibility changed, without a reload.
 */
const Page = z.object({
  type: z.literal('page'),
  url: z.string().max(maxMessageBytes),
  title: z.string(),
  visible: Visible,
})

/** All tools of the page; replaces the previous list. */
const ToolsList = z.object({ type: z.literal('tools/list'), tools: z.array(ToolDefinition) })

/** Changes since the last message: new or changed tools, and the names of removed ones. */
const ToolsChanged = z.object({
  type: z.literal('tools/changed'),
  set: z.array(ToolDefinition).default([]),
  removed: z.array(z.string().max(maxNameLength)).default([]),
})

/** How the user came to allow or decline a call, and how long after its arrival; see `approval` of GET /tool-calls. */
export const Approval = z.object({
  how: z.enum(['not_needed', 'allowed', 'always_allowed', 'declined']),
  /** Only for calls that the user was asked about. */
  after_ms: Milliseconds.optional(),
})

/**
 * A result of any shape, or an error. `declined`: the user declined; `replaced`: the caller repeated the call while the
 * user was being asked. A result that exceeds a limit must be sent as an error.
 */
const ToolResult = z.object({
  type: z.literal('tool/result'),
  call_id: CallId,
  result: z.unknown().optional(),
  error: z.object({ code: z.enum(['failed', 'declined', 'replaced', 'unknown_tool']), message: z.string() }).optional(),
  approval: Approval.optional(),
  /** The call's, if it has one. */
  receipt: Receipt.optional(),
})

/** The user is being asked about a call, or has allowed it. The tool runs only after the server's `tool/run`. */
const ToolApproval = z.object({
  type: z.literal('tool/approval'),
  call_id: CallId,
  state: z.enum(['asking', 'allowed']),
  /** With `allowed`, for calls that run at a tool server: the widget sends no result for them that could carry it. */
  approval: Approval.optional(),
})

/** Extends the deadline. */
const ToolProgress = z.object({
  type: z.literal('tool/progress'),
  call_id: CallId,
  progress: z.number().default(0),
  total: z.number().optional(),
  message: z.string().optional(),
})

/** The response to the server's `reauth`: a new ticket for the same user, key and page. */
const ReauthAnswer = z.object({ type: z.literal('reauth'), ticket: z.string().min(1).max(longestTicket) })

/** Asks for a `frame/request`, for the window in which the user confirms their browser. */
const FrameConfirm = z.object({ type: z.literal('frame/confirm') })

/** The page is leaving: the session ends immediately and can't be resumed. */
const ByeFromWidget = z.object({ type: z.literal('bye') })

/** Detects a dead socket, because pages can't see the server's WebSocket pings: no `pong` within a few seconds. */
const Ping = z.object({ type: z.literal('ping') })

/** Chosen by the client, and returned with every response to the request. */
const RequestId = z.string().min(1).max(64)
const ThreadId = z.uuid()

/** Asks who the agent is, and what it can do in this page. */
const ChatAbout = z.object({ type: z.literal('chat/about'), request_id: RequestId })

/**
 * Writes to the agent. An unknown `thread_id` starts a thread. During a run, the message is queued and enters at the
 * next step. `regenerate-message` replaces the last answer; `edit-message` the last message and its answer.
 */
const ChatSend = z.object({
  type: z.literal('chat/send'),
  request_id: RequestId,
  thread_id: ThreadId,
  trigger: z.enum(['submit-message', 'edit-message', 'regenerate-message']).default('submit-message'),
  /** Not for `regenerate-message`. A message with a known id isn't sent again. */
  message: z
    .object({
      id: z.uuid(),
      text: z.string().max(maxChatMessageLength),
      skill: z.string().max(maxNameLength).optional(),
    })
    .optional(),
})

/** Shows a thread's current run, and later ones, until the socket closes or shows another thread. */
const ChatResume = z.object({
  type: z.literal('chat/resume'),
  request_id: RequestId,
  thread_id: ThreadId,
  /** What the client has of the current run. */
  have: z.object({ run_id: z.uuid(), attempt: z.int(), n: z.int().min(0) }).optional(),
})

/** Stops the thread's run. Closing the page doesn't. */
const ChatAbort = z.object({ type: z.literal('chat/abort'), request_id: RequestId, thread_id: ThreadId })

/** Answers a `tool-approval-request`. */
const ChatDecide = z.object({
  type: z.literal('chat/decide'),
  request_id: RequestId,
  call_id: CallId,
  approved: z.boolean(),
  edited_args: z.record(z.string(), z.unknown()).optional(),
  /** Also for later calls of this tool in this thread. */
  always: z.boolean().default(false),
  /** With `always`, of a call without arguments: `origin` includes the other tools that the question's reason counts. */
  scope: z.enum(['tool', 'origin']).default('tool'),
})

/** Asks for the user's threads, the most recently active first. */
const ChatThreads = z.object({
  type: z.literal('chat/threads'),
  request_id: RequestId,
  offset: z.int().min(0).max(10_000).default(0),
  /** Words that must all be in the thread's title, or in one of its messages. */
  query: z.string().max(200).optional(),
  /** Whether to list the archived threads instead of the others. */
  archived: z.boolean().default(false),
})

/** Renames a thread, archives it, or takes it out of the archive. */
const ChatChangeThread = z.object({
  type: z.literal('chat/change-thread'),
  request_id: RequestId,
  thread_id: ThreadId,
  title: z.string().min(1).max(maxThreadTitleLength).optional(),
  archived: z.boolean().optional(),
})

/** Stops the thread's run, and erases the conversation. */
const ChatDeleteThread = z.object({ type: z.literal('chat/delete-thread'), request_id: RequestId, thread_id: ThreadId })

/** Asks for a thread's messages, the latest first. */
const ChatMessages = z.object({
  type: z.literal('chat/messages'),
  request_id: RequestId,
  thread_id: ThreadId,
  /** Only messages before this position. */
  before: z.int().optional(),
  /** Number of runs, each with the messages that it answers. */
  limit: z.int().min(1).max(maxRunsPerPage).default(maxRunsPerPage),
})

const ChatFeedback = z.object({
  type: z.literal('chat/feedback'),
  request_id: RequestId,
  /** The agent's message. */
  message_id: z.uuid(),
  rating: z.enum(['up', 'down']).nullable(),
  comment: z.string().max(2_000).default(''),
})

/**
 * After a visitor has signed in: makes one of the visitor's threads the user's own, with the user's consent. Questions
 * and permissions end. The widget then chooses a new visitor secret.
 */
const ChatAdopt = z.object({
  type: z.literal('chat/adopt'),
  request_id: RequestId,
  thread_id: ThreadId,
  visitor_secret: VisitorSecret,
})

/**
 * Completes what the user began with the link of a `data-connect` chunk: `code` is the parameter `inlay_connect` of the
 * URL with which the user returned to the page.
 */
const ChatConnect = z.object({
  type: z.literal('chat/connect'),
  request_id: RequestId,
  code: z.string().min(1).max(128),
})

export const ClientMessage = z.discriminatedUnion('type', [
  Hello,
  Page,
  ToolsList,
  ToolsChanged,
  ToolResult,
  ToolApproval,
  ToolProgress,
  ReauthAnswer,
  FrameConfirm,
  ByeFromWidget,
  Ping,
  ChatAbout,
  ChatSend,
  ChatResume,
  ChatAbort,
  ChatDecide,
  ChatThreads,
  ChatChangeThread,
  ChatDeleteThread,
  ChatMessages,
  ChatFeedback,
  ChatAdopt,
  ChatConnect,
])

/** The response to `hello`. */
const Ready = z.object({
  type: z.literal('ready'),
  /** Id of the session, and of the source in the hub. */
  session: z.string(),
  /** Resumes the session with `hello` after a drop; it changes with every `ready`. */
  resume_secret: z.string(),
  /** True if the session of `hello.resume` was resumed: its tools are still known, and running calls are resent. */
  resumed: z.boolean(),
  /** `id` is the end user's, or the publishable key's for an anonymous visitor. */
  user: z.object({ id: z.string(), is_anonymous: z.boolean() }),
  /** The server's time, because deadlines refer to its clock. */
  time: Milliseconds,
  /** When the session ends without a `reauth`. */
  expires_at: Milliseconds,
  limits: z.object({
    message_bytes: z.int(),
    tools: z.int(),
    schema_bytes: z.int(),
    definition_bytes: z.int(),
    name_length: z.int(),
    running_calls: z.int(),
  }),
})

/** The response to `tools/list` and `tools/changed`: the number of accepted tools, and the rejected ones. */
const ToolsAccepted = z.object({
  type: z.literal('tools/accepted'),
  count: z.int(),
  refused: z.array(z.object({ name: z.string(), reason: z.string() })),
})

const ToolCall = z.object({
  type: z.literal('tool/call'),
  call_id: CallId,
  name: z.string(),
  args: z.record(z.string(), z.unknown()),
  /** Hash of the called definition; an approval only applies to this hash. */
  definition_hash: z.string(),
  /** Name of the calling OAuth client or of the agent; missing for tokens that weren't issued to a client. */
  client_name: z.string().optional(),
  /** Set if the call was approved before it was sent, by the user or because it needs no approval: don't ask again. */
  approval_id: CallId.optional(),
  receipt: Receipt.optional(),
  /** In the server's time. A progress message extends it to `callDeadlineMs` from then. */
  deadline: Milliseconds,
})

/**
 * Asks whether a connector's tool may run; the server calls it once the user allows it. Only sent to the widget's own
 * frame, so that the embedding page can't answer.
 */
const ToolAsk = z.object({
  type: z.literal('tool/ask'),
  call_id: CallId,
  connector: z.object({ name: z.string(), origin: z.string() }),
  tool: z.object({ name: z.string(), title: z.string().optional(), description: z.string() }),
  args: z.record(z.string(), z.unknown()),
  definition_hash: z.string(),
  client_name: z.string().optional(),
  deadline: Milliseconds,
  /** The user has to confirm their browser first: the arguments are left out. The question is then sent again. */
  is_hidden: z.boolean().optional(),
})

/**
 * Sent to a frame on the server's origin after `ready`, and when it changes: whether the key in the frame's proof is
 * confirmed as this user's, and if not, whether the user can confirm it.
 */
const Frame = z.object({
  type: z.literal('frame'),
  is_confirmed: z.boolean(),
  can_confirm: z.boolean(),
  /** Whether the organization has other sites: an unconfirmed frame then shows no conversations of other frames. */
  has_other_sites: z.boolean(),
})

/** The response to `frame/confirm`: what the frame hands to the window. */
const FrameRequest = z.object({ type: z.literal('frame/request'), request: z.string() })

/** The caller is still waiting for the call that the user allowed: the tool may run now. */
const ToolRun = z.object({ type: z.literal('tool/run'), call_id: CallId })

/** The result is no longer needed: the caller cancelled, or the deadline has passed. */
const ToolCancel = z.object({ type: z.literal('tool/cancel'), call_id: CallId, reason: z.string() })

/** Asks for a `reauth` with a new ticket before this time, in the server's clock. */
const ReauthRequest = z.object({ type: z.literal('reauth'), before: Milliseconds })
const Reauthed = z.object({ type: z.literal('reauthed'), expires_at: Milliseconds })

/** Sent before the server closes the socket. Without `retry_after_ms`, retrying is useless until something changes. */
const ByeFromServer = z.object({
  type: z.literal('bye'),
  code: z.enum([
    'restarting',
    'identity_expired',
    'key_revoked',
    'user_removed',
    'over_limit',
    'protocol_error',
    'too_slow',
    'internal_error',
  ]),
  reason: z.string(),
  retry_after_ms: Milliseconds.optional(),
})

/** Sent after the `ready` of a new session: the user's latest recorded calls, oldest first. */
const RecentCalls = z.object({
  type: z.literal('calls/recent'),
  calls: z.array(
    z.object({
      call_id: CallId,
      /** Start time, in the server's clock. */
      at: Milliseconds,
      name: z.string(),
      client_name: z.string().optional(),
      outcome: z.enum(['succeeded', 'tool_error', 'failed', 'refused', 'cancelled', 'timed_out']),
      failure_code: z.string().optional(),
    }),
  ),
})

const Pong = z.object({ type: z.literal('pong') })

const RunStatus = z.enum(['running', 'waiting', 'succeeded', 'failed', 'stopped'])
const RunError = z.object({ code: z.string(), message: z.string() })

/** The response to `chat/about`. */
const ChatAgent = z.object({
  type: z.literal('chat/agent'),
  request_id: RequestId,
  name: z.string(),
  greeting: z.string(),
  starter_prompts: z.array(z.string()),
  /** Skills that the user can activate on this page's host. At most 100. */
  skills: z.array(z.object({ name: z.string(), description: z.string() })),
  /** Tool servers that the agent can use for this user. */
  connector_count: z.int(),
  /** Why the agent can't answer this user now. */
  problem: z.object({ code: z.enum(['NOT_CONFIGURED', 'SIGN_IN_NEEDED']), message: z.string() }).nullable(),
})

/** The request was accepted: `run_id` is the id of the agent's message. */
const ChatStart = z.object({
  type: z.literal('chat/start'),
  request_id: RequestId,
  thread_id: ThreadId,
  run_id: z.uuid(),
  /** The message enters at the run's next step. */
  is_queued: z.boolean().default(false),
})

/**
 * Part of a run: `UIMessageChunk`s of the AI SDK. Chunks from `n` 0 on replace everything that the client has of the
 * run. Chunks of a lower attempt than the client's are to be ignored.
 */
const ChatChunk = z.object({
  type: z.literal('chat/chunk'),
  thread_id: ThreadId,
  run_id: z.uuid(),
  attempt: z.int(),
  n: z.int(),
  chunks: z.array(z.record(z.string(), z.unknown())),
})

/** The run rests: it has ended, or `waiting` for the user's decision. */
const ChatEnd = z.object({
  type: z.literal('chat/end'),
  thread_id: ThreadId,
  run_id: z.uuid(),
  attempt: z.int(),
  n: z.int(),
  status: RunStatus,
  error: RunError.nullable(),
})

/** The thread has no run that goes on or waits. */
const ChatNoActive = z.object({ type: z.literal('chat/no-active'), request_id: RequestId, thread_id: ThreadId })

/** The request was carried out, and has no other response. */
const ChatDone = z.object({ type: z.literal('chat/done'), request_id: RequestId })

/** The request was refused. The message is for the user. */
const ChatError = z.object({
  type: z.literal('chat/error'),
  request_id: RequestId,
  code: z.string(),
  message: z.string(),
  /** Values in the message, for clients that translate it by its code. */
  values: z.record(z.string(), z.unknown()).optional(),
  retry_after_ms: Milliseconds.optional(),
})

/** The user's account is connected. */
const ChatConnected = z.object({
  type: z.literal('chat/connected'),
  request_id: RequestId,
  /** The connector's name. */
  connector: z.string(),
})

const ChatThreadList = z.object({
  type: z.literal('chat/thread-list'),
  request_id: RequestId,
  threads: z.array(
    z.object({
      id: z.uuid(),
      title: z.string().nullable(),
      status: RunStatus.nullable(),
      last_message_at: z.string().nullable(),
      is_archived: z.boolean(),
    }),
  ),
  has_more: z.boolean(),
})

/** Precedes a `chat/message-list` that would be too long: the next chunks of one of its messages, from `n` on. */
const ChatMessagePart = z.object({
  type: z.literal('chat/message-part'),
  request_id: RequestId,
  thread_id: ThreadId,
  message_id: z.uuid(),
  n: z.int(),
  chunks: z.array(z.record(z.string(), z.unknown())),
})

/** Oldest first. */
const ChatMessageList = z.object({
  type: z.literal('chat/message-list'),
  request_id: RequestId,
  thread_id: ThreadId,
  messages: z.array(
    z.discriminatedUnion('role', [
      z.object({
        role: z.literal('user'),
        id: z.uuid(),
        created_at: z.string(),
        text: z.string(),
        skill: z.string().nullable(),
        /** The message waits for the current run's next step. */
        is_queued: z.boolean(),
      }),
      z.object({
        role: z.literal('assistant'),
        id: z.uuid(),
        created_at: z.string(),
        status: RunStatus,
        error: RunError.nullable(),
        /** The message in the form in which it is streamed: what follows its `chat/message-part`s, if there are any. */
        chunks: z.array(z.record(z.string(), z.unknown())),
        feedback: z.enum(['up', 'down']).nullable(),
      }),
    ]),
  ),
  /** For the next request; null if these are the first messages. */
  before: z.int().nullable(),
})

export const ServerMessage = z.discriminatedUnion('type', [
  Ready,
  ToolsAccepted,
  ToolCall,
  ToolAsk,
  ToolRun,
  ToolCancel,
  ReauthRequest,
  Reauthed,
  Frame,
  FrameRequest,
  ByeFromServer,
  RecentCalls,
  Pong,
  ChatAgent,
  ChatConnected,
  ChatStart,
  ChatChunk,
  ChatEnd,
  ChatNoActive,
  ChatDone,
  ChatError,
  ChatThreadList,
  ChatMessagePart,
  ChatMessageList,
])

export type Approval = z.output<typeof Approval>
export type ToolDefinition = z.output<typeof ToolDefinition>
/** As the server reads it. A widget writes `ClientMessageInput`, in which fields with defaults are optional. */
export type ClientMessage = z.output<typeof ClientMessage>
export type ClientMessageInput = z.input<typeof ClientMessage>
export type ServerMessage = z.output<typeof ServerMessage>
