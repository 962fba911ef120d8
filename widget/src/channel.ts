/**
 * What the element in the customer's page and the frame on the service's origin say to each other, on a private
 * `MessageChannel`. Only these two words travel on `window`, where anybody can send and the receiver checks who did.
 */
export const readyWord = 'inlay:ready'
export const channelWord = 'inlay:channel'

/** A tool as the page describes it. */
export interface PageTool {
  name: string
  title?: string
  description: string
  inputSchema?: Record<string, unknown>
  annotations?: { readOnlyHint?: boolean }
}

/** How the frame has to look to fit into the page. */
export interface Look {
  theme: 'light' | 'dark'
  canClose: boolean
  /** Values of the page's `--inlay-*` properties, by their names without the prefix. */
  styles: Record<string, string>
}

export type ToFrame =
  | { type: 'connect'; idToken?: string }
  | { type: 'disconnect' }
  | { type: 'look'; look: Look }
  | { type: 'page'; url: string; title: string }
  | { type: 'tools'; tools: PageTool[] }
  | { type: 'result'; id: string; result: string }
  | { type: 'failure'; id: string; message: string }

export type ToElement =
  | { type: 'initialized'; userId: string; organizationId: string }
  | { type: 'error'; code: string; message: string }
  | { type: 'identify' }
  /** `definition` is the tool as it was approved, so that no other one is run in its place. */
  | { type: 'call'; id: string; definition: string; args: Record<string, unknown> }
  | { type: 'cancel'; id: string }
  | { type: 'size'; width: number; height: number }
  /** A question waits for the person, or no longer. */
  | { type: 'attention'; isNeeded: boolean }
  | { type: 'close' }
