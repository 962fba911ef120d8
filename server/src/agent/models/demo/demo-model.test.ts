import type { LanguageModelV4CallOptions, LanguageModelV4FunctionTool, LanguageModelV4Prompt } from '@ai-sdk/provider'
import { describe, expect, test } from 'vitest'
import { createDemoModel } from './demo-model.ts'
import { type DemoReply, decide } from './demo-rules.ts'

const tool = (
  name: string,
  properties: Record<string, object> = {},
  required: string[] = [],
  description = '',
): LanguageModelV4FunctionTool => ({
  type: 'function',
  name,
  description,
  inputSchema: { type: 'object', properties, required },
})

const text = { type: 'string' }
const tools = [
  tool('search_products', { query: text }, ['query'], 'Finds products by name. Fast.'),
  tool('add_to_cart', { product_id: text, quantity: { type: 'integer' } }, ['product_id']),
  tool('getOrder', { order_id: text }, ['order_id']),
  tool('set_color', { color: { type: 'string', enum: ['red', 'dark blue'] } }, ['color']),
  tool('list_stores'),
  tool('set_alarm', { at: text, is_loud: { type: 'boolean' }, volume: { type: 'number' }, days: { type: 'array' } }, [
    'at',
  ]),
  tool('activate_skill', { name: text }, ['name']),
]

const says = (message: string): LanguageModelV4Prompt => [
  { role: 'system', content: 'Skills:\n- refund-orders: How to refund an order.\n- greeting: How to greet.' },
  { role: 'user', content: [{ type: 'text', text: message }] },
]
const calls = (name: string, input: object): DemoReply => ({ tool: name, input: input as Record<string, unknown> })

describe('the demo model calls', () => {
  test.each([
    ['search_products boots', calls('search_products', { query: 'boots' })],
    ['Please call search_products with query: "red boots"', calls('search_products', { query: 'red boots' })],
    ['search products for running shoes!', calls('search_products', { query: 'running shoes' })],
    ['Can you find products called “Trail Runner”?', calls('search_products', { query: 'Trail Runner' })],
    ['search_products {"query": "a, b", "secret": 1}', calls('search_products', { query: 'a, b' })],
    ['add to cart product_id: p-1, quantity: 2', calls('add_to_cart', { product_id: 'p-1', quantity: 2 })],
    ['add_to_cart product id = p-1.', calls('add_to_cart', { product_id: 'p-1' })],
    ['Put product_id: p-1 in the cart, quantity is 3', calls('add_to_cart', { product_id: 'p-1', quantity: 3 })],
    ['Show my order 17', calls('getOrder', { order_id: '17' })],
    ['getOrder 17', calls('getOrder', { order_id: '17' })],
    ['set color to dark blue', calls('set_color', { color: 'dark blue' })],
    ['Which stores do you have? Show the list_stores', calls('list_stores', {})],
    ['show me the stores', calls('list_stores', {})],
    ['set_alarm at: 07:30, is_loud: yes, volume 0.5', calls('set_alarm', { at: '07:30', is_loud: true, volume: 0.5 })],
    ['Use the refund-orders skill', calls('activate_skill', { name: 'refund-orders' })],
    ['activate refund-orders', calls('activate_skill', { name: 'refund-orders' })],
    ['use skill greeting', calls('activate_skill', { name: 'greeting' })],
  ])('%s', (message, reply) => {
    expect(decide({ prompt: says(message), tools })).toEqual(reply)
  })

  test('nothing if a required argument is missing, and says which', () => {
    expect(decide({ prompt: says('add_to_cart'), tools })).toEqual({
      text: 'To use the tool add_to_cart, I need product_id. Write for example: add_to_cart product_id: …',
    })
    expect(decide({ prompt: says('set_color'), tools })).toHaveProperty('text', expect.stringContaining('color'))
  })

  test('nothing for a skill that the agent doesn’t have, or without the tool for skills', () => {
    for (const options of [
      { prompt: says('Use the make-coffee skill'), tools },
      { prompt: says('Use the refund-orders skill'), tools: tools.slice(0, -1) },
    ]) {
      expect(decide(options)).toHaveProperty('text')
    }
  })

  test('nothing if two tools could be meant', () => {
    const ambiguous = [tool('get_orders'), tool('list_order')]
    expect(decide({ prompt: says('show the orders'), tools: ambiguous })).toHaveProperty('text')
  })

  test('the tool that it must call, and none if it may not', () => {
    const prompt = says('Hello')
    expect(decide({ prompt, tools, toolChoice: { type: 'tool', toolName: 'list_stores' } })).toEqual(
      calls('list_stores', {}),
    )
    expect(decide({ prompt, tools, toolChoice: { type: 'required' } })).toHaveProperty('tool')
    expect(decide({ prompt: says('list_stores'), tools, toolChoice: { type: 'none' } })).toHaveProperty('text')
  })

  test('nothing strange for a strange schema', () => {
    const schemas = [
      {},
      { properties: [] },
      { properties: { a: null, b: 7, '': {} }, required: 'a' },
      { required: [7] },
    ]
    for (const inputSchema of schemas) {
      const strange = { type: 'function', name: 'odd_tool', inputSchema } as unknown as LanguageModelV4FunctionTool
      expect(decide({ prompt: says('odd_tool a: 1'), tools: [strange] })).toEqual(calls('odd_tool', {}))
    }
    const pattern = tool('odd_tool', { '(a+)+$': text, '[': text }, [])
    expect(decide({ prompt: says(`odd_tool ${'a'.repeat(3_000)}`), tools: [pattern] })).toHaveProperty('tool')
  })
})

