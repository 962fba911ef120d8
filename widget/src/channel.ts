/**
 * The messages between the element in the customer's page and the frame on the service's origin, on a private
 * `MessageChannel`. Only these three words travel on `window`, where anyone can send and the receiver checks who did.
 */
export const readyWord = 'inlay:ready'
export const channelWord = 'inlay:channel'
/** The frame's only message on a page whose origin the key doesn't allow. */
export const refusedWord = 'inlay:refused'

/** Every hint that WebMCP and MCP define; a browser passes on the ones it knows. */
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

/** Whether a tool may run without approval. A tool that contradicts itself may not. */
export const onlyReads = ({ annotations: hints }: PageTool): boolean =>
  hints?.readOnlyHint === true && !hints.destructiveHint && !hints.consequentialHint

/** How the frame has to look to fit into the page. */
export interface Look {
  theme: 'light' | 'dark'
  canClose: boolean
  isOpen: boolean
  /** Values of the page's `--inlay-*` properties, by their names without the prefix. */
  styles: Record<string, string>
}

export type ToFrame =
  /** `canRenew`: the page has a function that gives a fresh token. */
  | { type: 'connect'; idToken?: string; canRenew: boolean }
  /** The page was asked for a token and has none at the moment. */
  | { type: 'no-token' }
  | { type: 'disconnect' }
  | { type: 'look'; look: Look }
  | { type: 'page'; url: string; title: string }
  | { type: 'tools'; tools: PageTool[] }
  | { type: 'result'; id: string; result: string }
  | { type: 'failure'; id: string; message: string }

/** What the page shows while the user can't see what is in the frame. */
export interface Signs {
  /** On the button that opens the panel. */
  badge: string
  /** At the end of that button's name. */
  news: string
  /** In front of the page's title. */
  marker: string
}

export type ToElement =
  | { type: 'initialized'; userId: string; organizationId: string }
  | { type: 'error'; code: string; message: string }
  | { type: 'identify' }
  /** `definition` is the tool as it was approved, so that no other one is run in its place. */
  | { type: 'call'; id: string; definition: string; args: Record<string, unknown> }
  | { type: 'cancel'; id: string }
  | { type: 'size'; width: number; height: number }
  | { type: 'signs'; signs: Signs }
  /** A question needs to be seen: opens the panel, or scrolls to it. */
  | { type: 'show' }
  /** The question that had the keyboard focus has ended: the focus belongs to the page again. */
  | { type: 'release' }
  /** A part of the frame can't be loaded, probably because the server has been upgraded since: load the frame again. */
  | { type: 'reload' }
  | { type: 'close' }
