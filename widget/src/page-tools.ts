import { annotationNames, type PageTool, type ToElement, type ToFrame, type ToolAnnotations } from './channel.ts'

/**
 * `document.modelContext`. Implementations differ: Chromium 150 returns schemas and takes inputs as JSON text, Chromium
 * 155 uses objects for both, and the versions in between and the polyfill return objects and take text.
 */
interface ModelContext extends EventTarget {
  getTools(): Promise<RegisteredTool[]>
  executeTool?(tool: RegisteredTool, input: unknown, options: { signal: AbortSignal }): Promise<unknown>
}

interface RegisteredTool {
  name: string
  title?: string
  description: string
  inputSchema?: Record<string, unknown> | string
  annotations?: Record<string, unknown>
  window?: Window
}

export interface PageTools {
  /** Runs the tool once, if the page still defines it like this, and sends its result as text. */
  run(call: ToElement & { type: 'call' }): Promise<void>
  cancel(id: string): void
  /** Also cancels the running calls. */
  stop(): void
}

/** Interval of checks for a polyfill, which a page may load long after the widget. */
const lookAgainMs = 1_000
/** Debounces changes, because pages register their tools one by one. */
const settleMs = 20

/** Sends the page's tools, now and whenever they change, and the results of their calls. */
export function followPageTools(send: (message: ToFrame) => void): PageTools {
  const calls = new Map<string, AbortController>()
  let context: ModelContext | undefined
  let timer: ReturnType<typeof setTimeout> | undefined

  const tell = async () => {
    try {
      send({ type: 'tools', tools: (await readTools(context)).map(({ definition }) => definition) })
    } catch (error) {
      console.warn(`inlay-agent: can't read the page's tools: ${error}`)
      send({ type: 'tools', tools: [] })
    }
  }
  const settle = () => {
    clearTimeout(timer)
    timer = setTimeout(() => void tell(), settleMs)
  }
  const look = () => {
    const found = (document as { modelContext?: ModelContext }).modelContext
    if (found === context) return
    context?.removeEventListener('toolchange', settle)
    context = found
    context?.addEventListener('toolchange', settle)
    void tell()
  }
  look()
  const looking = setInterval(look, lookAgainMs)

  return {
    async run({ id, definition, args }) {
      const abort = new AbortController()
      calls.set(id, abort)
      try {
        const found = (await readTools(context)).find((tool) => JSON.stringify(tool.definition) === definition)
        if (!found || !context?.executeTool) throw new Error('The page removed or changed this tool')
        const result = await context.executeTool(found.tool, inputForAnyForm(args), { signal: abort.signal })
        send({ type: 'result', id, result: typeof result === 'string' ? result : JSON.stringify(result ?? null) })
      } catch (error) {
        send({ type: 'failure', id, message: textOf(error) })
      } finally {
        calls.delete(id)
      }
    },
    cancel(id) {
      calls.get(id)?.abort()
    },
    stop() {
      clearTimeout(timer)
      clearInterval(looking)
      for (const abort of calls.values()) abort.abort()
      context?.removeEventListener('toolchange', settle)
    },
  }
}

/** One tool per name: the page's own tools win over those of frames inside it. */
async function readTools(context: ModelContext | undefined) {
  const tools = (await context?.getTools()) ?? []
  const byName = new Map<string, RegisteredTool>()
  for (const tool of tools) if (!byName.has(tool.name) || tool.window === window) byName.set(tool.name, tool)
  return [...byName.values()].map((tool) => ({ tool, definition: describeTool(tool) }))
}

export function describeTool({ name, title, description, inputSchema, annotations }: RegisteredTool): PageTool {
  const schema = readSchema(inputSchema)
  return {
    name,
    ...(title && { title }),
    description,
    ...(schema !== undefined && { inputSchema: schema }),
    ...(annotations && { annotations: readAnnotations(annotations) }),
  }
}

/** A schema that isn't JSON becomes null, so that the frame rejects the tool with a reason. */
function readSchema(schema: RegisteredTool['inputSchema']): PageTool['inputSchema'] {
  if (schema === undefined) return undefined
  try {
    return JSON.parse(typeof schema === 'string' ? schema : JSON.stringify(schema))
  } catch {
    return null as never
  }
}

/** Ignores hints that aren't booleans. Without `readOnlyHint`, a tool may change something. */
function readAnnotations(given: Record<string, unknown>): ToolAnnotations {
  const known = annotationNames.flatMap((name) => (typeof given[name] === 'boolean' ? [[name, given[name]]] : []))
  return { readOnlyHint: false, ...Object.fromEntries(known) }
}

/**
 * Returns an object that converts to its own JSON text, so that it suits implementations that expect text and those
 * that expect an object. Detecting the form would be a guess, and trying both could run a tool twice.
 */
export function inputForAnyForm(args: Record<string, unknown>): Record<string, unknown> {
  const text = JSON.stringify(args)
  return Object.defineProperty({ ...args }, Symbol.toPrimitive, { value: () => text })
}

export const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
