import { describe, expect, test } from 'vitest'
import { checkField, describeFields, isReadable, labelOf } from './argument-fields.ts'

const field = (schema: Record<string, unknown>, value?: unknown, required = ['x']) => {
  const [first] = describeFields({ properties: { x: schema }, required }, value === undefined ? {} : { x: value })
  if (!first) throw new Error('There is no field')
  return first
}

describe('the form of a question', () => {
  test.each([
    ['a text', { type: 'string' }, 'ink', 'string', 'ink'],
    ['a number', { type: 'number' }, 1.5, 'number', '1.5'],
    ['a whole number', { type: 'integer' }, 2, 'integer', '2'],
    ['yes or no', { type: 'boolean' }, false, 'boolean', 'false'],
    ['a choice', { enum: ['a', 'b'] }, 'b', 'enum', '"b"'],
    ['an unknown choice', { enum: ['a', 'b'] }, 'c', 'json', '"c"'],
    ['a list', { type: 'array' }, [1], 'json', '[\n  1\n]'],
    ['a value of another type', { type: 'string' }, 7, 'json', '7'],
    ['several types', { type: ['string', 'null'] }, 'a', 'json', '"a"'],
    ['no rules', {}, 'a', 'string', 'a'],
    ['invisible characters', { type: 'string' }, 'a\u202Eb', 'json', '"a\\u202eb"'],
    ['a space that looks like another', { type: 'string' }, 'a\u00A0b', 'json', '"a\\u00a0b"'],
    ['several lines', { type: 'string' }, 'a\nb', 'string', 'a\nb'],
  ])('shows %s', (_, schema, value, kind, text) => {
    expect(field(schema, value)).toMatchObject({ kind, text })
  })

  test('has the schema’s order, then arguments that the schema doesn’t know, and no optional ones that are missing', () => {
    const schema = { properties: { b: {}, a: {}, c: {}, d: {} }, required: ['d'] }
    const names = describeFields(schema, { extra: 1, a: 1, b: 2 }).map(({ name }) => name)
    expect(names).toEqual(['b', 'a', 'd', 'extra'])
  })

  test('has arguments with names of the prototype, and survives a schema of any shape', () => {
    const input = JSON.parse('{"__proto__": 1, "constructor": 2}')
    expect(describeFields({ properties: [], required: 'x' }, input).map(({ name }) => name)).toEqual([
      '__proto__',
      'constructor',
    ])
    expect(describeFields(undefined, {})).toEqual([])
  })

  test('isn’t shown if it had too many fields, or too long ones', () => {
    const many = Object.fromEntries(Array.from({ length: 41 }, (_, index) => [`a${index}`, 1]))
    expect(isReadable(describeFields({}, many))).toBe(false)
    expect(isReadable(describeFields({}, { text: 'x'.repeat(10_001) }))).toBe(false)
    expect(isReadable(describeFields({}, { text: 'x' }))).toBe(true)
  })

  test.each([
    ['product_id', 'Product id'],
    ['productId', 'Product id'],
    ['--', '--'],
    ['Größe', 'Größe'],
  ])('labels %s', (name, label) => {
    expect(labelOf(name)).toBe(label)
  })
})

describe('what the user typed', () => {
  test.each([
    ['unchanged', field({ type: 'integer' }, 2), '2', { value: 2 }],
    ['a number', field({ type: 'number' }), '1.5', { value: 1.5 }],
    ['a number that isn’t whole', field({ type: 'integer' }), '1.5', { error: 'needsInteger' }],
    ['no number', field({ type: 'integer' }), 'two', { error: 'needsNumber' }],
    ['too little', field({ type: 'integer', minimum: 1 }), '0', { error: 'needsAtLeast', values: { limit: 1 } }],
    ['too much', field({ type: 'integer', maximum: 9 }), '10', { error: 'needsAtMost', values: { limit: 9 } }],
    ['nothing, though required', field({ type: 'integer' }, 2), ' ', { error: 'needsValue' }],
    ['nothing, and optional', field({ type: 'integer' }, 2, []), '', { isMissing: true }],
    ['nothing, as before', field({ type: 'string' }, ''), '', { value: '' }],
    [
      'too long a text',
      field({ maxLength: 2, type: 'string' }),
      'abc',
      { error: 'needsShorter', values: { limit: 2 } },
    ],
    ['too short a text', field({ minLength: 2, type: 'string' }), 'a', { error: 'needsLonger', values: { limit: 2 } }],
    ['JSON', field({ type: 'object' }), '{"a": [1]}', { value: { a: [1] } }],
    ['broken JSON', field({ type: 'object' }), '{a}', { error: 'needsJson' }],
    ['a choice', field({ enum: [1, 'b'] }), '"b"', { value: 'b' }],
    ['no', field({ type: 'boolean' }, true), 'false', { value: false }],
  ])('is read: %s', (_, given, text, expected) => {
    expect(checkField(given, text)).toEqual(expected)
  })
})
