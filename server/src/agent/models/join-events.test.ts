import { describe, expect, test } from 'vitest'
import { joinEvents, writeEvents } from './join-events.ts'

const openAi = (delta: string, more = '') =>
  `data: {"id":"1","choices":[{"index":0,"delta":${delta},"finish_reason":null}]${more}}\n\n`
const spaced = (text: string) => `data: {"id": "1", "choices": [{"delta": {"content": "${text}"}}]}\n\n`
const anthropic = (index: number, delta: string) =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":${delta}}\n\n`

describe('events that only differ in their text become one', () => {
  test.each<[string, string[], string]>([
    ['OpenAI', ['{"content":"Hel"}', '{"content":"lo"}'].map((delta) => openAi(delta)), openAi('{"content":"Hello"}')],
    [
      'with a role and empty members, as Ollama and vLLM send them',
      ['a', 'b'].map((text) => openAi(`{"role":"assistant","reasoning_content":null,"content":"${text}"}`)),
      openAi('{"role":"assistant","reasoning_content":null,"content":"ab"}'),
    ],
    ['with spaces', [spaced('a'), spaced('b')], spaced('ab')],
    [
      'with padding of various lengths',
      [openAi('{"content":"a"}', ',"obfuscation":"x1"'), openAi('{"content":"b"}', ',"obfuscation":"q"')],
      openAi('{"content":"ab"}'),
    ],
    [
      'with escapes, and with a character in two halves',
      [openAi('{"content":"\\"\\\\"}'), openAi('{"content":"\\ud83d"}'), openAi('{"content":"\\ude00\\n"}')],
      openAi('{"content":"\\"\\\\\\ud83d\\ude00\\n"}'),
    ],
    [
      'Anthropic',
      [anthropic(0, '{"type":"text_delta","text":"a"}'), anthropic(0, '{"type":"text_delta","text":"b"}')],
      anthropic(0, '{"type":"text_delta","text":"ab"}'),
    ],
  ])('%s', (_name, events, joined) => {
    expect(writeEvents(joinEvents(events.join('')))).toBe(joined)
  })
})

describe('other events stay as they are', () => {
  const toolCall = (args: string) => openAi(`{"tool_calls":[{"index":0,"function":{"arguments":"${args}"}}]}`)
  const stop = 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n'
  test.each<[string, string[]]>([
    ['arguments of a tool', [toolCall('{'), toolCall('}')]],
    ['the end of a reply', [openAi('{"content":"a"}'), stop, 'data: [DONE]\n\n']],
    ['usage', [openAi('{"content":"a"}', ',"usage":{"n":1}'), openAi('{"content":"b"}', ',"usage":{"n":2}')]],
    ['two choices', ['0', '1'].map((n) => openAi('{"content":"a"}').replace('"index":0', `"index":${n}`))],
    ['two texts', [anthropic(0, '{"type":"text_delta","text":"a"}'), anthropic(1, '{"type":"text_delta","text":"b"}')]],
    ['thoughts', ['a', 'b'].map((text) => anthropic(0, `{"type":"thinking_delta","thinking":"${text}"}`))],
    [
      'a text that looks like an event',
      ['a', 'b'].map((text) => openAi(`{"refusal":"\\"delta\\":{\\"content\\":\\"${text}"}`)),
    ],
    ['text between tool calls', [openAi('{"content":"a"}'), toolCall('{}'), openAi('{"content":"b"}')]],
    ['comments and other lines', [': ping\n\n', 'retry: 5\n\n', 'data: {"error":"broken"\n\n']],
    [
      'lines that end with CRLF',
      ['data: {"delta":{"content":"a"}}\r\n\r\n', 'data: {"delta":{"content":"b"}}\r\n\r\n'],
    ],
    [
      'an event without an end',
      [openAi('{"content":"a"}'), 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"b'],
    ],
  ])('%s', (_name, events) => {
    expect(writeEvents(joinEvents(events.join('')))).toBe(events.join(''))
  })
})
