import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test, vi } from 'vitest'
import { countPromptTokens, measureTokens, type Prompt } from './tokens.ts'

const prompt: Prompt = { prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hello, world' }] }] }
const usage = (input: number | undefined, output: number | undefined, cacheRead?: number) => ({
  inputTokens: { total: input, noCache: undefined, cacheRead, cacheWrite: undefined },
  outputTokens: { total: output, text: undefined, reasoning: undefined },
})

test('every part of a prompt counts: instructions, messages, calls, results and tools', async () => {
  const counts = await Promise.all(
    [
      prompt,
      { prompt: [{ role: 'system' as const, content: 'Be kind.' }, ...prompt.prompt] },
      {
        prompt: [
          ...prompt.prompt,
          {
            role: 'assistant' as const,
            content: [{ type: 'tool-call' as const, toolCallId: '1', toolName: 'search', input: { query: 'boots' } }],
          },
        ],
      },
      {
        prompt: [
          ...prompt.prompt,
          {
            role: 'tool' as const,
            content: [
              {
                type: 'tool-result' as const,
                toolCallId: '1',
                toolName: 'search',
                output: { type: 'text' as const, value: 'Three pairs of boots' },
              },
            ],
          },
        ],
      },
      { ...prompt, tools: [{ type: 'function' as const, name: 'search', inputSchema: { type: 'object' as const } }] },
    ].map(countPromptTokens),
  )
  const [plain = 0, ...others] = counts
  expect(plain).toBe(7)
  for (const count of others) expect(count).toBeGreaterThan(plain + 5)
})

test('of many long tools, only a part is counted, and the rest estimated', async () => {
  const post = vi.spyOn(Worker.prototype, 'postMessage')
  onTestFinished(() => post.mockRestore())
  const tools = Array.from({ length: 64 }, (_, index) => ({
    type: 'function' as const,
    name: `tool${index}`,
    inputSchema: { type: 'object' as const, description: 'One of many words. '.repeat(3_000) },
  }))
  expect(await countPromptTokens({ prompt: [], tools })).toBeGreaterThan(64 * 3_000 * 4)
  expect(post.mock.calls.reduce((sum, [{ text }]) => sum + text.length, 0)).toBe(32_000)
})

test.each([
  ['reported numbers', usage(11, 2), { prompt_tokens: 11, completion_tokens: 2, is_estimated: false }],
  [
    'cached tokens',
    usage(11, 2, 9),
    { prompt_tokens: 11, completion_tokens: 2, cached_tokens: 9, is_estimated: false },
  ],
  [
    'more cached tokens than there are',
    usage(11, 2, 12),
    { prompt_tokens: 11, completion_tokens: 2, cached_tokens: 11, is_estimated: false },
  ],
  ['an empty completion', usage(11, 0), { prompt_tokens: 11, completion_tokens: 0, is_estimated: false }],
  ['more than was asked for', usage(11, 5e6), { prompt_tokens: 11, completion_tokens: 4_096, is_estimated: true }],
  ['no numbers', usage(undefined, undefined), { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
  ['half of the numbers', usage(11, undefined), { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
  ['a prompt of 0 tokens', usage(0, 2), { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
  ['a negative number', usage(11, -1), { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
  ['a fraction', usage(10.5, 2), { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
  ['a number above any model’s', usage(11, 2e9), { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
  ['a stream that broke off', undefined, { prompt_tokens: 7, completion_tokens: 1, is_estimated: true }],
])('%s', async (_, reported, expected) => {
  expect(await measureTokens(reported, prompt, 'OK', 4_096)).toEqual(expected)
})
