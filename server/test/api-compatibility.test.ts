import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type ApiDocument, listBreaks } from '../../scripts/api-compatibility.ts'

const root = join(import.meta.dirname, '../..')
const read = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')) as ApiDocument
/** The API of the last release. A release writes it. */
const released = 'released/openapi.json'

const current = read('openapi.json')

test.runIf(existsSync(join(root, released)))('clients of the last release can use the API', () => {
  expect(listBreaks(read(released), current)).toEqual([])
})

test('the API is compatible with itself', () => {
  expect(listBreaks(current, current)).toEqual([])
})

const json = (schema: object) => ({ 'application/json': { schema } })
/** One operation that takes and returns a value. */
const api = (taken: object, returned: object = {}, more: object = {}) =>
  ({
    paths: {
      '/things': {
        post: {
          'x-access': 'member',
          requestBody: { required: true, content: json(taken) },
          responses: { 200: { content: json(returned) } },
          ...more,
        },
      },
    },
    components: { schemas: { Tree: { type: 'object', properties: { child: { $ref: '#/components/schemas/Tree' } } } } },
  }) as ApiDocument
const object = (properties: object, required: string[] = []) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
const text = { type: 'string' }
const number = { type: 'number' }
const tree = { $ref: '#/components/schemas/Tree' }

describe('for requests,', () => {
  test.each([
    ['a new optional property is no break', object({ a: text }), object({ a: text, b: text }), []],
    ['a new required property is', object({}), object({ b: text }, ['b']), ['body.b is required now']],
    [
      'a property that was optional and isn’t is',
      object({ b: text }),
      object({ b: text }, ['b']),
      ['body.b is required now'],
    ],
    ['a property that isn’t taken anymore is', object({ a: text }), object({}), ['body.a is gone']],
    ['another type is', object({ a: text }), object({ a: number }), ['body.a can be string, where number is expected']],
    ['a wider type is no break', object({ a: { type: 'integer' } }), object({ a: { type: ['number', 'null'] } }), []],
    ['a value less is', { enum: ['a', 'b'] }, { enum: ['a'] }, ["body can be b, which isn't expected"]],
    ['a value more is no break', { const: 'a' }, { enum: ['a', 'b'] }, []],
    ['a lower maximum is', { ...text, maxLength: 9 }, { ...text, maxLength: 8 }, ['body has maxLength 8']],
    ['a first minimum is', { ...number }, { ...number, minimum: 0 }, ['body has minimum 0']],
    ['no maximum is no break', { ...text, maxLength: 9 }, text, []],
    ['another pattern is', { ...text, pattern: 'a' }, { ...text, pattern: 'b' }, ['body has pattern b']],
    ['a choice more is no break', { anyOf: [text] }, { anyOf: [text, number] }, []],
    [
      'a choice less is',
      { anyOf: [text, { type: 'null' }] },
      { anyOf: [text] },
      ['body can be null, where string is expected'],
    ],
    [
      'elements count',
      { type: 'array', items: text },
      { type: 'array', items: number },
      ['body[] can be string, where number is expected'],
    ],
    ['a schema can contain itself', tree, tree, []],
  ])('%s', (_, before, after, breaks) => {
    expect(listBreaks(api(before), api(after))).toEqual(breaks.map((text) => `POST /things: ${text}`))
  })
})

describe('for responses,', () => {
  test.each([
    ['a new property is no break', object({ a: text }, ['a']), object({ a: text, b: text }, ['a', 'b']), []],
    ['a property less is', object({ a: text }, ['a']), object({}), ['200.a can be missing']],
    ['an optional property less is', object({ a: text }), object({}), ['200.a is gone']],
    ['a property that can be missing is', object({ a: text }, ['a']), object({ a: text }), ['200.a can be missing']],
    [
      'null is',
      object({ a: text }),
      object({ a: { type: ['string', 'null'] } }),
      ['200.a can be string or null, where string is expected'],
    ],
    ['a value more is', { enum: ['a'] }, { enum: ['a', 'b'] }, ["200 can be b, which isn't expected"]],
    ['a value less is no break', { enum: ['a', 'b'] }, { enum: ['a'] }, []],
  ])('%s', (_, before, after, breaks) => {
    expect(listBreaks(api({}, before), api({}, after))).toEqual(breaks.map((text) => `POST /things: ${text}`))
  })
})

const parameter = (name: string, required = false) => ({ name, in: 'query', required, schema: text })

test.each([
  ['an operation that is gone', api({}), { paths: {} }, 'POST /things is gone'],
  ['other access', api({}), api({}, {}, { 'x-access': 'admin' }), 'POST /things: access was member and is admin'],
  [
    'a parameter that is gone',
    api({}, {}, { parameters: [parameter('q')] }),
    api({}),
    'POST /things: query parameter q is gone',
  ],
  [
    'a parameter that is required',
    api({}),
    api({}, {}, { parameters: [parameter('q', true)] }),
    'POST /things: query parameter q is required now',
  ],
  ['another status', api({}), api({}, {}, { responses: { 204: {} } }), 'POST /things: no longer responds with 200'],
])('%s is a break', (_, before, after, text) => {
  expect(listBreaks(before, after)).toEqual([text])
})
