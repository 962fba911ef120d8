import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Failure } from '../../kernel/lib/errors.ts'
import { builtInSkills } from './built-in-skills.ts'
import { parseSkillDocument } from './skill-document.ts'

const print = (frontmatter: string, body = '') => `---\n${frontmatter}\n---\n${body}`
const withFields = (...lines: string[]) => print(['name: a-skill', 'description: Use it.', ...lines].join('\n'))
const quoted = (name: string) => print(`name: ${JSON.stringify(name)}\ndescription: Use it.`)

const read = (content: string) => parseSkillDocument(content).document

/** The field and message of the error for an invalid text. The message is also in `details`. */
function refusalOf(content: string): [string, string] {
  try {
    parseSkillDocument(content)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const { message, data } = error.envelope
    expect(error.envelope).toEqual({
      defined: true,
      code: 'BAD_REQUEST',
      status: 400,
      message,
      data: { code: 'VALIDATION_ERROR', field: data?.field, details: message },
    })
    return [String(data?.field), message]
  }
  throw new Error('Expected a failure')
}

describe('a name', () => {
  test.each([
    ['one letter', 'a'],
    ['one digit', '1'],
    ['hyphens between words', 'my-first-skill'],
    ['digits in it', 'top-10-of-2026'],
    ['digits first', '3d-print'],
    ['only digits', '2026'],
    ['64 letters', 'a'.repeat(64)],
    ['64 letters beyond the basic plane', '𠮷'.repeat(64)],
    ['64 characters that take more bytes in UTF-8', 'ж'.repeat(64)],
    ['Latin with diacritics', 'café-crème'],
    ['sharp s', 'straße'],
    ['Polish', 'zażółć-gęślą'],
    ['Turkish dotless i', 'ısı'],
    ['Vietnamese', 'tiếng-việt'],
    ['Greek with a final sigma', 'οδηγός'],
    ['Cyrillic', 'мой-навык'],
    ['Armenian', 'հմտություն'],
    ['Georgian', 'უნარი'],
    ['Hebrew', 'מיומנות'],
    ['Arabic', 'مهارة'],
    ['Arabic-Indic digits', '٣'],
    ['Han', '技能'],
    ['Han with the ideographic zero', '二〇二六'],
    ['Hiragana', 'すきる'],
    ['Katakana with a length mark', 'スキーム'],
    ['Hangul', '기술'],
    ['Devanagari with vowel signs', 'कौशल'],
    ['Devanagari with a virama', 'हिन्दी-कौशल'],
    ['Thai with vowel and tone marks', 'ทักษะ'],
    ['Thai with several marks on a letter', 'ที่อยู่'],
    ['Tamil', 'திறன்'],
    ['Bengali', 'দক্ষতা'],
    ['Khmer', 'ជំនាញ'],
    ['Burmese', 'ကျွမ်းကျင်မှု'],
    ['Ethiopic', 'ክህሎት'],
    ['small letters of a script beyond the basic plane', '𐐨𐐩'],
    ['Egyptian hieroglyphs', '𓀀𓀁'],
  ])('can be %s', (_, name) => expect(read(quoted(name)).name).toBe(name))

  test.each([
    ['full-width letters', 'ｓｋｉｌｌ', 'skill'],
    ['a full-width hyphen', 'a－b', 'a-b'],
    ['half-width Katakana', 'ｽｷﾙ', 'スキル'],
    ['a ligature', 'ﬁle', 'file'],
    ['a circled digit', '①', '1'],
    ['a superscript', 'x²', 'x2'],
    ['a small roman numeral', 'ⅷ', 'viii'],
    ['mathematical small letters', '𝓼𝓴𝓲𝓵𝓵', 'skill'],
    ['a letter and a combining accent', 'cafe\u0301', 'café'],
    ['a combining mark that has no composed form', 'q\u0303', 'q\u0303'],
    ['decomposed Hangul', '\u1100\u1161', '가'],
    ['32 ligatures that are 64 letters', 'ﬀ'.repeat(32), 'f'.repeat(64)],
    ['65 letters that are 64 composed', `${'a'.repeat(63)}e\u0301`, `${'a'.repeat(63)}é`],
    ['spaces around it', '  my-skill ', 'my-skill'],
    ['a line break after it', 'my-skill\n', 'my-skill'],
  ])('with %s is normalized', (_, name, normalized) => expect(read(quoted(name)).name).toBe(normalized))

  const lowercase = 'name must be lowercase'
  const format = 'invalid name format'
  const long = 'name exceeds 64 characters'
  test.each([
    ['a capital', 'MySkill', lowercase],
    ['only capitals', 'SKILL', lowercase],
    ['Cyrillic capitals', 'НАВЫК', lowercase],
    ['a Greek capital', 'Οδηγός', lowercase],
    ['a full-width capital', 'Ｓkill', lowercase],
    ['a capital roman numeral', 'Ⅷ', lowercase],
    ['a black-letter capital', 'ℌ', lowercase],
    ['a titlecase digraph', 'ǅ', lowercase],
    ['a titlecase Greek letter', 'ᾈ', lowercase],
    ['a dotted capital i', 'İ', lowercase],
    ['capitals beyond the basic plane', '𐐀', lowercase],
    ['a capital in 65 characters', `A${'a'.repeat(64)}`, lowercase],
    ['65 letters', 'a'.repeat(65), long],
    ['65 letters beyond the basic plane', '𠮷'.repeat(65), long],
    ['30 ligatures that are 90 letters', 'ﬃ'.repeat(30), long],
    ['65 emoji', '😀'.repeat(65), long],
    ['a hyphen first', '-my-skill', format],
    ['a hyphen last', 'my-skill-', format],
    ['two hyphens', 'my--skill', format],
    ['two hyphens, one of them full-width', 'ﬀ-－a', format],
    ['a hyphen alone', '-', format],
    ['an underscore', 'my_skill', format],
    ['a space', 'my skill', format],
    ['a no-break space', 'my\u00a0skill', format],
    ['a dot', 'my.skill', format],
    ['a slash', '../skill', format],
    ['a colon', 'builtin:skill', format],
    ['a non-breaking hyphen', 'my\u2011skill', format],
    ['a soft hyphen', 'my\u00adskill', format],
    ['an en dash', 'my–skill', format],
    ['a fraction', '½', format],
    ['an emoji', '😀', format],
    ['an emoji after letters', 'skill-🚀', format],
    ['a keycap', '1\ufe0f\u20e3', format],
    ['a joiner', 'क\u200dष', format],
    ['a variation selector', 'a\ufe0f', format],
    ['an invisible Hangul filler', '\u3164', format],
    ['a combining mark first', '\u0301a', format],
    ['a combining mark after a hyphen', 'a-\u0301', format],
    ['a bidirectional override', 'a\u202eb', format],
    ['a control character', 'a\u0007b', format],
    ['a private-use character', '\ue000', format],
    ['markup', '<b>', format],
  ])('cannot have %s', (_, name, message) => expect(refusalOf(quoted(name))).toEqual(['name', message]))

  test('that is accepted is normalized, lowercase, not too long, and accepted again', () => {
    const alphabet = fc.oneof(fc.constantFrom(...'ab1-éжक\u0941技ｓﬃ'), fc.string({ unit: 'binary', maxLength: 1 }))
    const verdicts = { accepted: 0, refused: 0 }
    fc.assert(
      fc.property(fc.array(alphabet, { maxLength: 70 }), (characters) => {
        const content = quoted(characters.join(''))
        let name: string
        try {
          name = read(content).name
        } catch (error) {
          expect(error).toBeInstanceOf(Failure)
          verdicts.refused += 1
          return
        }
        verdicts.accepted += 1
        expect(name).toBe(name.normalize('NFKC').toLowerCase().trim())
        expect([...name].length).toBeLessThanOrEqual(64)
        expect(name).not.toMatch(/^-|-$|--/)
        expect(read(quoted(name)).name).toBe(name)
      }),
      { numRuns: 1000 },
    )
    expect(Math.min(verdicts.accepted, verdicts.refused), 'both outcomes occurred').toBeGreaterThan(0)
  })
})

