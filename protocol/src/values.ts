/**
 * Constants of the runtime's protocol. The widget's frame loads them in every page, so this file imports nothing. The
 * messages are in `protocol.ts`, of which the frame only uses the types.
 */

export const subprotocol = 'inlay.v1'
export const ticketSubprotocolPrefix = 'inlay.ticket.'
/** Much longer than any issued ticket, and within the size limit of request headers. */
export const longestTicket = 4_096

/** Maximum size of a message, in bytes of UTF-8. */
export const maxMessageBytes = 1024 * 1024
/** Maximum number of tools of a page. */
export const maxTools = 512
/** Maximum size of an `inputSchema`, as JSON in bytes of UTF-8. */
export const maxSchemaBytes = 64 * 1024
/** Maximum size of all definitions of a source together, as JSON in bytes of UTF-8. */
export const maxDefinitionBytes = 4 * 1024 * 1024
export const maxNameLength = 128
/** The server truncates longer descriptions and titles, and reduces a longer URL to its origin. */
export const maxDescriptionLength = 4096
export const maxTitleLength = 300
export const maxUrlLength = 2048
/** Maximum length of a message to the agent. */
export const maxChatMessageLength = 32_000
export const maxThreadTitleLength = 200
/** Maximum number of runs in a page of messages. */
export const maxRunsPerPage = 20
/** Maximum number of concurrent calls of a source. */
export const maxRunningCalls = 64

export const helloWithinMs = 10_000
/** The server sends pings; browsers reply automatically. */
export const pingEveryMs = 15_000
/** A silent socket is dropped after this time, and a session without a socket ends after it. */
export const goneAfterMs = 25_000
export const callDeadlineMs = 60_000
/** How long a question to the user stays open. By default, the SDKs' clients time out after 60 s. */
export const answerWithinMs = 50_000
/** Upper bound for a call, regardless of progress messages. */
export const longestCallMs = 600_000
/** How long before a session expires the server asks for a new ticket. */
export const reauthLeadMs = 120_000
/** How soon a new ticket is needed after the key or the identity provider changes. */
export const reauthWithinMs = 30_000
/** Maximum lifetime of a session without a new ticket; an identity that expires earlier shortens it. */
export const longestSessionMs = 3_600_000

/** Close codes of the socket. The reason is for developers; if possible, a `bye` with the same reason precedes it. */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  unsupportedData: 1003,
  /** The message has an unknown type or shape. */
  protocolError: 1008,
  /** A limit above was exceeded. */
  overLimit: 1009,
  restarting: 1012,
  /** The other side reads too slowly. */
  tooSlow: 1013,
  internalError: 1011,
  /** A new ticket is needed: the identity has expired, or the ticket for `reauth` was invalid. */
  identityExpired: 4401,
  /** The key was revoked or the user deleted: reconnecting can't succeed. */
  accessEnded: 4403,
} as const
