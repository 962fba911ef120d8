import * as z from 'zod'
import { longestTicket, maxMessageBytes, maxNameLength } from './values.ts'

export * from './values.ts'

/**
 * What the runtime socket and the widget say to each other: JSON text messages with a `type`. The server checks them with
 * these shapes; the widget is compiled against their types.
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
 * A tool that may change something is run in three steps, so that nothing runs for a caller that is already gone:
 *
 *     tool/approval asking ────────────────▶  the user has `answerWithinMs` from now on
 *     tool/approval allowed ───────────────▶
 *       ◀─────────────────────────────────── tool/run, or tool/cancel
 *
 * `tool/ask` asks the user about a tool that runs elsewhere, at a tool server: the same steps, and nothing runs in the page.
 *
 * A socket that drops may be taken up again: a new ticket, a new socket, and a `hello` with what `ready` gave for it. The
 * server then sends every call that has no result yet once more. A widget that knows the call_id must not run the tool
 * again: it answers with the result it has, or when it has one.
 */

/** Whether the user can see the page: its tab is the one in front of its window. The page says so, so don't trust it. */
const Visible = z.boolean().optional()

const CallId = z.string().min(1).max(64)
const Milliseconds = z.int().min(0)

/** As in MCP and WebMCP, whose names these are. */
export const ToolDefinition = z.object({
  name: z.string().min(1).max(maxNameLength),
  title: z.string().optional(),
  description: z.string().default(''),
  /** JSON Schema. The server shows it to callers, and neither compiles it nor follows its references. */
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
  /** The widget's own name for the tab, kept over reloads. */
  tab_id: z.string().min(1).max(64),
  /** Of the page that embeds the widget, on the origin that the ticket is for. */
  url: z.string(),
  title: z.string(),
  visible: Visible,
  /** What `ready` gave, when the page is still the one that the session was for. */
  resume: z.object({ session: z.string().max(64), secret: z.string().max(128) }).optional(),
})

/**
 * The page has another address or title, or came into view or went out of it. It's still the same page: it was not loaded
 * anew.
 */
const Page = z.object({
  type: z.literal('page'),
  url: z.string().max(maxMessageBytes),
  title: z.string(),
  visible: Visible,
})

/** All tools of the page; replaces what was told before. */
const ToolsList = z.object({ type: z.literal('tools/list'), tools: z.array(ToolDefinition) })

/** What changed since: tools that are new or different, and names that are gone. */
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
 * A result of any shape, or an error. `declined`: the user said no; `replaced`: the same caller made the same call again
 * while the user was being asked. Anything over a limit must be sent as an error.
 */
const ToolResult = z.object({
  type: z.literal('tool/result'),
  call_id: CallId,
  result: z.unknown().optional(),
  error: z.object({ code: z.enum(['failed', 'declined', 'replaced', 'unknown_tool']), message: z.string() }).optional(),
  approval: Approval.optional(),
})

/** The user is being asked about a call, or has allowed it. The tool runs only after the server's `tool/run`. */
const ToolApproval = z.object({
  type: z.literal('tool/approval'),
  call_id: CallId,
  state: z.enum(['asking', 'allowed']),
  /** With `allowed`, for calls that run elsewhere: they have no result that could carry it. */
  approval: Approval.optional(),
})

/** Moves the deadline. */
const ToolProgress = z.object({
  type: z.literal('tool/progress'),
  call_id: CallId,
  progress: z.number().default(0),
  total: z.number().optional(),
  message: z.string().optional(),
})

/** The answer to the server's `reauth`: a new ticket for the same person, key and page. */
const ReauthAnswer = z.object({ type: z.literal('reauth'), ticket: z.string().min(1).max(longestTicket) })

/** The page goes: the session ends at once and cannot be taken up again. */
const ByeFromWidget = z.object({ type: z.literal('bye') })

/** Browsers hide the server's pings from a page. One that suspects its socket asks; no `pong` in a few seconds is a drop. */
const Ping = z.object({ type: z.literal('ping') })

export const ClientMessage = z.discriminatedUnion('type', [
  Hello,
  Page,
  ToolsList,
  ToolsChanged,
  ToolResult,
  ToolApproval,
  ToolProgress,
  ReauthAnswer,
  ByeFromWidget,
  Ping,
])

/** The answer to `hello`. */
const Ready = z.object({
  type: z.literal('ready'),
  /** Names the session, and the source in the hub. */
  session: z.string(),
  /** For `hello` after a drop; it changes with every `ready`. */
  resume_secret: z.string(),
  /** True when the session of `hello.resume` goes on: the tools are still known, running calls follow once more. */
  resumed: z.boolean(),
  /** `id` is the end user's, or the publishable key's for somebody who is not signed in. */
  user: z.object({ id: z.string(), is_anonymous: z.boolean() }),
  /** The server's clock, since deadlines are told in it. */
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

/** The answer to `tools/list` and `tools/changed`: how many the source has now, and which were left out, for developers. */
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
  /** Of the definition that is being called: an approval is for this hash and for no other. */
  definition_hash: z.string(),
  /** The name of the OAuth client that calls. Tokens that weren't issued to a client have none. */
  client_name: z.string().optional(),
  /** In the server's clock. Progress moves it by `callDeadlineMs` from then. */
  deadline: Milliseconds,
})

/**
 * May a tool of the organization's connector run? The server calls it once the user has allowed it. It is asked only on
 * sockets that were opened by the widget's own frame, so that the page around it can't answer.
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
})

/** The caller still waits for the call that the user has allowed: the tool may run now. */
const ToolRun = z.object({ type: z.literal('tool/run'), call_id: CallId })

/** Nobody waits for the result any more: the caller gave up, or the deadline has passed. */
const ToolCancel = z.object({ type: z.literal('tool/cancel'), call_id: CallId, reason: z.string() })

/** Send a `reauth` with a new ticket before this moment, in the server's clock. */
const ReauthRequest = z.object({ type: z.literal('reauth'), before: Milliseconds })
const Reauthed = z.object({ type: z.literal('reauthed'), expires_at: Milliseconds })

/** The server closes. Without `retry_after_ms` coming back is useless until something changes. */
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

/** After the `ready` of a new session: the latest calls of the user, the oldest first, as far as they are recorded. */
const RecentCalls = z.object({
  type: z.literal('calls/recent'),
  calls: z.array(
    z.object({
      call_id: CallId,
      /** When it started, in the server's clock. */
      at: Milliseconds,
      name: z.string(),
      client_name: z.string().optional(),
      outcome: z.enum(['succeeded', 'tool_error', 'failed', 'refused', 'cancelled', 'timed_out']),
      failure_code: z.string().optional(),
    }),
  ),
})

const Pong = z.object({ type: z.literal('pong') })

export const ServerMessage = z.discriminatedUnion('type', [
  Ready,
  ToolsAccepted,
  ToolCall,
  ToolAsk,
  ToolRun,
  ToolCancel,
  ReauthRequest,
  Reauthed,
  ByeFromServer,
  RecentCalls,
  Pong,
])

export type Approval = z.output<typeof Approval>
export type ToolDefinition = z.output<typeof ToolDefinition>
/** As the server reads it; a widget writes `z.input`, in which what has a default may be left out. */
export type ClientMessage = z.output<typeof ClientMessage>
export type ClientMessageInput = z.input<typeof ClientMessage>
export type ServerMessage = z.output<typeof ServerMessage>