describe('a document', () => {
  test('is parsed into its fields', () => {
    const content = print(
      [
        'name: refund-an-order',
        'description: >',
        '  Refund an order.',
        '  Use when money goes back.',
        'license: MIT',
        'compatibility: Needs the back office',
        'allowed-tools: find_order refund_order',
        'metadata:',
        '  author: Ana',
        '  version: 1.10',
        '  tags: [a, yes, {deep: ~}]',
        'priority: 3',
      ].join('\n'),
      '# Refund\n\nÄ body.\n',
    )
    expect(parseSkillDocument(content)).toEqual({
      document: {
        name: 'refund-an-order',
        description: 'Refund an order. Use when money goes back.',
        license: 'MIT',
        compatibility: 'Needs the back office',
        allowed_tools: 'find_order refund_order',
        metadata: { author: 'Ana', version: '1.10', tags: ['a', 'yes', { deep: null }] },
        body: '# Refund\n\nÄ body.\n',
        tokens: 5,
      },
      warnings: ['unknown frontmatter field "priority"'],
    })
  })

  test.each([
    ['digits', '123', '123'],
    ['a YAML 1.1 boolean', 'no', 'no'],
    ['a YAML null', 'null', 'null'],
    ['a YAML number', '1e3', '1e3'],
    ['a YAML date', '2026-11-15', '2026-11-15'],
  ])('reads %s as text', (_, written, text) => {
    const { name, description } = read(print(`name: ${written}\ndescription: ${written}`))
    expect({ name, description }).toEqual({ name: text, description: text })
  })

  test.each([
    ['3', 3],
    ['-2.5', -2.5],
    ['0', 0],
    ['true', true],
    ['False', false],
    ['null', null],
    ['~', null],
    ['"3"', '3'],
    ["'true'", 'true'],
    ['"null"', 'null'],
    ['1.10', '1.10'],
    ['1e3', '1e3'],
    ['0x10', '0x10'],
    ['007', '007'],
    ['-0', '-0'],
    ['12345678901234567890', '12345678901234567890'],
    ['.inf', '.inf'],
    ['Infinity', 'Infinity'],
    ['no', 'no'],
    ['2026-11-15', '2026-11-15'],
  ])('reads %s in metadata as %j, at any depth', (written, value) => {
    const { metadata } = read(withFields(`metadata: {a: ${written}, b: [{c: ${written}}], 3: x}`))
    expect(metadata).toEqual({ a: value, b: [{ c: value }], 3: 'x' })
    expect(JSON.parse(JSON.stringify(metadata))).toEqual(metadata)
  })

  test.each([
    ['missing', ''],
    ['without a value', 'license:\ncompatibility:\nallowed-tools:\nmetadata:'],
    ['empty', 'license: ""\ncompatibility: ""\nallowed-tools: " "\nmetadata: ""'],
  ])('has null for fields that are %s', (_, lines) => {
    expect(read(withFields(lines))).toMatchObject({
      license: null,
      compatibility: null,
      allowed_tools: null,
      metadata: null,
    })
  })

  test.each([
    ['a description of 1 character', 'name: a\ndescription: x'],
    ['a description of 1024 characters', `name: a\ndescription: ${'x'.repeat(1024)}`],
    ['a description of 1024 emoji', `name: a\ndescription: ${'😀'.repeat(1024)}`],
    ['a compatibility of 500 characters', `name: a\ndescription: x\ncompatibility: ${'x'.repeat(500)}`],
    ['an empty object as metadata', 'name: a\ndescription: x\nmetadata: {}'],
    ['comments', '# first\nname: a # second\ndescription: x'],
    ['flow style', '{name: a, description: x}'],
    ['quotes', `"name": 'a'\ndescription: "x"`],
    ['an end-of-document marker', 'name: a\ndescription: x\n...'],
    ['an unused anchor', 'name: &n a\ndescription: x'],
    ['32 levels', `name: a\ndescription: x\nmetadata: {a: ${'['.repeat(30)}${']'.repeat(30)}}`],
    ['16 KiB of frontmatter', `name: a\ndescription: x\n${comment(16 * 1024 - 24)}`],
  ])('can have %s', (_, frontmatter) => expect(read(print(frontmatter)).name).toBe('a'))

  test.each<[string, string, [string, string]]>([
    ['no text', '', ['content', 'frontmatter is missing']],
    ['only a body', '# Title\n', ['content', 'frontmatter is missing']],
    ['only an opening delimiter', '---', ['content', 'frontmatter is missing']],
    ['a line before the frontmatter', '\n---\nname: a\n---\n', ['content', 'frontmatter is missing']],
    ['a space before the delimiter', ' ---\nname: a\n---\n', ['content', 'frontmatter is missing']],
    ['a space after the delimiter', '--- \nname: a\n---\n', ['content', 'frontmatter is missing']],
    ['four hyphens', '----\nname: a\n----\n', ['content', 'frontmatter is missing']],
    ['no closing delimiter', '---\nname: a\n', ['content', 'frontmatter has no closing ---']],
    ['a closing delimiter with a space', '---\nname: a\n--- \n', ['content', 'frontmatter has no closing ---']],
    ['an indented closing delimiter', '---\nname: a\n ---\n', ['content', 'frontmatter has no closing ---']],
    ['carriage returns as line endings', '---\rname: a\r---\r', ['content', 'frontmatter is missing']],
    ['empty frontmatter', '---\n---\nbody', ['name', 'name is required']],
    ['only a comment', print('# nothing'), ['name', 'name is required']],
    ['no name', print('description: x'), ['name', 'name is required']],
    ['a name without a value', print('name:\ndescription: x'), ['name', 'name is required']],
    ['an empty name', print('name: ""\ndescription: x'), ['name', 'name is required']],
    ['a blank name', print('name: "\\u3000 "\ndescription: x'), ['name', 'name is required']],
    ['a name that is a list', print('name: [a]\ndescription: x'), ['name', 'name must be a string']],
    ['a name that is an object', print('name: {a: b}\ndescription: x'), ['name', 'name must be a string']],
    ['no description', print('name: a'), ['description', 'description is required']],
    ['an empty description', print('name: a\ndescription: ""'), ['description', 'description is required']],
    ['a blank description', print('name: a\ndescription: " "'), ['description', 'description is required']],
    [
      'a description that is a list',
      print('name: a\ndescription: []'),
      ['description', 'description must be a string'],
    ],
    [
      'a description of 1025 characters',
      print(`name: a\ndescription: ${'x'.repeat(1025)}`),
      ['description', 'description exceeds 1024 characters'],
    ],
    [
      'a compatibility of 501 characters',
      withFields(`compatibility: ${'x'.repeat(501)}`),
      ['compatibility', 'compatibility exceeds 500 characters'],
    ],
    [
      'a compatibility that is a list',
      withFields('compatibility: [x]'),
      ['compatibility', 'compatibility must be a string'],
    ],
    ['a license that is an object', withFields('license: {id: MIT}'), ['license', 'license must be a string']],
    [
      'allowed-tools that is a list',
      withFields('allowed-tools:\n  - a'),
      ['allowed-tools', 'allowed-tools must be a string'],
    ],
    ['metadata that is a string', withFields('metadata: x'), ['metadata', 'metadata must be an object']],
    ['metadata that is a list', withFields('metadata: [x]'), ['metadata', 'metadata must be an object']],
    ['frontmatter that is a string', print('just a line'), ['content', 'frontmatter must be an object']],
    ['frontmatter that is a list', print('- name: a'), ['content', 'frontmatter must be an object']],
    ['an unquoted colon', print('name: a\ndescription: Use: it'), ['content', 'frontmatter is not valid YAML']],
    ['an open bracket', withFields('metadata: {a: [}'), ['content', 'frontmatter is not valid YAML']],
    ['a tab as indentation', withFields('metadata:\n\ta: b'), ['content', 'frontmatter is not valid YAML']],
    [
      'NUL in the body',
      print('name: a\ndescription: x', '\0'),
      ['content', 'content contains NUL or an unpaired surrogate'],
    ],
    [
      'an unpaired surrogate',
      print('name: a\ndescription: x', '\ud83d'),
      ['content', 'content contains NUL or an unpaired surrogate'],
    ],
    ['an escaped NUL', withFields('license: "\\0"'), ['content', 'frontmatter contains NUL or an unpaired surrogate']],
    [
      'an escaped unpaired surrogate',
      withFields('metadata: {"\\ud83d": x}'),
      ['content', 'frontmatter contains NUL or an unpaired surrogate'],
    ],
    [
      'one byte more than 16 KiB of frontmatter',
      print(`name: a\ndescription: x\n${comment(16 * 1024 - 23)}`),
      ['content', 'frontmatter exceeds 16 KiB'],
    ],
  ])('cannot have %s', (_, content, refusal) => expect(refusalOf(content)).toEqual(refusal))

  test('can have at most 256 KiB', () => {
    const start = print('name: a\ndescription: x')
    const room = 256 * 1024 - start.length
    expect(read(`${start}${'é'.repeat(room / 2)}`).tokens).toBe(Math.ceil((Math.floor(room / 2) * 2) / 4))
    expect(refusalOf(`${start}${'é'.repeat(room / 2)}xx`)).toEqual(['content', 'content exceeds 256 KiB'])
  })

  test.each([
    ['', 0],
    ['a', 1],
    ['abcd', 1],
    ['abcde', 2],
    ['技能', 2],
  ])('with the body "%s" has about %i tokens', (body, tokens) => {
    expect(read(print('name: a\ndescription: x', body)).tokens).toBe(tokens)
  })
})

