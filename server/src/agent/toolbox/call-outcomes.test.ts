import { expect, test } from 'vitest'
import type { Relayed } from '../../kernel/foundation/tool.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { describeRelayed, explainFailure } from './call-outcomes.ts'

const text = (content: string) => ({ type: 'text' as const, text: content })

test.each<[string, Relayed, string]>([
  ['texts', { content: [text('one'), text('two')] }, 'one\ntwo'],
  ['text and structured content', { content: [text('one')], structuredContent: { a: 1 } }, 'one'],
  ['structured content only', { content: [], structuredContent: { a: 1 } }, '{"a":1}'],
  ['nothing', { content: [] }, 'The tool returned nothing.'],
  ['an image', { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] }, '[image: image/png]'],
  [
    'an image and structured content',
    { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }], structuredContent: { a: 1 } },
    '[image: image/png]\n{"a":1}',
  ],
  ['audio', { content: [{ type: 'audio', data: 'AA==', mimeType: 'audio/wav' }] }, '[audio: audio/wav]'],
  ['a link', { content: [{ type: 'resource_link', name: 'Report', uri: 'file:///r' }] }, '[link: Report file:///r]'],
  [
    'a text resource',
    { content: [{ type: 'resource', resource: { uri: 'file:///r', text: 'body' } }] },
    '[resource: file:///r]\nbody',
  ],
  [
    'a binary resource',
    { content: [{ type: 'resource', resource: { uri: 'file:///r', blob: 'AA==' } }] },
    '[resource: file:///r]',
  ],
])('%s becomes text', (_, relayed, result) => {
  expect(describeRelayed(relayed, 'o')).toEqual({ state: 'succeeded', result, origins: ['o'] })
  expect(describeRelayed({ ...relayed, isError: true }, 'o')).toEqual({ state: 'failed', result, origins: ['o'] })
})

test.each<[string, Error, object | undefined]>([
  ['that governance refused', failure(403, 'CALL_REFUSED', 'Blocked: x'), { state: 'refused', result: 'Blocked: x' }],
  [
    'of a closed page',
    notFound('hub_tool', 'x'),
    { state: 'failed', result: expect.stringContaining('no longer available') },
  ],
  [
    'that timed out',
    failure(504, 'CALL_TIMED_OUT', 'x'),
    { state: 'failed', result: expect.stringContaining('may or may not') },
  ],
  ['with another reason', failure(502, 'DELEGATION_FAILED', 'Why'), { state: 'failed', result: 'Why' }],
  ['with an inherited code', failure(500, 'toString', 'Why'), { state: 'failed', result: 'Why' }],
  ['with an internal error', new TypeError('secret'), undefined],
])('a call %s is explained', (_, error, outcome) => {
  expect(explainFailure(error, ['o'])).toEqual(outcome && { ...outcome, origins: ['o'] })
})
