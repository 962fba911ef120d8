import { createElement, type ReactElement, useEffect, useRef } from 'react'
import './define.ts'
import type {
  DisplayMode,
  HostContext,
  IdTokenSource,
  InlayAgent as InlayAgentElement,
  InlayEvents,
} from './inlay-agent.ts'

export interface InlayAgentProps {
  publishableKey: string
  /** A function is called again when the token has expired or isn't accepted; keep it the same between renders. */
  idToken?: IdTokenSource | undefined
  apiBase?: string
  displayMode?: DisplayMode
  theme?: HostContext['theme']
  className?: string
  onInitialized?: (detail: InlayEvents['inlay-initialized']['detail']) => void
  onError?: (detail: InlayEvents['inlay-error']['detail']) => void
  onClose?: () => void
  onSizeChanged?: (detail: InlayEvents['inlay-size-changed']['detail']) => void
}

export function InlayAgent(props: InlayAgentProps): ReactElement {
  const { publishableKey, idToken, apiBase, displayMode, theme, className } = props
  const element = useRef<InlayAgentElement>(null)
  const handlers = useRef(props)
  handlers.current = props

  useEffect(() => {
    const ended = new AbortController()
    const listen = <Name extends keyof InlayEvents>(name: Name, handle: (event: InlayEvents[Name]) => void) =>
      element.current?.addEventListener(name, handle as (event: Event) => void, { signal: ended.signal })
    listen('inlay-initialized', ({ detail }) => handlers.current.onInitialized?.(detail))
    listen('inlay-error', ({ detail }) => handlers.current.onError?.(detail))
    listen('inlay-close', () => handlers.current.onClose?.())
    listen('inlay-size-changed', ({ detail }) => handlers.current.onSizeChanged?.(detail))
    return () => ended.abort()
  }, [])
  useEffect(() => element.current?.setHostContext({ theme }), [theme])
  // The key is no attribute here: with one the element would connect before it has the token.
  useEffect(() => element.current?.connect({ publishableKey, ...(idToken && { idToken }) }), [publishableKey, idToken])
  return createElement('inlay-agent', {
    ref: element,
    class: className,
    'api-base': apiBase,
    'display-mode': displayMode,
  })
}