function comment(length: number): string {
  return `#${'x'.repeat(length - 1)}`
}

describe('a body is everything after the closing delimiter', () => {
  const frontmatter = 'name: a\ndescription: x\n'
  const arbitraryBody = fc
    .array(
      fc.oneof(
        fc.constantFrom(
          '---',
          '\n',
          '\r\n',
          '\r',
          '---\n',
          '\n---\n',
          '...',
          '\uFEFF',
          ' ',
          '\t',
          '\u2028',
          '```',
          'name: b',
        ),
        fc.string({ unit: 'binary' }),
      ),
    )
    .map((parts) => parts.join(''))
    .filter((body) => !body.includes('\0'))

  test('byte for byte, regardless of its content and the line endings', () => {
    fc.assert(
      fc.property(
        arbitraryBody,
        fc.constantFrom('', '\uFEFF'),
        fc.constantFrom('\n', '\r\n'),
        fc.constantFrom('\n', '\r\n'),
        (body, mark, openingEnd, closingEnd) => {
          const content = `${mark}---${openingEnd}${frontmatter}---${closingEnd}${body}`
          expect(read(content)).toMatchObject({ name: 'a', description: 'x', body })
        },
      ),
    )
  })

  test.each([
    ['nothing after it', `---\n${frontmatter}---`, ''],
    ['a carriage return after it', `---\r\n${frontmatter}---\r`, ''],
    ['a line feed after it', `---\n${frontmatter}---\n`, ''],
    ['an empty line after it', `---\n${frontmatter}---\n\n`, '\n'],
    ['another delimiter after it', `---\n${frontmatter}---\n---\nname: b\n`, '---\nname: b\n'],
    ['hyphens in the frontmatter', `---\n${frontmatter}license: a --- b\n---\nx`, 'x'],
    ['hyphens after a line separator in the frontmatter', `---\n${frontmatter}license: "a\u2028--- b"\n---\nx`, 'x'],
    ['two-byte line endings', `---\r\nname: a\r\ndescription: x\r\n---\r\n\r\nx\r\n`, '\r\nx\r\n'],
  ])('also with %s', (_, content, body) => expect(read(content)).toMatchObject({ name: 'a', body }))
})

