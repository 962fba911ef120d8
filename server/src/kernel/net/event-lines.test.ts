import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLineReader, readInParts } from './event-lines.ts'

/** What becomes of a stream that arrives in these chunks. */
const read = (chunks: readonly Uint8Array[]) => {
  const readLines = createLineReader()
  const parts = chunks.map(readLines).flatMap(({ end, lines, beginning }) => [end, Buffer.from(lines), beginning])
  return Buffer.concat(parts).toString()
}

test('all lines end with LF, wherever the stream is cut', () => {
  const Lines = fc.array(
    fc.tuple(fc.constantFrom('', 'data: é', 'event: a', 'id: 1'), fc.constantFrom('\r', '\n', '\r\n')),
  )
  fc.assert(
    fc.property(Lines, fc.array(fc.nat(100)), (lines, cuts) => {
      const bytes = Buffer.from(lines.flat().join(''))
      const places = [0, ...cuts.sort((one, other) => one - other), bytes.length]
      const chunks = places.slice(1).map((place, index) => bytes.subarray(places[index], place))
      expect(read(chunks)).toBe(lines.flat().join('').replace(/\r\n?/g, '\n'))
    }),
  )
})

test.each([
  ['an event', 'event: a\ndata: b\n\n', 'event: a\ndata: b\n\n'],
  ['an event with an ID', 'id: 1\ndata: b\n\n', 'id: 1\ndata: b\n\n'],
  ['an event after a byte order mark', '\ufeffdata: b\n\n', '\ufeffdata: b\n\n'],
  ['text with a line separator', 'data: a\u2028b\n\n', 'data: a\u2028b\n\n'],
  ['comments', ': ping\n\n: ping\n\ndata: a\n\n', '\n\ndata: a\n\n'],
  ['unknown fields', 'a\nb: c\nretry: d\ndata: e\nf\n\n', 'data: e\n\n'],
  ['nothing', '', ''],
])('of %s, the lines that mean something stay', (_, lines, expected) => {
  expect(read([Buffer.from(lines)])).toBe(expected)
})

test.each([
  ['text/event-stream', `data: a\n\n`],
  ['Text/Event-Stream; charset=utf-8', `data: a\n\n`],
  ['application/json', `${'b\n'.repeat(20_000)}data: a\r\n\r\n`],
])('a response of the type %s is read', async (type, expected) => {
  const body = `${'b\n'.repeat(20_000)}data: a\r\n\r\n`
  const response = readInParts(new Response(body, { headers: { 'content-type': type } }))
  expect(await response.text()).toBe(expected)
  expect(response.headers.get('content-type')).toBe(type)
})

test('a large chunk is passed on in parts', async () => {
  const event = `data: ${'a'.repeat(20_000)}\n\n`
  const { body } = readInParts(new Response(event, { headers: { 'content-type': 'text/event-stream' } }))
  const parts = await Array.fromAsync(body ?? [])
  expect(Buffer.concat(parts).toString()).toBe(event)
  expect(parts.map(({ length }) => length)).toEqual([8_192, 8_192, event.length - 2 * 8_192])
})