describe('the demo model says', () => {
  test.each(['Hello', 'help', 'What can you do?', 'who are you', 'Tell me about the weather'])(
    'that it is a demo: %s',
    (message) => {
      for (const offered of [tools, []]) {
        expect(decide({ prompt: says(message), tools: offered })).toHaveProperty(
          'text',
          expect.stringContaining('demo model'),
        )
      }
    },
  )

  test('which tools it has', () => {
    const { text } = decide({ prompt: says('Which tools do you have?'), tools }) as { text: string }
    expect(text).toMatch(/^I have 7 tools:\n- search_products: Finds products by name\.\n- add_to_cart\n/)
    expect(decide({ prompt: says('list your tools') })).toEqual({ text: "I don't have any tools here." })
    const many = Array.from({ length: 25 }, (_, index) => tool(`tool_${index}`))
    expect(decide({ prompt: says('what tools?'), tools: many })).toHaveProperty(
      'text',
      expect.stringMatching(/…and 5 more\.$/),
    )
  })

  test.each([
    [{ type: 'text' as const, value: 'Three boots' }, 'The tool search_products returned: Three boots'],
    [{ type: 'json' as const, value: { found: 3 } }, 'Done.\n\n- **Found:** 3'],
    [
      { type: 'content' as const, value: [{ type: 'text' as const, text: 'Boots' }] },
      'The tool search_products returned: Boots',
    ],
    [{ type: 'error-text' as const, value: 'No stock' }, 'The tool search_products failed: No stock'],
    [{ type: 'error-json' as const, value: { code: 7 } }, 'The tool search_products failed: {"code":7}'],
    [{ type: 'execution-denied' as const }, "The tool search_products wasn't allowed to run."],
    [{ type: 'text' as const, value: 'x'.repeat(2_000) }, `The tool search_products returned: ${'x'.repeat(1_000)}…`],
  ])('what a tool returned, and doesn’t call it again', (output, expected) => {
    const call = { toolCallId: 'demo_1', toolName: 'search_products' }
    const prompt: LanguageModelV4Prompt = [
      ...says('search_products boots'),
      { role: 'assistant', content: [{ type: 'tool-call', ...call, input: { query: 'boots' } }] },
      { role: 'tool', content: [{ type: 'tool-result', ...call, output }] },
    ]
    expect(decide({ prompt, tools })).toEqual({ text: expected })
    expect(decide({ prompt, tools, toolChoice: { type: 'required' } })).toEqual({ text: expected })
    const next = [...prompt, { role: 'user' as const, content: [{ type: 'text' as const, text: 'list_stores' }] }]
    expect(decide({ prompt: next, tools })).toEqual(calls('list_stores', {}))
  })
})

