import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvalidJson, parseJson } from './json.ts'

const nest = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

function messageOf(text: string): string {
  try {
    parseJson(text)
  } catch (error) {
    if (error instanceof InvalidJson) return error.message
    throw error
  }
  throw new Error(`Accepted ${text}`)
}

describe('accepts', () => {
  test.each([
    'null',
    ' 1 ',
    '-0',
    '1e400',
    '""',
    '{}',
    '[[],{},[{}]]',
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}',
    '{"a":"b","b":"a"}',
    '{"a":["a","a",{"x":1},"a"],"x":1}',
    '{"a":"{\\"a\\":1,\\"a\\":2}"}',
    '{"a\\\\":1,"a":2}',
    '{"a":"constructor","b":["__proto__"]}',
    '{"Constructor":1,"proto":2,"__proto":3,"":4}',
    '{"\\ud83d\\ude00":1}',
    '\t\r\n {"a" : 1 , "b" : [ 1 , 2 ] } \n',
  ])('%s', (text) => {
    expect(parseJson(text)).toStrictEqual(JSON.parse(text))
  })
})

describe('rejects', () => {
  test.each([
    ['a duplicate key', '{"name":1,"name":2}', 'Duplicate key "name"'],
    ['a duplicate after a nested value', '{"a":{"b":[1,{"c":2}]},"a":1}', 'Duplicate key "a"'],
    ['a duplicate inside an array', '[{},{"x":1,"y":2,"x":3}]', 'Duplicate key "x"'],
    ['an escaped duplicate', '{"a":1,"\\u0061":2}', 'Duplicate key "a"'],
    ['a differently escaped duplicate', '{"\\/\\u00e9":1,"/é":2}', 'Duplicate key "/é"'],
    ['an empty duplicate', '{"":1,"":2}', 'Duplicate key ""'],
    ['a duplicate among strings', '{"a" : "b" , "b" : "a" , "a" : 1}', 'Duplicate key "a"'],
    ['__proto__', '{"__proto__":{"admin":true}}', 'Forbidden key "__proto__"'],
    ['an escaped __proto__', '{"\\u005f_proto__":1}', 'Forbidden key "__proto__"'],
    ['constructor', '[{"a":{"constructor":1}}]', 'Forbidden key "constructor"'],
    ['prototype', '{"a":1,"prototype":1}', 'Forbidden key "prototype"'],
    ['NUL, which PostgreSQL cannot store', '{"a":"x\\u0000"}', 'Text must not contain NUL'],
    ['a lone surrogate', '["a\\ud800b"]', 'Text must not contain half of a surrogate pair'],
    ['nothing', '', 'Malformed JSON at position 0'],
    ['only spaces', '  ', 'Malformed JSON at position 2'],
    ['a missing end', '{"a":[1,', 'Malformed JSON at position 8'],
    ['trailing garbage', '{"a":1} x', 'Malformed JSON at position 8'],
    ['a second value', '{}{}', 'Malformed JSON at position 2'],
    ['a control character', '"a\nb"', 'Malformed JSON at position 2'],
    ['a bad escape', '"\\x"', 'Malformed JSON at position 2'],
    ['a leading zero', '01', 'Malformed JSON at position 1'],
    ['a trailing comma', '[1,]', 'Malformed JSON, unexpected "]"'],
    ['a bare word', 'hello', 'Malformed JSON, unexpected "h"'],
    ['a byte order mark', '\ufeff{}', 'Malformed JSON, unexpected "\ufeff"'],
    ['NaN', 'NaN', 'Malformed JSON'],
    ['text that looks like an error position', '[1,, " at position 7"]', 'Malformed JSON, unexpected ","'],
  ])('%s', (_name, text, message) => {
    expect(messageOf(text)).toBe(message)
  })

  test('objects and arrays that are nested too deep', () => {
    expect(parseJson(nest(64))).toStrictEqual(JSON.parse(nest(64)))
    expect(messageOf(nest(65))).toBe('Nested deeper than 64 levels')
    expect(messageOf(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`)).toBe('Nested deeper than 64 levels')
    expect(messageOf(nest(500_000))).toBe('Nested deeper than 64 levels')
    expect(parseJson('[[1],[2],[3]]', { maxDepth: 2 })).toStrictEqual([[1], [2], [3]])
    expect(() => parseJson('[[[]]]', { maxDepth: 2 })).toThrow('Nested deeper than 2 levels')
    expect(() => parseJson('[]', { maxDepth: 0 })).toThrow('Nested deeper than 0 levels')
  })

  test('an object with more than 1,000 keys, before it is created', () => {
    const withKeys = (count: number) => `{${Array.from({ length: count }, (_, index) => `"${index}":1`).join(',')}}`
    const tooMany = 'An object has more than 1000 keys'
    expect(Object.keys(parseJson(withKeys(1_000)) as object)).toHaveLength(1_000)
    expect(messageOf(withKeys(1_001))).toBe(tooMany)
    expect(messageOf(`[[{"a":${withKeys(1_001)}}]]`)).toBe(tooMany)
    expect(messageOf(`${withKeys(74_000)}}`), 'malformed too').toBe(tooMany)
    expect(parseJson(`[${withKeys(1_000)},${withKeys(1_000)}]`)).toHaveLength(2)
    const colons = JSON.stringify({ a: ':'.repeat(2_000), b: '":'.repeat(2_000), c: '\\":'.repeat(2_000) })
    expect(parseJson(colons)).toStrictEqual(JSON.parse(colons))
    expect(messageOf(`"${' '.repeat(10_000)}`)).toContain('Malformed JSON')
  })

  test('without echoing more than 64 characters of the text', () => {
    const long = 'k'.repeat(1000)
    expect(messageOf(`{"${long}":1,"${long}":2}`)).toBe(`Duplicate key "${'k'.repeat(63)}…"`)
    expect(messageOf(`[${long}]`)).not.toContain('kk')
  })
})

describe('agrees with JSON.parse', () => {
  const json = fc.json({ maxDepth: 8 }).filter((text) => !/\\u0000|"(__proto__|constructor|prototype)"/.test(text))

  test('about the output of JSON.stringify, compact or indented', () => {
    fc.assert(
      fc.property(json, fc.constantFrom(undefined, 2, '\t'), (compact, indent) => {
        const text = JSON.stringify(JSON.parse(compact), null, indent)
        expect(parseJson(text)).toStrictEqual(JSON.parse(text))
      }),
    )
  })

  test('about which texts are malformed', () => {
    const damaged = fc
      .tuple(json, fc.nat(), fc.nat(3), fc.constantFrom('', '"', '\\', '{', '}', '[', ']', ',', ':', '0', 'x', ' '))
      .map(([text, at, removed, inserted]) => {
        const index = at % (text.length + 1)
        return text.slice(0, index) + inserted + text.slice(index + removed)
      })
    const fragments = fc.string({ unit: fc.constantFrom('{', '}', '[', ']', ',', ':', '"', '\\', '"a"', '1', ' ') })
    fc.assert(
      fc.property(fc.oneof(damaged, fragments), (text) => {
        const expected = attempt(() => JSON.parse(text))
        const actual = attempt(() => parseJson(text))
        if ('error' in expected) expect(actual).toMatchObject({ error: expect.any(InvalidJson) })
        else if ('error' in actual) expect(String(actual.error)).toMatch(/Duplicate|Forbidden|must not contain/)
        else expect(actual).toStrictEqual(expected)
      }),
      { numRuns: 1000 },
    )
  })

  test('except about objects with a duplicate key', () => {
    const key = fc.string({ unit: 'binary' }).filter((text) => !/\0|^(__proto__|constructor|prototype)$/.test(text))
    fc.assert(
      fc.property(fc.uniqueArray(key, { minLength: 1 }), fc.nat(), fc.boolean(), (keys, pick, escaped) => {
        const repeated = keys[pick % keys.length] ?? ''
        const literal = escaped ? escapeAll(repeated) : JSON.stringify(repeated)
        const members = [...keys.map((name) => JSON.stringify(name)), literal].map((name) => `${name}:{"a":[]}`)
        expect(messageOf(`{${members.join()}}`)).toMatch(/^Duplicate key/)
      }),
    )
  })
})

function attempt(action: () => unknown): { value: unknown } | { error: unknown } {
  try {
    return { value: action() }
  } catch (error) {
    return { error }
  }
}

function escapeAll(text: string): string {
  const units = text.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return `"${units.join('')}"`
}
