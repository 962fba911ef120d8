/**
 * The messages between the element in the customer's page and the frame on the server's origin, on a private
 * `MessageChannel`. Only these three are sent on `window`, where the receiver has to check the sender.
 */
export const readyWord = 'inlay:ready'
export const channelWord = 'inlay:channel'
/** The frame's only message on a page whose origin the key doesn't allow. */
export const refusedWord = 'inlay:refused'

/** Every hint that WebMCP and MCP define; a browser passes on those it supports. */
export const annotationNames = [
  'readOnlyHint',
  'destructiveHint',
  'idempotentHint',
  'openWorldHint',
  'consequentialHint',
  'untrustedContentHint',
] as const
export type ToolAnnotations = Partial<Record<(typeof annotationNames)[number], boolean>>

/** A tool as the page describes it. */
export interface PageTool {
  name: string
  title?: string
  description: string
  inputSchema?: Record<string, unknown>
  annotations?: ToolAnnotations
}

/** Whether a tool may run without approval. Contradictory hints need approval. */
export const onlyReads = ({ annotations: hints }: PageTool): boolean =>
  hints?.readOnlyHint === true && !hints.destructiveHint && !hints.consequentialHint

/** Appearance of the frame, to match the page. */
export interface Look {
  theme: 'light' | 'dark'
  canClose: boolean
  isOpen: boolean
  /** Values of the page's `--inlay-*` properties; the names have no prefix. */
  styles: Record<string, string>
  /** The attributes `agent-title` and `greeting`, which replace the organization's texts. */
  title?: string
  greeting?: string
  /** The attribute `language`, or the page's language. */
  language: string
  /** Texts of the page's own that replace those of the language; see the catalogue's keys. */
  strings: Record<string, string>
  /** Shown until the frame's second part has loaded, which has all other texts. */
  loading: string
}

export type ToFrame =
  /** `canRenew`: the page passed a function that returns a fresh token. */
  | { type: 'connect'; idToken?: string; canRenew: boolean }
  /** The page was asked for a token but couldn't provide one. */
  | { type: 'no-token' }
  | { type: 'disconnect' }
  | { type: 'look'; look: Look }
  | { type: 'page'; url: string; title: string }
  | { type: 'tools'; tools: PageTool[] }
  /** The page writes to the agent in the user's name, as `send` says. */
  | { type: 'send'; text: string }
  | { type: 'new-thread' }
  /** The user is back from a third party, where they connected their account. */
  | { type: 'account'; code: string }
  | { type: 'result'; id: string; result: string }
  | { type: 'failure'; id: string; message: string }

/** The badge for news that don't wait for the user. */
export const newsBadge = '•'

/** Indicators in the page while the user can't see the frame. */
export interface Signs {
  /** On the button that opens the panel: the number of waiting calls, `newsBadge` or nothing. */
  badge: string
  /** Prepended to the page's title. */
  marker: string
}

export type ToElement =
  | { type: 'initialized'; userId: string; organizationId: string }
  | { type: 'error'; code: string; message: string }
  | { type: 'identify' }
  /** `definition` is the tool as it was approved, so that no other tool runs in its place. */
  | { type: 'call'; id: string; definition: string; args: Record<string, unknown> }
  | { type: 'cancel'; id: string }
  | { type: 'size'; width: number; height: number }
  /** A message was sent or has been answered. Its text isn't passed on: it may contain data of other servers. */
  | { type: 'message'; role: 'user' | 'assistant'; threadId: string; messageId: string }
  /** A call of one of this page's own tools began or has ended. */
  | { type: 'tool-call'; callId: string; tool: string; state: 'running' | 'done' | 'failed' | 'declined' }
  | { type: 'signs'; signs: Signs }
  /** Opens the panel or scrolls to it, so that the user sees a question. */
  | { type: 'show' }
  /** The question that had the keyboard focus is closed: returns the focus to the page. */
  | { type: 'release' }
  /** Reloads the frame: a part of it failed to load, probably because the server was upgraded. */
  | { type: 'reload' }
  | { type: 'close' }
