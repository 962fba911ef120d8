export type DisplayMode = 'pip' | 'inline' | 'fullscreen'

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
}

export interface InlayEvents {
  'inlay-initialized': CustomEvent<{ userId: string; organizationId: string }>
  'inlay-error': CustomEvent<{ code: string; message: string }>
  'inlay-close': CustomEvent<undefined>
  'inlay-size-changed': CustomEvent<{ width: number; height: number }>
}
