import type { PageTool } from './channel.ts'

/** `document.modelContext`, as browsers and the polyfill offer it. */
interface ModelContext extends EventTarget {
  getTools(): Promise<RegisteredTool[]>
  executeTool?(tool: RegisteredTool, input: unknown, options: { signal: AbortSignal }): Promise<unknown>
}

interface RegisteredTool {
  name: string
  title?: string
  description: string
  inputSchema?: Record<string, unknown>
  annotations?: { readOnlyHint?: boolean }
  window?: Window
}

export interface PageTools {
  /** Runs the tool that is still defined so, once, and gives what it returned as text. */
  call(definition: string, args: Record<string, unknown>, signal: AbortSignal): Promise<string>
  stop(): void
}

/** A page may load the polyfill long after the widget. */
const lookAgainMs = 1_000
/** Pages register their tools one after the other. */
const settleMs = 20

/** Tells the page's tools now and whenever they change. */
export function followPageTools(onChange: (tools: PageTool[]) => void): PageTools {
  let context: ModelContext | undefined
  let timer: ReturnType<typeof setTimeout> | undefined

  const later = (work: () => void, ms: number) => {
    clearTimeout(timer)
    timer = setTimeout(work, ms)
  }
  const tell = async () => onChange((await readTools(context)).map(({ definition }) => definition))
  const settle = () => later(() => void tell(), settleMs)
  const find = () => {
    context = (document as { modelContext?: ModelContext }).modelContext
    if (!context) return later(find, lookAgainMs)
    context.addEventListener('toolchange', settle)
    void tell()
  }
  find()

  return {
    async call(definition, args, signal) {
      const found = (await readTools(context)).find((tool) => JSON.stringify(tool.definition) === definition)
      if (!found || !context?.executeTool) throw new Error('The page no longer has this tool, or has changed it')
      const result = await context.executeTool(found.tool, isNative(context) ? args : JSON.stringify(args), { signal })
      return typeof result === 'string' ? result : JSON.stringify(result ?? null)
    },
    stop() {
      clearTimeout(timer)
      context?.removeEventListener('toolchange', settle)
    },
  }
}

/** One tool a name: those of the page itself come before those of frames inside it. */
async function readTools(context: ModelContext | undefined) {
  const tools = (await context?.getTools()) ?? []
  const byName = new Map<string, RegisteredTool>()
  for (const tool of tools) if (!byName.has(tool.name) || tool.window === window) byName.set(tool.name, tool)
  return [...byName.values()].map((tool) => ({ tool, definition: describeTool(tool) }))
}

/** Through JSON, because what a schema of the polyfill holds may be no data. */
export function describeTool({ name, title, description, inputSchema, annotations }: RegisteredTool): PageTool {
  return JSON.parse(
    JSON.stringify({
      name,
      title: title || undefined,
      description,
      inputSchema,
      annotations: annotations && { readOnlyHint: annotations.readOnlyHint === true },
    }),
  )
}

/**
 * A browser's own `executeTool` takes an object and the polyfill's a JSON text, and each refuses the other's form.
 * Trying both could run a tool twice, so the function itself is looked at.
 */
export function isNative({ executeTool }: Pick<ModelContext, 'executeTool'>): boolean {
  const source = executeTool && Function.prototype.toString.call(executeTool)
  return /^function executeTool\(\) \{\s*\[native code\]\s*\}$/.test(source ?? '')
}