describe('in a shop, the demo model', () => {
  const products = ['notebook', 'fountain-pen', 'ink-blue', 'ink-green', 'pencils']
  const quantity = { type: 'integer', minimum: 1, default: 1 }
  const shopTools = [
    tool('activate_skill', { name: text }, ['name']),
    tool('read_result', { call_id: text, from: { type: 'integer' } }, ['call_id']),
    tool('search_products', { query: text }),
    tool('add_to_cart', { product_id: { type: 'string', enum: products }, quantity }, ['product_id']),
    tool('empty_cart'),
    tool('orders_list_orders'),
    tool('orders_cancel_order', { order: text }, ['order']),
  ]
  /** The agent adds the page to the user's message. */
  const inShop = (message: string): LanguageModelV4Prompt => [
    { role: 'system', content: 'You help.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: message },
        { type: 'text', text: '<page>\nShow my cart: 7 products\nhttp://localhost:8788/\n</page>' },
      ],
    },
  ]

  test.each([
    ['Do you have blue ink?', calls('search_products', { query: 'blue ink' })],
    ['do you sell any notebooks', calls('search_products', { query: 'notebooks' })],
    ['I’m looking for a fountain pen.', calls('search_products', { query: 'fountain pen' })],
    ['Show me all products', calls('search_products', {})],
    ['Add two bottles of blue ink to my cart', calls('add_to_cart', { product_id: 'ink-blue', quantity: 2 })],
    ['Please put 3 notebooks in my cart', calls('add_to_cart', { product_id: 'notebook', quantity: 3 })],
    ['Add a box of twelve pencils to the cart', calls('add_to_cart', { product_id: 'pencils' })],
    ['Add a fountain pen to my cart!', calls('add_to_cart', { product_id: 'fountain-pen' })],
    ['Empty my cart', calls('empty_cart', {})],
    ['Where is my order 1041?', calls('orders_list_orders', {})],
    ['Show me my orders', calls('orders_list_orders', {})],
    ['What orders do I have?', calls('orders_list_orders', {})],
    ['Cancel my order 1042', calls('orders_cancel_order', { order: '1042' })],
  ])('understands: %s', (message, reply) => {
    expect(decide({ prompt: inShop(message), tools: shopTools })).toEqual(reply)
  })

  test('asks which product is meant', () => {
    expect(decide({ prompt: inShop('Add ink to my cart'), tools: shopTools })).toEqual({
      text: `Which product do you mean?\n\n${products.map((product) => `- ${product}`).join('\n')}`,
    })
  })

  test('says that some tools need a user who is signed in', () => {
    const withoutOrders = shopTools.filter(({ name }) => !name.startsWith('orders'))
    for (const said of ['Where is my order 1041?', 'Show me my orders']) {
      const { text } = decide({ prompt: inShop(said), tools: withoutOrders }) as { text: string }
      expect(text).toMatch(/^I don't have a tool for that here\..* sign in .*: search_products\.$/)
    }
  })

  const orders = [
    { id: '1041', item: 'Enamel mug', status: 'shipped' },
    { id: '1042', item: 'Wool blanket', status: 'open' },
  ]
  const ordersTable =
    '| Id | Item | Status |\n| --- | --- | --- |\n| 1041 | Enamel mug | shipped |\n| 1042 | Wool blanket | open |'
  test.each([
    ['Where is my order 1041?', { orders }, 'Order 1041 (Enamel mug) is **shipped**.'],
    ['Show my orders', { orders }, `I found 2 orders:\n\n${ordersTable}`],
    ['Show my orders', orders, `I found 2 results:\n\n${ordersTable}`],
    ['Do you have red ink?', { products: [] }, 'I found no products.'],
    [
      'Do you have ink?',
      { products: [{ id: 'ink', name: 'Ink | [free](https://evil.example)\n# Buy' }], page: 1 },
      'I found 1 product:\n\n| Id | Name |\n| --- | --- |\n| ink | Ink \\| \\[free\\](https://evil.example) \\# Buy |\n\n- **Page:** 1',
    ],
    [
      'Add two',
      { items: { 'ink-blue': 2 }, total_price: '€ 18.00' },
      'Done.\n\n- **Items:** ink-blue: 2\n- **Total price:** € 18.00',
    ],
    ['Cancel', { cancelled: false }, 'The tool orders_list_orders returned:\n\n- **Cancelled:** no'],
    ['Say it', 'a word', 'The tool orders_list_orders returned: a word'],
  ])('reports what a tool returned: %s', (said, result, expected) => {
    const value = `<tool_result origin="http://localhost:8790">\n${JSON.stringify(result)}\n</tool_result>`
    expect(decide({ prompt: reporting(said, value), tools: shopTools })).toEqual({ text: expected })
  })

  test('shows the beginning of a long list', () => {
    const many = Array.from({ length: 25 }, (_, n) => ({ id: `n${n}` }))
    const { text } = decide({ prompt: reporting('List', JSON.stringify({ many })), tools: shopTools }) as {
      text: string
    }
    expect(text).toMatch(/^I found 25 many:\n\n(\|.*\n){12}\n…and 15 more\.$/)
  })

  test('accepts that the user declined', () => {
    const prompt = reporting('Empty my cart', 'The user declined the call. Nothing was done.')
    expect(decide({ prompt, tools: shopTools })).toEqual({ text: 'All right, I haven’t changed anything.' })
  })

  function reporting(said: string, value: string): LanguageModelV4Prompt {
    const call = { toolCallId: 'demo_1', toolName: 'orders_list_orders' }
    return [
      ...inShop(said),
      { role: 'assistant', content: [{ type: 'tool-call', ...call, input: {} }] },
      { role: 'tool', content: [{ type: 'tool-result', ...call, output: { type: 'text', value } }] },
    ]
  }
})

