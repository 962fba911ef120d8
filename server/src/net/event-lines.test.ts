import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLineEnds, dropOtherLines } from './event-lines.ts'

test('all lines end with LF, wherever the stream is cut', () => {
  const Chunks = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '\r', '\n', '\r\n') }))
  fc.assert(
    fc.property(Chunks, (chunks) => {
      const ended = chunks.map((chunk) => Buffer.from(chunk)).map(createLineEnds())
      expect(Buffer.concat(ended).toString()).toBe(chunks.join('').replace(/\r\n?/g, '\n'))
    }),
  )
})

test('a chunk without CR isn’t copied', () => {
  const chunk = Buffer.from('data: a\n\n')
  expect(createLineEnds()(chunk)).toBe(chunk)
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
  expect(dropOtherLines(lines)).toBe(expected)
})
