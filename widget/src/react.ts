import {
  type CSSProperties,
  createElement,
  type DetailedHTMLProps,
  forwardRef,
  type HTMLAttributes,
  useEffect,
  useImperativeHandle,
  useRef,
} from 'react'
import './define.ts'
import type {
  DisplayMode,
  HostContext,
  IdTokenSource,
  InlayAgent as InlayAgentElement,
  InlayEvents,
  Position,
} from './inlay-agent.ts'

export interface InlayAgentProps {
  publishableKey: string
  /** A function is called again when the token expires or is rejected; keep it the same between renders. */
  idToken?: IdTokenSource | undefined
  apiBase?: string | undefined
  displayMode?: DisplayMode | undefined
  /** Opens or closes the panel when it changes. Users can do so too; `onClose` is called when they close it. */
  open?: boolean | undefined
  position?: Position | undefined
  /** Replaces the name of the organization's agent. */
  agentTitle?: string | undefined
  /** Replaces the greeting of the organization's agent. */
  greeting?: string | undefined
  /** A language tag; defaults to the page's `lang`. */
  language?: string | undefined
  theme?: HostContext['theme']
  /** Texts that replace those of the widget, by their key; keep the object the same between renders. */
  strings?: HostContext['strings']
  className?: string | undefined
  style?: CSSProperties | undefined
  onInitialized?: ((detail: InlayEvents['inlay-initialized']['detail']) => void) | undefined
  onError?: ((detail: InlayEvents['inlay-error']['detail']) => void) | undefined
  onClose?: (() => void) | undefined
  onMessage?: ((detail: InlayEvents['inlay-message']['detail']) => void) | undefined
  onToolCall?: ((detail: InlayEvents['inlay-tool-call']['detail']) => void) | undefined
  onSizeChanged?: ((detail: InlayEvents['inlay-size-changed']['detail']) => void) | undefined
}

/** The ref is the element, with its methods. React 18 needs `forwardRef` for refs. */
export const InlayAgent = forwardRef<InlayAgentElement, InlayAgentProps>(function InlayAgent(props, ref) {
  const { publishableKey, idToken, apiBase, displayMode, open, theme, strings, className, style } = props
  const element = useRef<InlayAgentElement>(null)
  const handlers = useRef(props)
  handlers.current = props
  useImperativeHandle(ref, () => element.current as InlayAgentElement)

  useEffect(() => {
    const ended = new AbortController()
    const listen = <Name extends keyof InlayEvents>(name: Name, handle: (event: InlayEvents[Name]) => void) =>
      element.current?.addEventListener(name, handle as (event: Event) => void, { signal: ended.signal })
    listen('inlay-initialized', ({ detail }) => handlers.current.onInitialized?.(detail))
    listen('inlay-error', ({ detail }) => handlers.current.onError?.(detail))
    listen('inlay-close', () => handlers.current.onClose?.())
    listen('inlay-message', ({ detail }) => handlers.current.onMessage?.(detail))
    listen('inlay-tool-call', ({ detail }) => handlers.current.onToolCall?.(detail))
    listen('inlay-size-changed', ({ detail }) => handlers.current.onSizeChanged?.(detail))
    return () => ended.abort()
  }, [])
  useEffect(() => element.current?.setHostContext({ theme, strings }), [theme, strings])
  useEffect(() => {
    if (element.current && open !== undefined) element.current.open = open
  }, [open])
  // The key isn't passed as an attribute, because the element would then connect before it has the token.
  useEffect(() => element.current?.connect({ publishableKey, ...(idToken && { idToken }) }), [publishableKey, idToken])
  return createElement('inlay-agent', {
    ref: element,
    class: className,
    style,
    'api-base': apiBase,
    'display-mode': displayMode,
    position: props.position,
    'agent-title': props.agentTitle,
    greeting: props.greeting,
    language: props.language,
  })
})

/** Attributes of `<inlay-agent>` in JSX. React 19 also passes event handlers. */
export type InlayAgentAttributes = DetailedHTMLProps<HTMLAttributes<InlayAgentElement>, InlayAgentElement> & {
  'publishable-key'?: string | undefined
  'display-mode'?: DisplayMode | undefined
  'api-base'?: string | undefined
  open?: boolean | undefined
  position?: Position | undefined
  'agent-title'?: string | undefined
  greeting?: string | undefined
  language?: string | undefined
} & { [Name in keyof InlayEvents as `on${Name}`]?: ((event: InlayEvents[Name]) => void) | undefined }

declare module 'react' {
  namespace JSX {
    interface IntrinsicElements {
      'inlay-agent': InlayAgentAttributes
    }
  }
}
