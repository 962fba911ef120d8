import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findArgumentProblem } from './argument-problems.ts'

const nested = (levels: number, wrap: (inner: object) => object, inner: object = {}): object =>
  levels === 0 ? inner : nested(levels - 1, wrap, wrap(inner))

test.each<[string, object, object, string | undefined]>([
  ['no schema', {}, { a: 1 }, undefined],
  ['a type', { properties: { a: { type: 'string' } } }, { a: 'x' }, undefined],
  ['a wrong type', { properties: { a: { type: 'string' } } }, { a: 1 }, '“a” must be text.'],
  ['several types', { properties: { a: { type: ['string', 'null'] } } }, { a: null }, undefined],
  ['none of several types', { properties: { a: { type: ['string', 'null'] } } }, { a: 1 }, '“a” must be text or null.'],
  ['an unknown type', { properties: { a: { type: 'date' } } }, { a: 1 }, undefined],
  ['a whole number', { properties: { a: { type: 'integer' } } }, { a: 1.5 }, '“a” must be a whole number.'],
  ['a list instead of an object', { properties: { a: { type: 'object' } } }, { a: [] }, '“a” must be an object.'],
  ['an option', { properties: { a: { enum: ['x', { y: 1 }] } } }, { a: { y: 1 } }, undefined],
  ['no option', { properties: { a: { enum: ['x', 2] } } }, { a: 'y' }, '“a” must be one of "x", 2.'],
  ['a constant', { properties: { a: { const: [1] } } }, { a: [1] }, undefined],
  ['another constant', { properties: { a: { const: [1] } } }, { a: [2] }, '“a” must be [1].'],
  ['a missing argument', { required: ['a'] }, { b: 1 }, '“a” is missing.'],
  ['a missing nested argument', { properties: { a: { required: ['b'] } } }, { a: {} }, '“a.b” is missing.'],
  ['an inherited name', { required: ['toString'] }, {}, '“toString” is missing.'],
  [
    'an unknown argument',
    { additionalProperties: false, properties: { a: {} } },
    { b: 1 },
    '“b” isn’t an argument of this tool.',
  ],
  ['a pattern for names', { additionalProperties: false, patternProperties: { '^b': {} } }, { b: 1 }, undefined],
  ['an unwanted argument', { properties: { a: false } }, { a: 1 }, '“a” isn’t allowed.'],
  ['a small number', { properties: { a: { minimum: 5 } } }, { a: 4 }, '“a” must be at least 5.'],
  ['a large number', { properties: { a: { maximum: 5 } } }, { a: 6 }, '“a” must be at most 5.'],
  [
    'a number at an excluded minimum',
    { properties: { a: { exclusiveMinimum: 5 } } },
    { a: 5 },
    '“a” must be more than 5.',
  ],
  [
    'a number at an excluded maximum',
    { properties: { a: { exclusiveMaximum: 5 } } },
    { a: 5 },
    '“a” must be less than 5.',
  ],
  ['a short text', { properties: { a: { minLength: 2 } } }, { a: '😀' }, '“a” must have at least 2 characters.'],
  ['a long text', { properties: { a: { maxLength: 1 } } }, { a: 'ab' }, '“a” must have at most 1 character.'],
  ['a text of surrogate pairs', { properties: { a: { maxLength: 1 } } }, { a: '😀' }, undefined],
  ['a short list', { properties: { a: { minItems: 1 } } }, { a: [] }, '“a” must have at least 1 item.'],
  ['a long list', { properties: { a: { maxItems: 1 } } }, { a: [1, 2] }, '“a” must have at most 1 item.'],
  ['a wrong item', { properties: { a: { items: { type: 'number' } } } }, { a: [1, 'x'] }, '“a.1” must be a number.'],
  [
    'items after a prefix',
    { properties: { a: { prefixItems: [{}], items: { type: 'number' } } } },
    { a: ['x'] },
    undefined,
  ],
  ['all of several', { allOf: [{ required: ['a'] }, { required: ['b'] }] }, { a: 1 }, '“b” is missing.'],
  ['any of several', { anyOf: [{ required: ['a'] }, { required: ['b'] }] }, { b: 1 }, undefined],
  [
    'none of several',
    { anyOf: [{ required: ['a'] }, { required: ['b'] }] },
    {},
    'The value doesn’t match any of the allowed forms.',
  ],
  ['the only form', { oneOf: [{ required: ['a'] }] }, {}, '“a” is missing.'],
  ['forms that only references tell apart', { oneOf: [{ $ref: '#/a' }, { $ref: '#/b' }] }, {}, undefined],
  ['a pattern', { properties: { a: { pattern: '^(a+)+$' } } }, { a: `${'a'.repeat(50_000)}!` }, undefined],
  [
    'a key of every object',
    { properties: JSON.parse('{"__proto__": {"type": "string"}}') },
    JSON.parse('{"__proto__": 1}'),
    '“__proto__” must be text.',
  ],
])('%s', (_, schema, args, problem) => {
  expect(findArgumentProblem(schema as Record<string, unknown>, args as Record<string, unknown>)).toBe(problem)
})

