import type { Approval } from '@inlay/protocol'
import { isSpecType } from '@modelcontextprotocol/client'
import { z } from 'zod'
import type { Relayed } from '../foundation/tool.ts'
import { isTooDeep } from './page-text.ts'

/** The answer of a page or a tool server to a call, as received. */
export type PageAnswer = (
  | { result: unknown }
  | { error: { code: 'failed' | 'declined' | 'replaced' | 'unknown_tool'; message: string } }
) & { approval?: Approval | undefined }

/** Checking blocks one by one must not block the event loop. */
const maxBlocks = 1000

const McpResult = z.object({
  content: z.array(z.unknown()).max(maxBlocks),
  structuredContent: z.record(z.string(), z.unknown()).optional(),
  isError: z.boolean().optional(),
})

/**
 * An answer as MCP content. Content stays as the tool returned it; only values that an MCP client would reject become
 * text. The message that brought the answer is limited in size, so there is no limit here.
 */
export function readAnswer(answer: PageAnswer): Relayed {
  if ('error' in answer) return { content: [text(describeError(answer.error))], isError: true }
  const { result } = answer
  if (isTooDeep(result)) return { content: [text('The tool’s result is nested too deeply.')], isError: true }
  const mcp = McpResult.safeParse(result)
  if (mcp.success) {
    const { content, isError = false } = mcp.data
    // zod's copy of a record lacks members that are named like those of a prototype.
    const { structuredContent } = result as { structuredContent?: object }
    return { content: content.map(readBlock), ...(structuredContent && { structuredContent }), isError }
  }
  const shown = typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null')
  return { content: [text(shown)], ...(isRecord(result) && { structuredContent: result }), isError: false }
}

function describeError({ code, message }: { code: string; message: string }): string {
  if (message) return message
  return code === 'declined' ? 'The person declined the call.' : 'The tool failed.'
}

const text = (content: string) => ({ type: 'text' as const, text: content })

const readBlock = (block: unknown): Relayed['content'][number] =>
  isSpecType.ContentBlock(block) ? block : text(JSON.stringify(block))

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
