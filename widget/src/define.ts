import { InlayAgent } from './inlay-agent.ts'

// A classic script is loaded from the server itself, so its origin is the default for `api-base`.
const script = globalThis.document?.currentScript as HTMLScriptElement | null | undefined
if (script?.src) InlayAgent.defaultApiBase = new URL(script.src).origin

if (globalThis.customElements && !customElements.get('inlay-agent')) customElements.define('inlay-agent', InlayAgent)
