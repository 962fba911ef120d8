import { expect, test } from 'vitest'
import type { Model } from '../models/models.ts'
import { describeArguments, describePrompt, describeReply } from './contents.ts'
import { createHistograms } from './histograms.ts'
import { nameFinish, nameProvider } from './names.ts'

const modelAt = (url: string | undefined, more: Partial<Model> = {}) =>
  ({
    source: 'operator',
    provider: 'openai_compatible',
    name: 'm',
    url,
    language: {} as never,
    ...more,
  }) satisfies Model

test.each([
  ['openai', modelAt('https://api.openai.com/v1')],
  ['mistral_ai', modelAt('https://api.mistral.ai/v1')],
  ['anthropic', modelAt('https://api.anthropic.com/v1', { provider: 'anthropic' })],
  ['ollama', modelAt('http://127.0.0.1:11434/v1', { source: 'ollama' })],
  ['openai_compatible', modelAt('https://openrouter.ai/api/v1')],
  ['demo', modelAt(undefined, { provider: 'demo', source: 'demo' })],
])('a provider is called %s', (name, model) => {
  expect(nameProvider(model)).toBe(name)
})

test.each([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool-calls', 'tool_call'],
  ['content-filter', 'content_filter'],
  ['stopped', 'stopped'],
] as const)('the end %s is called %s', (reason, name) => {
  expect(nameFinish(reason)).toBe(name)
})

test('a metric has a bounded number of combinations, and the rest in one', () => {
  const histograms = createHistograms()
  for (let index = 0; index < 1_500; index += 1) histograms.record('tokens', 1, { model: `m${index}` })
  const [tokens] = histograms.read()
  expect(tokens?.points).toHaveLength(1_001)
  expect(tokens?.points.at(-1)).toMatchObject({ attributes: { 'otel.metric.overflow': true }, count: 500 })
})

test('values are counted up to their bound', () => {
  const histograms = createHistograms()
  for (const value of [0, 1, 2, 4, 1e9]) histograms.record('tokens', value, {})
  const [tokens] = histograms.read()
  expect(tokens?.points).toMatchObject([{ count: 5, sum: 1e9 + 7, min: 0, max: 1e9 }])
  expect(tokens?.points[0]?.bucketCounts).toEqual([2, 2, ...Array.from({ length: 12 }, () => 0), 1])
})

const long = 'x'.repeat(40_000)

test('long texts are shortened, and of a long conversation the beginning is left out', () => {
  const prompt = Array.from({ length: 20 }, (_, index) => ({
    role: 'user' as const,
    content: [{ type: 'text' as const, text: `${index} ${long}` }],
  }))
  const messages = JSON.parse(String(describePrompt(prompt)['gen_ai.input.messages']))
  expect(messages).toHaveLength(7)
  expect(messages.at(-1).parts[0].content).toHaveLength(32_000)
  expect(messages.at(-1).parts[0].content).toMatch(/^19 /)
})

test('what is shortened stays valid', () => {
  const emoji = `${'x'.repeat(31_999)}😀`
  const args = String(describeArguments({ text: long })['gen_ai.tool.call.arguments'])
  expect(args).toHaveLength(32_000)
  const reply = String(describeReply({ text: emoji, calls: [] }, 'stop')['gen_ai.output.messages'])
  expect(JSON.parse(reply)[0].parts[0].content.isWellFormed()).toBe(true)
})
