export type DisplayMode = 'pip' | 'inline' | 'fullscreen'

/** Corner of the launcher and the panel. `end` and `start` follow the page's direction of writing. */
export type Position = 'bottom-right' | 'bottom-left' | 'bottom-end' | 'bottom-start'

/** A token, or a function that returns a fresh one; it is called again when the token expires or is rejected. */
export type IdTokenSource = string | (() => string | undefined | Promise<string | undefined>)

export interface ConnectOptions {
  /** Defaults to the `publishable-key` attribute. */
  publishableKey?: string
  /** ID token of the end user who is signed in to the page, from the organization's identity provider. */
  idToken?: IdTokenSource
}

export interface HostContext {
  /** Defaults to the page's `color-scheme`. */
  theme?: 'light' | 'dark' | undefined
  /** Texts that replace those of the widget, by their key. */
  strings?: Record<string, string> | undefined
}

export interface InlayEvents {
  'inlay-initialized': CustomEvent<{ userId: string; organizationId: string }>
  'inlay-error': CustomEvent<{ code: string; message: string }>
  'inlay-close': CustomEvent<undefined>
  /** The user sent a message, or the agent has answered one. Texts stay in the frame. */
  'inlay-message': CustomEvent<{ role: 'user' | 'assistant'; threadId: string; messageId: string }>
  /** A call of one of this page's tools began or ended. */
  'inlay-tool-call': CustomEvent<{ callId: string; tool: string; state: 'running' | 'done' | 'failed' | 'declined' }>
  'inlay-size-changed': CustomEvent<{ width: number; height: number }>
}