test('long names and values are shortened in the message', () => {
  const problem = findArgumentProblem(
    { properties: { ['x'.repeat(1_000)]: { const: 'y'.repeat(1_000) } } },
    { ['x'.repeat(1_000)]: 1 },
  )
  expect(problem?.length).toBeLessThan(500)
})

describe('a schema that would take too long', () => {
  const tooComplex = 'The tool’s definition is too complex to check the arguments against.'

  test.each<[string, object, object]>([
    // 2^40 combinations.
    ['with alternatives at every level', nested(40, (inner) => ({ anyOf: [inner, inner] }), { type: 'string' }), {}],
    ['that is nested too deeply', nested(70, (inner) => ({ allOf: [inner] })), {}],
    [
      'with many alternatives for many items',
      { properties: { a: { items: { anyOf: [...Array(500).fill({ type: 'string' }), {}] } } } },
      { a: Array(500).fill(1) },
    ],
    [
      'with many limits for a long text',
      { properties: { a: { allOf: Array(1_000).fill({ minLength: 1 }) } } },
      { a: 'x'.repeat(1_000_000) },
    ],
  ])('is refused: %s', (_, schema, args) => {
    expect(findArgumentProblem(schema as Record<string, unknown>, args as Record<string, unknown>)).toBe(tooComplex)
  })
})

/** Schemas with the interpreted keywords and arbitrary values for them. */
const anything = fc.jsonValue({ maxDepth: 1 })
const anySchema = fc.letrec((tie) => {
  const schemas = fc.array(tie('schema'), { maxLength: 3 })
  const type = fc.constantFrom('string', 'number', 'integer', 'object', 'array', 'null', '__proto__')
  const keywords = {
    type: fc.oneof(type, anything),
    enum: anything,
    const: anything,
    required: anything,
    properties: fc.oneof(
      fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('schema'), { maxKeys: 3 }),
      anything,
    ),
    additionalProperties: anything,
    items: tie('schema'),
    minimum: anything,
    maxLength: anything,
    minItems: anything,
    anyOf: fc.oneof(schemas, anything),
    oneOf: fc.oneof(schemas, anything),
    allOf: fc.oneof(schemas, anything),
  }
  return { schema: fc.oneof({ maxDepth: 3 }, anything, fc.record(keywords, { requiredKeys: [] })) }
}).schema

test('any schema and any arguments have a problem or none, and nothing is thrown', () => {
  fc.assert(
    fc.property(
      anySchema,
      fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), fc.jsonValue()),
      (schema, args) => {
        const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema)
        const problem = findArgumentProblem(isObject ? (schema as Record<string, unknown>) : {}, args)
        expect(problem === undefined || problem.length > 0).toBe(true)
      },
    ),
    { numRuns: 500 },
  )
})

test('values fit a schema that lists exactly them', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 })), (args) => {
      const properties = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, { const: value }]))
      const schema = { type: 'object', properties, required: Object.keys(args), additionalProperties: false }
      expect(findArgumentProblem(schema, args)).toBeUndefined()
      expect(findArgumentProblem(schema, { ...args, 'another name': 1 })).toMatch(/isn’t an argument/)
    }),
  )
})
