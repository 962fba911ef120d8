import { z } from 'zod'
import type { Service } from '../src/kernel/foundation/service.ts'
import { type Relayed, relayTool, type ToolCall } from '../src/kernel/foundation/tool.ts'
import { failure } from '../src/kernel/lib/errors.ts'
import type { Method, Offer } from '../src/tools/mcp/dispatcher.ts'
import { codes, Fault } from '../src/tools/mcp/messages.ts'

/** The tools, resources and prompts that the conformance suite expects, which Inlay itself doesn't have. */

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const wav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA='

const text = (text: string) => ({ type: 'text' as const, text })
const image = { type: 'image' as const, data: png, mimeType: 'image/png' }
const resource = (uri: string, mimeType: string, text: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType, text },
})

const fixture = (name: string, description: string, handler: (call: ToolCall) => Promise<Relayed> | Relayed) =>
  relayTool({
    name,
    title: name,
    description,
    access: 'user',
    input: z.object({}),
    annotations: {},
    handler: async (_service, _caller, _input, call) => handler(call),
  })

/** A schema whose keywords must reach the client unchanged. */
const everyKeyword = z
  .strictObject({
    name: z.string().optional(),
    address: z.unknown().meta({ $ref: '#/$defs/address' }).optional(),
    contactMethod: z.enum(['phone', 'email']).optional(),
    phone: z.string().optional(),
    email: z.string().optional(),
  })
  .meta({
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    // biome-ignore lint/suspicious/noThenProperty: a JSON Schema keyword
    then: { required: ['phone'] },
    else: { required: ['email'] },
  })

const tools = [
  relayTool({
    name: 'json_schema_2020_12_tool',
    title: 'json_schema_2020_12_tool',
    description: 'Has a schema with many keywords',
    access: 'user',
    input: everyKeyword,
    annotations: {},
    handler: async (_service: Service) => ({ content: [text('ok')] }),
  }),
  fixture('test_simple_text', 'Returns text', () => ({
    content: [text('This is a simple text response for testing.')],
  })),
  fixture('test_image_content', 'Returns an image', () => ({ content: [image] })),
  fixture('test_audio_content', 'Returns audio', () => ({
    content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }],
  })),
  fixture('test_embedded_resource', 'Returns a resource', () => ({
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  })),
  fixture('test_multiple_content_types', 'Returns several types of content', () => ({
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  })),
  fixture('test_error_handling', 'Always fails', () => {
    throw failure(400, 'TEST', 'This tool intentionally returns an error for testing')
  }),
  fixture('test_tool_with_progress', 'Reports progress', async (call) => {
    for (const progress of [0, 50, 100]) {
      call.progress({ progress, total: 100 })
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    return { content: [text('Done')] }
  }),
]

const contents: Record<string, object> = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: png },
}

const readResource = (uri: string): object => {
  if (contents[uri]) return contents[uri]
  const [, id] = /^test:\/\/template\/(\w+)\/data$/.exec(uri) ?? []
  if (!id) throw new Fault(codes.invalidParams, 'Resource not found', { data: { uri } })
  const data = { id, templateTest: true, data: `Data for ID: ${id}` }
  return { mimeType: 'application/json', text: JSON.stringify(data) }
}

const prompts: Record<string, (given: Record<string, string>) => object[]> = {
  test_simple_prompt: () => [text('This is a simple prompt for testing.')],
  test_prompt_with_arguments: ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  test_prompt_with_embedded_resource: ({ resourceUri = '' }) => [
    resource(resourceUri, 'text/plain', 'Embedded resource content for testing.'),
    text('Please process the embedded resource above.'),
  ],
  test_prompt_with_image: () => [image, text('Please analyze the image above.')],
}

const promptArguments: Record<string, string[]> = {
  test_prompt_with_arguments: ['arg1', 'arg2'],
  test_prompt_with_embedded_resource: ['resourceUri'],
}

const method = (answer: (params: Record<string, unknown>) => object, ttlMs?: number): Method => ({
  handler: async (_service, _caller, params) => answer(params),
  ...(ttlMs !== undefined && { ttlMs }),
})

export const conformanceOffer: Offer<Service> = {
  info: { name: 'inlay-fixtures', version: '0.0.0' },
  instructions: 'For the conformance suite.',
  capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} },
  tools,
  methods: {
    'resources/list': method(
      () => ({ resources: Object.keys(contents).map((uri) => ({ uri, name: uri, description: 'For tests' })) }),
      0,
    ),
    'resources/templates/list': method(
      () => ({ resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template' }] }),
      0,
    ),
    'resources/read': method(({ uri }) => ({ contents: [{ uri, ...readResource(String(uri)) }] }), 0),
    'prompts/list': method(
      () => ({
        prompts: Object.keys(prompts).map((name) => ({
          name,
          description: 'For tests',
          arguments: (promptArguments[name] ?? []).map((name) => ({ name, required: true })),
        })),
      }),
      0,
    ),
    'prompts/get': method(({ name, arguments: given = {} }) => {
      const parts = prompts[String(name)]?.(given as Record<string, string>)
      if (!parts) throw new Fault(codes.invalidParams, `Unknown prompt: ${name}`)
      return { messages: parts.map((content) => ({ role: 'user', content })) }
    }),
    'completion/complete': method(() => ({ completion: { values: [], total: 0, hasMore: false } })),
  },
}
