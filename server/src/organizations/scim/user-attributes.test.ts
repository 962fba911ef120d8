import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { enterpriseSchema, userSchema } from './schemas.ts'
import { ScimError } from './scim-error.ts'
import { columnsOf, type PatchOperation, patchUser, readUser, userLimits } from './user-attributes.ts'

const ann = readUser({
  userName: 'ann',
  name: { givenName: 'Ann', familyName: 'Archer' },
  emails: [{ value: 'ann@acme.example', type: 'work', primary: true }],
  [enterpriseSchema]: { department: 'Sales' },
})
const patched = (...operations: Partial<PatchOperation>[]) =>
  patchUser(
    ann,
    operations.map((each) => ({ op: 'replace', path: undefined, value: undefined, ...each })),
  )

describe('a patch', () => {
  test.each<[string, Partial<PatchOperation>, object]>([
    ['Okta: deactivate', { value: { active: false } }, { active: false }],
    ['Entra: deactivate with text', { path: 'active', value: 'False' }, { active: false }],
    ['Entra: activate with text', { path: 'active', value: 'True' }, { active: true }],
    ['a name in any case', { path: 'DISPLAYNAME', value: 'Ann A.' }, { displayName: 'Ann A.' }],
    [
      'a part of the name',
      { path: 'name.givenName', value: 'Anna' },
      { name: { givenName: 'Anna', familyName: 'Archer' } },
    ],
    [
      'a complex attribute keeps its other parts',
      { path: 'name', value: { givenName: 'Anna' } },
      { name: { givenName: 'Anna', familyName: 'Archer' } },
    ],
    [
      'a dotted key without a path',
      { value: { 'name.familyName': 'B', title: 'Chief' } },
      { name: { givenName: 'Ann', familyName: 'B' }, title: 'Chief' },
    ],
    [
      'a URN key without a path',
      { value: { [`${enterpriseSchema}:department`]: 'IT' } },
      { [enterpriseSchema]: { department: 'IT' } },
    ],
    [
      'a filter key without a path',
      { value: { 'emails[type eq "work"].value': 'a@b.example' } },
      { emails: [{ value: 'a@b.example', type: 'work', primary: true }] },
    ],
    ['a URN path', { path: `${userSchema}:title`, value: 'Chief' }, { title: 'Chief' }],
    [
      'an extension without a path',
      { value: { [enterpriseSchema]: { costCenter: '7' } } },
      { [enterpriseSchema]: { department: 'Sales', costCenter: '7' } },
    ],
    [
      'a manager as text',
      { op: 'add', path: `${enterpriseSchema}:manager`, value: 'boss' },
      { [enterpriseSchema]: { department: 'Sales', manager: { value: 'boss' } } },
    ],
    [
      'a phone that is named by its type',
      { op: 'add', path: 'phoneNumbers[type eq "mobile"].value', value: '+1' },
      { phoneNumbers: [{ type: 'mobile', value: '+1' }] },
    ],
    [
      'a second address',
      { op: 'add', path: 'emails', value: [{ value: 'ann@home.example', type: 'home' }] },
      {
        emails: [
          { value: 'ann@acme.example', type: 'work', primary: true },
          { value: 'ann@home.example', type: 'home' },
        ],
      },
    ],
    [
      'a new primary address',
      { op: 'add', path: 'emails', value: { value: 'a@b.example', type: 'other', primary: 'True' } },
      {
        emails: [
          { value: 'ann@acme.example', type: 'work', primary: false },
          { value: 'a@b.example', type: 'other', primary: true },
        ],
      },
    ],
    [
      'the same address again',
      { op: 'add', path: 'emails', value: [{ value: 'ann@acme.example', type: 'work', primary: true }] },
      {},
    ],
    ['other addresses', { path: 'emails', value: [{ value: 'a@b.example' }] }, { emails: [{ value: 'a@b.example' }] }],
    ['a removed attribute', { op: 'remove', path: 'name' }, { name: undefined }],
    ['a removed part', { op: 'remove', path: 'name.familyName' }, { name: { givenName: 'Ann' } }],
    ['a removed address', { op: 'remove', path: 'emails[type eq "work"]' }, { emails: undefined }],
    [
      'a removed address by value',
      { op: 'remove', path: 'emails', value: [{ value: 'ann@acme.example' }] },
      { emails: undefined },
    ],
    [
      'a removed extension',
      { op: 'remove', path: `${enterpriseSchema}:department` },
      { [enterpriseSchema]: undefined },
    ],
    ['null removes', { value: { name: null } }, { name: undefined }],
    ['a repeated ID', { value: { id: 'x', schemas: [], meta: {}, title: 'Chief' } }, { title: 'Chief' }],
    ['a password, which is not stored', { value: { password: 'secret' } }, {}],
  ])('%s', (_, operation, changes) => expect(patched(operation)).toEqual({ ...ann, ...changes }))

  test.each<[string, Partial<PatchOperation>, string]>([
    ['an unknown attribute', { value: { shoeSize: 7 } }, 'invalidPath'],
    ['an unknown path', { path: 'shoeSize', value: 7 }, 'invalidPath'],
    ['a read-only path', { path: 'id', value: 'x' }, 'mutability'],
    ['groups', { op: 'add', path: 'groups', value: [{ value: 'x' }] }, 'mutability'],
    ['no path to remove', { op: 'remove' }, 'noTarget'],
    ['no object', { value: 'x' }, 'invalidValue'],
    ['a list as the value', { value: [{ active: false }] }, 'invalidValue'],
    ['a boolean that is none', { path: 'active', value: 'no' }, 'invalidValue'],
    ['a number as a boolean', { path: 'active', value: 0 }, 'invalidValue'],
    ['the removal of active', { op: 'remove', path: 'active' }, 'invalidValue'],
    ['the removal of the name', { op: 'remove', path: 'userName' }, 'invalidValue'],
    ['an empty name', { path: 'userName', value: ' ' }, 'invalidValue'],
    ['a long name', { path: 'userName', value: 'x'.repeat(userLimits.userName + 1) }, 'invalidValue'],
    ['a long text', { path: 'title', value: 'x'.repeat(userLimits.text + 1) }, 'invalidValue'],
    [
      'too many values',
      { path: 'emails', value: Array.from({ length: userLimits.values + 1 }, () => ({ value: 'x' })) },
      'invalidValue',
    ],
    [
      'too much in all',
      { path: 'roles', value: Array.from({ length: 50 }, () => ({ value: 'x'.repeat(900) })) },
      'invalidValue',
    ],
    ['no match', { path: 'emails[type co "home"].value', value: 'x' }, 'noTarget'],
  ])('refuses %s', (_, operation, scimType) => {
    expect(() => patched(operation)).toThrow(expect.objectContaining({ status: 400, scimType }))
  })

  test('applies operations in order', () => {
    const changed = patched(
      { value: { title: 'A' } },
      { op: 'remove', path: 'title' },
      { op: 'add', path: 'title', value: 'B' },
    )
    expect(changed.title).toBe('B')
  })

  const path = fc.constantFrom(
    'title',
    'name',
    'name.givenName',
    'emails',
    'emails[type eq "work"]',
    'emails[type eq "work"].value',
    'emails.value',
    'active',
    enterpriseSchema,
    `${enterpriseSchema}:manager`,
    'x',
    undefined,
  )
  const operation = fc.record({
    op: fc.constantFrom('add' as const, 'replace' as const, 'remove' as const),
    path,
    value: fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom({ value: 'a@b.example', type: 'work' }, { active: 'False' }, [{ value: 'x' }], 'text', true),
    ),
  })

  test('gives a complete user or is refused, and never changes the user it was given', () => {
    const before = structuredClone(ann)
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 6 }), (operations) => {
        try {
          const user = patchUser(ann, operations)
          expect(typeof user.userName).toBe('string')
          expect(typeof user.active).toBe('boolean')
          expect(JSON.parse(JSON.stringify(readUser(user)))).toEqual(JSON.parse(JSON.stringify(user)))
          expect(columnsOf(user)).toMatchObject({ user_name: 'ann', active: user.active })
        } catch (error) {
          if (!(error instanceof ScimError)) throw error
        }
        expect(ann).toEqual(before)
      }),
      { numRuns: 2_000 },
    )
  })

  test('that is repeated changes nothing more', () => {
    fc.assert(
      fc.property(operation, (one) => {
        let once: object
        try {
          once = patchUser(ann, [one])
        } catch {
          return
        }
        expect(patchUser(once as typeof ann, [one])).toEqual(once)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('a user', () => {
  test.each<[string, object, object]>([
    [
      'the primary address',
      { emails: [{ value: 'A@x.example' }, { value: 'B@x.example', primary: true }] },
      { email: 'b@x.example' },
    ],
    [
      'the one for work',
      {
        emails: [
          { value: 'a@x.example', type: 'home' },
          { value: 'b@x.example', type: 'Work' },
        ],
      },
      { email: 'b@x.example' },
    ],
    ['the first', { emails: [{ value: 'a@x.example' }] }, { email: 'a@x.example' }],
    ['its user name', { userName: 'Ann@X.example' }, { email: 'ann@x.example' }],
    ['none', { emails: [{ value: 'none' }] }, { email: '' }],
  ])('is identified by %s', (_, body, columns) =>
    expect(columnsOf(readUser({ userName: 'ann', ...body }))).toMatchObject(columns),
  )

  test.each<[object, string]>([
    [{ displayName: 'Ann A.', name: { formatted: 'x' } }, 'Ann A.'],
    [{ name: { formatted: 'Ann B.' } }, 'Ann B.'],
    [{ name: { givenName: 'Ann', familyName: 'C.' } }, 'Ann C.'],
    [{ displayName: 'Ann\u202Egpj' }, 'Anngpj'],
    [{}, ''],
  ])('%j is shown as “%s”', (body, name) => expect(columnsOf(readUser({ userName: 'ann', ...body })).name).toBe(name))

  test('that is replaced without “active” stays as active as it was', () => {
    expect(readUser({ userName: 'ann' }, { active: false }).active).toBe(false)
    expect(readUser({ userName: 'ann' }).active).toBe(true)
    expect(readUser({ userName: 'ann', active: 'false' }).active).toBe(false)
  })

  test.each<[string, object]>([
    ['no name', {}],
    ['a name that is no text', { userName: { value: 'x' } }],
    ['emails that are no objects', { userName: 'ann', emails: [7] }],
    ['a name of the wrong shape', { userName: 'ann', name: ['x'] }],
    ['an extension of the wrong shape', { userName: 'ann', [enterpriseSchema]: 'x' }],
  ])('with %s is refused', (_, body) => {
    expect(() => readUser(body as Record<string, unknown>)).toThrow(
      expect.objectContaining({ status: 400, scimType: 'invalidValue' }),
    )
  })
})
