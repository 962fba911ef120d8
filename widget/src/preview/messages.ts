/** What the dashboard's page “Try it” tells the preview page in its frame. Both are on the server's own origin. */
export type ToPreview =
  | { type: 'inlay-preview-connect'; publishableKey: string; language: string; theme: string }
  /** Null if the dashboard couldn't get one. */
  | { type: 'inlay-preview-token'; token: string | null }
  | { type: 'inlay-preview-theme'; theme: string }
  | { type: 'inlay-preview-send'; text: string }
  | { type: 'inlay-preview-new-thread' }

/** What the preview page tells the dashboard. */
export type FromPreview =
  | { type: 'inlay-preview-ready' }
  | { type: 'inlay-preview-token-wanted' }
  | { type: 'inlay-preview-connected' }
  | { type: 'inlay-preview-message'; threadId: string; messageId: string; role: 'user' | 'assistant' }
  | { type: 'inlay-preview-error'; code: string; message: string }
