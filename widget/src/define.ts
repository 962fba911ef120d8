import { InlayAgent } from './inlay-agent.ts'

// A classic script comes from the service itself.
const script = globalThis.document?.currentScript as HTMLScriptElement | null | undefined
if (script?.src) InlayAgent.defaultApiBase = new URL(script.src).origin

if (globalThis.customElements && !customElements.get('inlay-agent')) customElements.define('inlay-agent', InlayAgent)
