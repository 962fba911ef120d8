import { annotationNames, type PageTool, type ToolAnnotations } from './channel.ts'

/**
 * `document.modelContext`. Its forms differ: Chromium 150 gives schemas as JSON text and takes inputs as JSON text,
 * Chromium 155 does both with objects, and the versions between them and the polyfill give objects and take text.
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
  /** Runs the tool once, if the page still defines it like this, and returns its result as text. */
  call(definition: string, args: Record<string, unknown>, signal: AbortSignal): Promise<string>
  stop(): void
}

/** A page may load a polyfill long after the widget. */
const lookAgainMs = 1_000
/** Pages register their tools one after the other. */
const settleMs = 20

/** Tells the page's tools now and whenever they change. */
export function followPageTools(onChange: (tools: PageTool[]) => void): PageTools {
  let context: ModelContext | undefined
  let timer: ReturnType<typeof setTimeout> | undefined

  const tell = async () => {
    try {
      onChange((await readTools(context)).map(({ definition }) => definition))
    } catch (error) {
      console.warn(`inlay-agent: the browser doesn't let the page's tools be read: ${error}`)
      onChange([])
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
    async call(definition, args, signal) {
      const found = (await readTools(context)).find((tool) => JSON.stringify(tool.definition) === definition)
      if (!found || !context?.executeTool) throw new Error('The page no longer has this tool, or has changed it')
      const result = await context.executeTool(found.tool, inputForAnyForm(args), { signal })
      return typeof result === 'string' ? result : JSON.stringify(result ?? null)
    },
    stop() {
      clearTimeout(timer)
      clearInterval(looking)
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

/** A schema that isn't JSON becomes null, so that the frame leaves the tool out and says why. */
function readSchema(schema: RegisteredTool['inputSchema']): PageTool['inputSchema'] {
  if (schema === undefined) return undefined
  try {
    return JSON.parse(typeof schema === 'string' ? schema : JSON.stringify(schema))
  } catch {
    return null as never
  }
}

/** Only a hint that is literally true or false counts; without `readOnlyHint` a tool may change something. */
function readAnnotations(given: Record<string, unknown>): ToolAnnotations {
  const known = annotationNames.flatMap((name) => (typeof given[name] === 'boolean' ? [[name, given[name]]] : []))
  return { readOnlyHint: false, ...Object.fromEntries(known) }
}

/**
 * An object that converts to its own JSON text. Implementations that expect text convert it, those that expect an object
 * serialize it. Detecting the form instead would mean guessing, and trying one after the other could run a tool twice.
 */
export function inputForAnyForm(args: Record<string, unknown>): Record<string, unknown> {
  const text = JSON.stringify(args)
  return Object.defineProperty({ ...args }, Symbol.toPrimitive, { value: () => text })
}
