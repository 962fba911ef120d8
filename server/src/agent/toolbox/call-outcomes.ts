import type { Relayed } from '../../kernel/foundation/tool.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { replaceNul } from '../../kernel/untrusted/page-text.ts'
import type { ToolOutcome } from './toolbox.ts'

type Part = Relayed['content'][number]

/** The text of an MCP result for the model. */
export function describeRelayed({ content, structuredContent, isError }: Relayed, origin: string): ToolOutcome {
  const parts = content.map(describePart)
  const hasText = content.some(({ type }) => type === 'text')
  if (!hasText && structuredContent) parts.push(JSON.stringify(structuredContent))
  const result = replaceNul(parts.join('\n')) || 'The tool returned nothing.'
  return { state: isError ? 'failed' : 'succeeded', result, origins: [origin] }
}

function describePart(part: Part): string {
  switch (part.type) {
    case 'text':
      return part.text
    case 'image':
    case 'audio':
      return `[${part.type}: ${part.mimeType}]`
    case 'resource_link':
      return `[link: ${part.name} ${part.uri}]`
    case 'resource':
      return 'text' in part.resource
        ? `[resource: ${part.resource.uri}]\n${part.resource.text}`
        : `[resource: ${part.resource.uri}]`
    default:
      return '[unknown content]'
  }
}

/** Replaces messages that are written for MCP clients. */
const explanations: Record<string, string> = {
  RESOURCE_NOT_FOUND: 'The page or server that offered this tool is no longer available, so nothing was done.',
  TOOL_CHANGED: 'The tool has changed since it was listed, so nothing was done.',
  SOURCE_BUSY: 'The page is already running too many calls, so nothing was done. Try again later.',
  SOURCE_GONE: 'The page was closed before it returned a result. The tool may or may not have run.',
  CALL_TIMED_OUT: 'There was no result in time. The tool may or may not have run.',
}

/** The user gets a link with the call, which the model doesn't see. */
export const connectFirst = (name: string, connectTo: string): ToolOutcome => ({
  state: 'failed',
  result: `Nothing was done, because the user hasn’t connected their account at ${name}, or has to connect it again. They see a link for this now. Ask them to follow it and to tell you when they are done. Then use the tools of ${name}.`,
  origins: [],
  connectTo,
})

/** Why a call has no result, for the model; undefined if the error isn't one that users may read. */
export function explainFailure(error: unknown, origins: readonly string[]): ToolOutcome | undefined {
  if (!(error instanceof Failure)) return undefined
  const { code: outer, message, data } = error.envelope
  const code = String(data?.code ?? outer)
  if (code === 'CONSENT_NEEDED') return connectFirst(String(data?.connector), String(data?.connector_id))
  const result = Object.hasOwn(explanations, code) ? (explanations[code] as string) : replaceNul(message)
  return { state: code === 'CALL_REFUSED' ? 'refused' : 'failed', result, origins }
}
