/**
 * The fixed values of the runtime's protocol. The widget's frame loads them in every visitor's page, so this file imports
 * nothing; the messages themselves are in `protocol.ts`, of which the frame uses the types alone.
 */

export const subprotocol = 'inlay.v1'
export const ticketSubprotocolPrefix = 'inlay.ticket.'
/** Much longer than any that is issued, and shorter than what the headers of a request may hold. */
export const longestTicket = 4_096

/** A message, in bytes of UTF-8. */
export const maxMessageBytes = 1024 * 1024
/** Maximum number of tools of a page. */
export const maxTools = 512
/** An `inputSchema`, as JSON, in bytes of UTF-8. */
export const maxSchemaBytes = 64 * 1024
/** All definitions of a source together, as JSON. */
export const maxDefinitionBytes = 4 * 1024 * 1024
export const maxNameLength = 128
/** What is longer is cut by the server, not refused. */
export const maxDescriptionLength = 4096
export const maxTitleLength = 300
export const maxUrlLength = 2048
/** Calls of one source that wait for their results. */
export const maxRunningCalls = 64

export const helloWithinMs = 10_000
/** The server pings, and browsers answer by themselves. */
export const pingEveryMs = 15_000
/** Without a sign of life, and without a socket after a drop. */
export const goneAfterMs = 25_000
export const callDeadlineMs = 60_000
/** How long a question to the user stays open. The SDKs' clients give up after 60 s unless told otherwise. */
export const answerWithinMs = 50_000
/** Upper bound for a call, regardless of progress messages. */
export const longestCallMs = 600_000
/** How long before a session expires the server asks for a new ticket. */
export const reauthLeadMs = 120_000
/** How soon it is needed when the key or the identity provider was changed. */
export const reauthWithinMs = 30_000
/** Without a shorter-lived identity. */
export const longestSessionMs = 3_600_000

/** Of the socket. The reason is text for a developer; `bye` says the same before it, where there is time for it. */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  unsupportedData: 1003,
  /** The message has an unknown type or shape. */
  protocolError: 1008,
  /** One of the limits above. */
  overLimit: 1009,
  restarting: 1012,
  /** The other side reads too slowly. */
  tooSlow: 1013,
  internalError: 1011,
  /** Another ticket is needed: the identity has expired, or the one for `reauth` was not good. */
  identityExpired: 4401,
  /** The key was revoked or the person erased: coming back is useless. */
  accessEnded: 4403,
} as const
