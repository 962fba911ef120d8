import type { components } from '@inlay/client'
import { useQueryClient } from '@tanstack/react-query'
import { type RefObject, useEffect, useEffectEvent, useRef, useState } from 'react'
import { language } from '../../lib/language.ts'
import { api, unwrap } from '../../session/api.ts'

/** The messages of widget/src/preview/messages.ts. */
type Sent =
  | { type: 'inlay-preview-ready' }
  | { type: 'inlay-preview-token-wanted' }
  | { type: 'inlay-preview-connected' }
  | { type: 'inlay-preview-message'; threadId: string; messageId: string; role: 'user' | 'assistant' }
  | { type: 'inlay-preview-error'; code: string; message: string }

/** What the widget tells the page that embeds it. */
export class WidgetError extends Error {
  override name = 'WidgetError'
}

export type Preview = components['schemas']['Preview']

interface PreviewState {
  frame: RefObject<HTMLIFrameElement | null>
  /** What the server knows about the preview; undefined until it has started. */
  preview: Preview | undefined
  error: Error | undefined
  /** The conversation that the user last wrote in. */
  threadId: string | undefined
  /** The last message that was sent or answered there. */
  messageId: string | undefined
  send: (text: string) => void
  newThread: () => void
  retry: () => void
}

const themeOf = () => document.documentElement.dataset.theme ?? 'system'

/** Connects the page in the frame with this session. It gets short-lived tokens, and only by messages. */
export function usePreview(keyId: string): PreviewState {
  const queries = useQueryClient()
  const frame = useRef<HTMLIFrameElement>(null)
  /** The token that the preview started with, until the widget asks for it. */
  const unusedToken = useRef<string>(undefined)
  const [preview, setPreview] = useState<Preview>()
  const [error, setError] = useState<Error>()
  const [thread, setThread] = useState<{ threadId: string; messageId: string }>()

  const post = (message: Record<string, unknown>) => frame.current?.contentWindow?.postMessage(message, location.origin)

  async function start(): Promise<Preview | undefined> {
    try {
      const started = await unwrap(api.POST('/publishable-keys/{id}/preview', { params: { path: { id: keyId } } }))
      setPreview(started)
      setError(undefined)
      return started
    } catch (failure) {
      setError(failure as Error)
      return undefined
    }
  }

  const receive = useEffectEvent(async (message: Sent) => {
    if (message.type === 'inlay-preview-ready') {
      setThread(undefined)
      const started = await start()
      unusedToken.current = started?.token
      const theme = themeOf()
      if (started) post({ type: 'inlay-preview-connect', publishableKey: started.publishable_key, language, theme })
    } else if (message.type === 'inlay-preview-token-wanted') {
      const token = unusedToken.current ?? (await start())?.token ?? null
      unusedToken.current = undefined
      post({ type: 'inlay-preview-token', token })
    } else if (message.type === 'inlay-preview-connected') {
      setError(undefined)
    } else if (message.type === 'inlay-preview-message') {
      setThread({ threadId: message.threadId, messageId: message.messageId })
      // Lists and totals elsewhere in the dashboard have changed.
      void queries.invalidateQueries({ queryKey: ['threads'], refetchType: 'none' })
    } else if (message.type === 'inlay-preview-error') {
      setError(new WidgetError(message.message))
    }
  })

  useEffect(() => {
    const listen = ({ source, origin, data }: MessageEvent) => {
      if (origin === location.origin && source !== null && source === frame.current?.contentWindow) void receive(data)
    }
    addEventListener('message', listen)
    return () => removeEventListener('message', listen)
  }, [])

  // The frame has no other way to learn that the user has chosen another theme.
  const showTheme = useEffectEvent(() => post({ type: 'inlay-preview-theme', theme: themeOf() }))
  useEffect(() => {
    const observer = new MutationObserver(() => showTheme())
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    return () => observer.disconnect()
  }, [])

  return {
    frame,
    preview,
    error,
    threadId: thread?.threadId,
    messageId: thread?.messageId,
    send: (text) => post({ type: 'inlay-preview-send', text }),
    newThread() {
      setThread(undefined)
      post({ type: 'inlay-preview-new-thread' })
    },
    retry() {
      setError(undefined)
      frame.current?.contentWindow?.location.reload()
    },
  }
}