const keys = (count: number) => Array.from({ length: count }, (_, n) => `k${n}: v`)

describe('a malicious document is rejected', () => {
  const billionLaughs = [
    'a: &a [x, x, x]',
    ...'bcdefgh'.split('').map((key, n) => `${key}: &${key} [*${'abcdefgh'[n]}, *${'abcdefgh'[n]}]`),
  ]
  test.each([
    [
      'a language after the opening delimiter',
      '---js\n{ name: "a", description: process.exit() }\n---\n',
      'frontmatter is missing',
    ],
    ['a language after a space', '--- coffee\nname: a\n---\n', 'frontmatter is missing'],
    ['a function', withFields('x: !!js/function "function () { process.exit() }"'), 'frontmatter must not use tags'],
    ['a constructor', withFields('x: !!python/object/apply:os.system ["true"]'), 'frontmatter must not use tags'],
    ['a custom tag', withFields('x: !mine y'), 'frontmatter must not use tags'],
    ['a standard tag', withFields('x: !!binary aGk='), 'frontmatter must not use tags'],
    ['a tag on a key', withFields('!!str x: y'), 'frontmatter must not use tags'],
    ['a tag on the whole document', print('!!map\nname: a'), 'frontmatter must not use tags'],
    ['a tag handle', print('%TAG ! tag:x,2026:\nname: a'), 'frontmatter is not valid YAML'],
    ['an alias', withFields('x: &x y', 'z: *x'), 'frontmatter must not use aliases'],
    ['an alias without an anchor', withFields('x: *nothing'), 'frontmatter must not use aliases'],
    ['an alias as a key', withFields('x: &x y', '*x : z'), 'frontmatter must not use aliases'],
    ['an alias to itself', withFields('x: &x [*x]'), 'frontmatter must not use aliases'],
    ['a billion laughs', withFields(...billionLaughs), 'frontmatter must not use aliases'],
    ['a merge key', withFields('<<: {license: MIT}'), 'frontmatter must not use merge keys'],
    ['a nested merge key', withFields('metadata: {"<<": {a: b}}'), 'frontmatter must not use merge keys'],
    ['a duplicate key', withFields('name: b'), 'frontmatter has a duplicate key'],
    ['a duplicate key in different quotes', withFields('"name": b'), 'frontmatter has a duplicate key'],
    ['a nested duplicate key', withFields('metadata: {a: 1, a: 2}'), 'frontmatter has a duplicate key'],
    ['a key that is an object', withFields('? {a: b}\n: c'), 'frontmatter has a forbidden key'],
    ['the key __proto__', withFields('__proto__: {admin: yes}'), 'frontmatter has a forbidden key'],
    ['a nested __proto__ key', withFields('metadata: {__proto__: {admin: yes}}'), 'frontmatter has a forbidden key'],
    ['two documents', withFields('...', 'name: b'), 'frontmatter is not valid YAML'],
    ['32 000 keys', withFields(...keys(32_000)), 'content exceeds 256 KiB'],
    ['32 000 short keys', withFields(...Array<string>(32_000).fill('k:')), 'frontmatter exceeds 16 KiB'],
    ['1 500 keys', withFields(...keys(1500)), 'frontmatter has too many YAML tokens'],
    ['500 keys, the last one twice', withFields(...keys(500), 'k499:'), 'frontmatter has a duplicate key'],
    [
      '33 levels',
      withFields(`metadata: {a: ${'['.repeat(31)}${']'.repeat(31)}}`),
      'frontmatter is nested deeper than 32 levels',
    ],
    [
      'thousands of levels',
      withFields(`x: ${'['.repeat(8000)}${']'.repeat(8000)}`),
      'frontmatter has too many YAML tokens',
    ],
    [
      'more levels than the stack can hold',
      withFields(`x: ${'['.repeat(2000)}${']'.repeat(2000)}`),
      'frontmatter is not valid YAML',
    ],
    ['hundreds of open levels', withFields(`x: ${'{a: '.repeat(500)}`), 'frontmatter is not valid YAML'],
  ])('with %s', (_, content, message) => {
    expect(refusalOf(content)).toEqual(['content', message])
    expect(({} as { admin?: unknown }).admin, 'prototypes are intact').toBeUndefined()
  })

  test('or parsed: no text causes any other error', () => {
    const piece = fc.constantFrom(
      '---',
      '\n',
      ' ',
      ': ',
      '- ',
      '? ',
      '&a ',
      '*a',
      '!t ',
      '!!str ',
      '|',
      '>',
      '"',
      "'",
      '[',
      ']',
      '{',
      '}',
      ',',
      '#',
      '%',
      '\t',
      '\\',
      'name',
      'description',
      'a',
      'metadata',
      '<<',
      '@',
      '`',
      '\r',
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string({ maxLength: 3 })), { maxLength: 60 }), (pieces) => {
        try {
          parseSkillDocument(print(pieces.join('')))
        } catch (error) {
          expect(error).toBeInstanceOf(Failure)
        }
      }),
      { numRuns: 2000 },
    )
  })
})

test('the built-in skills are valid and have no warnings', () => {
  expect([...builtInSkills.keys()]).toEqual(['builtin://skill-creator-webmcp'])
  for (const { content, name, location } of builtInSkills.values()) {
    expect(parseSkillDocument(content)).toMatchObject({ document: { name }, warnings: [] })
    expect(location).toBe(`builtin://${name}`)
  }
})
