import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { filterLimits, matches, parseFilter, parsePath } from './filters.ts'
import { enterpriseSchema, groupType, userSchema, userType } from './schemas.ts'
import { ScimError } from './scim-error.ts'

const ann = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  externalId: 'Ext-1',
  userName: 'Ann@acme.example',
  name: { givenName: 'Ann', familyName: 'O"Hara' },
  active: false,
  emails: [
    { value: 'ann@acme.example', type: 'work', primary: true },
    { value: 'ann@home.example', type: 'home' },
  ],
  [enterpriseSchema]: { department: 'Sales', manager: { value: 'boss' } },
  meta: { created: '2026-03-01T10:00:00.000Z' },
}

describe('a filter', () => {
  test.each([
    ['userName eq "ann@ACME.example"', true],
    ['username EQ "ann@acme.example"', true],
    ['userName eq "bob"', false],
    ['externalId eq "Ext-1"', true],
    ['externalId eq "ext-1"', false],
    ['userName ne "bob"', true],
    ['userName co "acme" and userName sw "ann" and userName ew ".example"', true],
    ['active eq false', true],
    ['active eq "False"', true],
    ['active eq true', false],
    ['title pr', false],
    ['emails pr', true],
    ['title eq null', true],
    ['title ne null', false],
    ['name.familyName eq "O\\"Hara"', true],
    ['emails eq "ann@home.example"', true],
    ['emails.value co "home"', true],
    ['emails[type eq "work"].value eq "ann@acme.example"', true],
    ['emails[type eq "work" and value co "home"]', false],
    ['emails[type eq "work"].value eq "ann@home.example"', false],
    ['emails[not (type eq "home") and primary eq true]', true],
    [`${userSchema}:userName sw "ann"`, true],
    [`${enterpriseSchema}:department eq "sales"`, true],
    [`${enterpriseSchema}:manager.value eq "boss"`, true],
    ['meta.created gt "2026-02-28T00:00:00+01:00"', true],
    ['meta.created le "2026-03-01T10:00:00Z"', true],
    ['userName eq "x" or active eq false and title pr', false],
    ['(userName eq "x" or active eq false) and not (title pr)', true],
    [`id eq "${ann.id}"`, true],
  ])('%s is %s', (text, expected) => expect(matches(parseFilter(userType, text), ann)).toBe(expected))

  test.each([
    '',
    'userName',
    'userName eq',
    'userName eq bob',
    'userName eq "bob',
    'userName is "bob"',
    'userName eq "bob" and',
    'userName eq "bob" userName eq "bob"',
    'unknown eq "x"',
    'name.unknown eq "x"',
    'name.givenName.x eq "x"',
    'urn:unknown:userName eq "x"',
    'department eq "x"',
    'active gt true',
    'active eq "maybe"',
    'active eq 1',
    'meta.created gt "yesterday"',
    'name eq "Ann"',
    'userName[type eq "x"]',
    'emails[type eq "work"',
    'emails[unknown eq "work"]',
    'emails[type eq "work"].unknown eq "x"',
    'not userName eq "x"',
    '(userName eq "x"',
    'userName eq "\\u0000"',
    'userName eq "\\ud800"',
    'userName eq "\\x"',
    `userName eq "${'x'.repeat(filterLimits.length)}"`,
    `${'('.repeat(filterLimits.depth)}title pr${')'.repeat(filterLimits.depth)}`,
    Array.from({ length: filterLimits.comparisons + 1 }, () => 'title pr').join(' or '),
  ])('%s is refused', (text) => {
    const refused = expect.objectContaining({ status: 400, scimType: 'invalidFilter', message: expect.any(String) })
    expect(() => parseFilter(userType, text)).toThrow(refused)
  })

  test('of any text is understood or refused, and never anything else', () => {
    const words = fc.constantFrom(
      'userName',
      'emails',
      'eq',
      'pr',
      'and',
      'or',
      'not',
      '(',
      ')',
      '[',
      ']',
      '.value',
      '"x"',
      'true',
      ' ',
    )
    const text = fc.oneof(
      fc.string(),
      fc.array(words, { maxLength: 20 }).map((all) => all.join(' ')),
    )
    fc.assert(
      fc.property(text, (filter) => {
        try {
          matches(parseFilter(userType, filter), ann)
        } catch (error) {
          expect(error).toBeInstanceOf(ScimError)
          expect((error as ScimError).message.length).toBeLessThan(500)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  test('for equality finds exactly the value, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 100 }), fc.string({ maxLength: 20 }), (value, other) => {
        fc.pre(!value.includes('\0') && value !== '')
        const filter = parseFilter(userType, `externalId eq ${JSON.stringify(value)}`)
        expect(matches(filter, { externalId: value })).toBe(true)
        expect(matches(filter, { externalId: other })).toBe(value === other)
        const negated = parseFilter(userType, `not (externalId eq ${JSON.stringify(value)})`)
        expect(matches(negated, { externalId: value })).toBe(false)
      }),
    )
  })
})

describe('a path', () => {
  test.each([
    ['displayName', userType],
    ['NAME.givenname', userType],
    ['emails[type eq "work"].value', userType],
    [`${userSchema}:emails[type eq "work"]`, userType],
    [`${enterpriseSchema}:manager.value`, userType],
    ['members[value eq "1" or value eq "2"]', groupType],
  ])('%s is understood', (text, type) => expect(parsePath(type, text)).toHaveProperty('attribute'))

  test('of an extension is the whole extension', () => {
    expect(parsePath(userType, enterpriseSchema)).toEqual({ schema: enterpriseSchema })
  })

  test.each([
    '',
    'x',
    'emails[',
    'emails[type]',
    'emails.value.x',
    'userName eq "x"',
    'members',
    enterpriseSchema.slice(1),
  ])('%s is refused', (text) => {
    expect(() => parsePath(userType, text)).toThrow(expect.objectContaining({ status: 400, scimType: 'invalidPath' }))
  })
})