const model = createDemoModel()
const streamed = async (options: LanguageModelV4CallOptions) => Array.fromAsync((await model.doStream(options)).stream)

test('it streams its reply word by word, and generates the same one', async () => {
  const options = { prompt: says('Hello'), tools }
  const parts = await streamed(options)
  const deltas = parts.flatMap((part) => (part.type === 'text-delta' ? [part.delta] : []))
  expect(deltas.length).toBeGreaterThan(20)
  for (const delta of deltas) expect(delta).toMatch(/^\s*\S+$/)
  const { content, usage, finishReason } = await model.doGenerate(options)
  expect(content).toEqual([{ type: 'text', text: deltas.join('') }])
  expect(parts.map(({ type }) => type)).toEqual([
    'stream-start',
    'text-start',
    ...deltas.map(() => 'text-delta'),
    'text-end',
    'finish',
  ])
  expect(parts.at(-1)).toEqual({ type: 'finish', usage, finishReason })
  expect(finishReason.unified).toBe('stop')
  expect(usage.outputTokens.total).toBeGreaterThan(20)
  expect(await streamed(options)).toEqual(parts)
})

test('it streams a call with an id that is new in the conversation', async () => {
  const options = { prompt: says('search_products boots'), tools }
  const call = { toolCallId: 'demo_1', toolName: 'search_products', input: '{"query":"boots"}' }
  const parts = await streamed(options)
  expect(parts.slice(1, -1)).toEqual([
    { type: 'tool-input-start', id: 'demo_1', toolName: 'search_products' },
    { type: 'tool-input-delta', id: 'demo_1', delta: call.input },
    { type: 'tool-input-end', id: 'demo_1' },
    { type: 'tool-call', ...call },
  ])
  expect(parts.at(-1)).toMatchObject({ finishReason: { unified: 'tool-calls' } })
  expect((await model.doGenerate(options)).content).toEqual([{ type: 'tool-call', ...call }])
  const later = [
    { role: 'assistant' as const, content: [{ type: 'tool-call' as const, ...call, input: {} }] },
    ...says('list_stores'),
  ]
  const { content } = await model.doGenerate({ prompt: later, tools })
  expect(content).toEqual([{ type: 'tool-call', toolCallId: 'demo_2', toolName: 'list_stores', input: '{}' }])
})

test('it stays within its limit of tokens', async () => {
  const { content, usage, finishReason } = await model.doGenerate({ prompt: says('Hello'), maxOutputTokens: 5 })
  expect(finishReason.unified).toBe('length')
  expect(content).toHaveLength(1)
  expect(usage.outputTokens.total).toBeLessThanOrEqual(5)
  const call = await model.doGenerate({ prompt: says('search_products boots'), tools, maxOutputTokens: 2 })
  expect(call).toMatchObject({ content: [], finishReason: { unified: 'length' } })
})

test('an abort ends it before the first word, and between two words', async () => {
  const stop = new AbortController()
  const options = { prompt: says('Hello'), abortSignal: stop.signal }
  const { stream } = await model.doStream(options)
  const reader = stream.getReader()
  for (const type of ['stream-start', 'text-start', 'text-delta']) {
    expect(await reader.read()).toMatchObject({ value: { type } })
  }
  stop.abort(new Error('enough'))
  await expect(reader.read()).rejects.toThrow('enough')
  await expect(model.doStream(options)).rejects.toThrow('enough')
  await expect(model.doGenerate(options)).rejects.toThrow('enough')
})
