import type { Approval } from '@inlay/protocol'
import { isSpecType } from '@modelcontextprotocol/client'
import { z } from 'zod'
import type { Relayed } from '../foundation/tool.ts'
import { isTooDeep } from './page-text.ts'

/** A page's or tool server's unprocessed response to a call. */
export type PageResponse = (
  | { result: unknown }
  | { error: { code: 'failed' | 'declined' | 'replaced' | 'unknown_tool'; message: string } }
) & { approval?: Approval | undefined }

/** Limits how long validating the blocks takes, because it blocks the event loop. */
const maxBlocks = 1000

const McpResult = z.object({
  content: z.array(z.unknown()).max(maxBlocks),
  structuredContent: z.record(z.string(), z.unknown()).optional(),
  isError: z.boolean().optional(),
})

/**
 * Converts a response to MCP content. Valid content is unchanged; values that an MCP client would reject become text.
 * The size is already limited by the maximum message size.
 */
export function readPageResponse(answer: PageResponse): Relayed {
  if ('error' in answer) return { content: [text(describeError(answer.error))], isError: true }
  const { result } = answer
  if (isTooDeep(result)) return { content: [text('The tool’s result is nested too deeply.')], isError: true }
  const mcp = McpResult.safeParse(result)
  if (mcp.success) {
    const { content, isError = false } = mcp.data
    // Taken from the original, because zod drops keys such as `__proto__` from records.
    const { structuredContent } = result as { structuredContent?: object }
    return { content: content.map(readBlock), ...(structuredContent && { structuredContent }), isError }
  }
  const shown = typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null')
  return { content: [text(shown)], ...(isRecord(result) && { structuredContent: result }), isError: false }
}

function describeError({ code, message }: { code: string; message: string }): string {
  if (message) return message
  return code === 'declined' ? 'The user declined the call.' : 'The tool failed.'
}

const text = (content: string) => ({ type: 'text' as const, text: content })

const readBlock = (block: unknown): Relayed['content'][number] =>
  isSpecType.ContentBlock(block) ? block : text(JSON.stringify(block))

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
