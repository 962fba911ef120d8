import type { Page } from 'playwright-core'

const executeWithText = `
      async executeTool(tool, inputArguments, options) {
        const text = String(inputArguments)
        let value
        try {
          value = JSON.parse(text)
        } catch {}
        if (Object(value) !== value) throw unknown('Failed to parse input arguments')
        return this.run(tool, text, options)
      }`

const executeWithObject = `
      async executeTool(tool, inputObject = {}, options = {}) {
        if (Object(inputObject) !== inputObject) throw new TypeError('The input is not an object')
        return this.run(tool, JSON.stringify(inputObject), options)
      }`

/** Each form of WebMCP that a page can have. The stand-ins replace the installed browser's implementation. */
export const webMcpForms = {
  /** The installed browser's implementation, in whichever form. */
  native: { feature: 'WebMCP' },
  /** Chromium 150: schemas and inputs are JSON text. */
  text: { initScript: standIn('text', 'text') },
  /** Chromium between 150 and 155: schemas are objects, inputs are JSON text. */
  mixed: { initScript: standIn('object', 'text') },
  /** Chromium 155 and later: schemas and inputs are objects. */
  object: { initScript: standIn('object', 'object') },
  /** A browser without WebMCP, and a page that loads the polyfill. */
  polyfill: {},
} as const

/** The form that the page actually has, so that no row tests another row's form. */
export const formOf = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const context = document.modelContext
    if (context.standsInFor) return context.standsInFor
    return '__isWebMCPPolyfill' in context ? 'polyfill' : 'native'
  })()`)

type Form = 'text' | 'object'

/** As observed in Chromium: error names, results as text, and only the hints that browsers know. */
function standIn(schemaForm: Form, inputForm: Form): string {
  const name = schemaForm === inputForm ? schemaForm : 'mixed'
  return `(() => {
    const tools = new Map()
    const unknown = (message) => new DOMException(message, 'UnknownError')
    const toText = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value) || 'Operation succeeded')

    class ModelContext extends EventTarget {
      standsInFor = '${name}'

      async registerTool(tool, { signal } = {}) {
        const { name, description, execute, inputSchema, title = '', annotations } = tool
        if (name === undefined || description === undefined) throw new TypeError('Required member is undefined.')
        if (inputSchema !== undefined && Object(inputSchema) !== inputSchema) throw new TypeError("Failed to convert value to 'object'.")
        if (tools.has(name)) throw new DOMException('Duplicate tool name', 'InvalidStateError')
        if (!/^[\\w.-]{1,128}$/.test(name)) throw new DOMException('Invalid tool name', 'InvalidStateError')
        if (description === '') throw new DOMException('Description is required', 'InvalidStateError')
        const schema = inputSchema && JSON.stringify(inputSchema)
        const entry = { name, description, execute, schema, title, annotations }
        tools.set(name, entry)
        const changed = () => queueMicrotask(() => this.dispatchEvent(new Event('toolchange')))
        changed()
        signal?.addEventListener('abort', () => {
          if (tools.get(name) === entry) tools.delete(name)
          changed()
        })
      }

      async getTools() {
        return [...tools.values()].map(({ name, title, description, schema, annotations }) => ({
          name,
          title,
          description,
          origin,
          window,
          ...(schema && { inputSchema: ${schemaForm === 'text' ? 'schema' : 'JSON.parse(schema)'} }),
          ...(annotations && {
            annotations: {
              readOnlyHint: Boolean(annotations.readOnlyHint),
              untrustedContentHint: Boolean(annotations.untrustedContentHint),
            },
          }),
        }))
      }

      ${inputForm === 'text' ? executeWithText : executeWithObject}

      async run(tool, text, { signal } = {}) {
        const found = tools.get(tool.name)
        if (!found || tool.window !== window) throw unknown('The operation failed for an unknown transient reason')
        signal?.throwIfAborted()
        const aborted = new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
        const running = (async () => found.execute(JSON.parse(text)))().catch(() => {
          throw unknown('Tool was executed but the invocation failed. For example, the script function threw an error')
        })
        return toText(await Promise.race([running, aborted]))
      }
    }
    Object.defineProperty(Document.prototype, 'modelContext', { configurable: true, value: new ModelContext() })
  })()`
}
