import { z } from 'zod'
import { operation } from '../operation.ts'
import { Timestamp } from '../shapes.ts'

/** An open page that offers tools. Title, URL and everything about its tools are the page's own words. */
export const HubSource = z
  .strictObject({
    sourceId: z.string(),
    tabId: z.string(),
    origin: z.string().describe('Of the page, as the ticket exchange saw it; empty outside of a browser'),
    title: z.string(),
    url: z.string(),
    toolCount: z.int(),
    connectedAt: Timestamp,
    lastSeenAt: Timestamp,
  })
  .meta({ id: 'HubSource' })

const hint = (text: string) => z.boolean().optional().describe(text)

const ToolAnnotations = z
  .strictObject({
    title: z.string().optional(),
    readOnlyHint: hint('The tool changes nothing'),
    destructiveHint: hint('The tool may delete or overwrite something'),
    idempotentHint: hint('Calling the tool again with the same arguments changes nothing more'),
    openWorldHint: hint('The tool reaches systems outside of the page or server'),
    consequentialHint: hint('The tool has effects beyond the page, such as a purchase'),
    untrustedContentHint: hint('The result may contain text that others wrote'),
  })
  .describe('Hints from the page or the tool server about what the tool does. They are claims, not guarantees.')

export const HubTool = z
  .strictObject({
    name: z.string(),
    title: z.string().optional().describe('From the page: untrusted text'),
    description: z.string().describe('From the page: untrusted text'),
    inputSchema: z.record(z.string(), z.unknown()).describe('JSON Schema from the page'),
    annotations: ToolAnnotations.optional(),
    sources: z.array(HubSource).optional().describe('With `include_sources`: the open pages that offer it'),
  })
  .meta({ id: 'HubTool' })

const hub = { tag: 'Hub', access: 'org', method: 'get' } as const

export const listSources = operation({
  ...hub,
  id: 'listHubSources',
  path: '/hub/sources',
  summary: 'Your own open pages that offer tools',
  response: z.strictObject({ count: z.int(), sources: z.array(HubSource) }),
  errors: [],
})

export const listTools = operation({
  ...hub,
  id: 'listHubTools',
  path: '/hub/tools',
  summary: 'The tools that your own open pages offer',
  description: 'A name that several pages offer in the same way is listed once.',
  query: z.strictObject({
    search: z.string().max(200).optional().describe('Part of the name or the description'),
    source_id: z.string().max(64).optional().describe('Of one page only'),
    include_sources: z.enum(['true', 'false']).default('false').describe('Say which pages offer each tool'),
  }),
  response: z.strictObject({ count: z.int(), tools: z.array(HubTool) }),
  errors: ['RESOURCE_NOT_FOUND'],
})
