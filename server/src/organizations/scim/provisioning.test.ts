import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { connectDirectory, proveDomains, type ScimAnswer, type ScimClient } from '../../../test/scim.ts'
import { signIn } from '../../accounts/users/users.ts'
import { enterpriseSchema } from './schemas.ts'

let app: TestService
let admin: string
let directory: ScimClient
beforeAll(async () => {
  app = await startTestService()
  admin = await app.tokenFor('admin@demo.test', 'demo')
  await proveDomains(app, await app.organization('demo'), 'acme.example')
})
afterAll(() => app.close())
beforeEach(async () => {
  directory = await connectDirectory(app)
})

const newName = (name = 'user') => `${name}-${randomUUID()}@acme.example`
const asAdmin = async (path: string) => (await app.request('GET', path, { token: admin })).body
const listUsers = () => asAdmin(`/directories/${directory.directoryId}/users?limit=100`)
const listGroups = () => asAdmin(`/directories/${directory.directoryId}/groups`)
type Member = { id: string; role: string; user: { email: string } }
const roleOf = async (email: string): Promise<string | undefined> =>
  (await asAdmin('/organizations/current/members')).find(({ user }: Member) => user.email === email)?.role
const membersOf = async (groupId: string) =>
  ((await directory.send('GET', `/Groups/${groupId}`)).body.members as { value: string }[]).map(({ value }) => value)
const filtered = (path: string, filter: string, more = '') =>
  directory.send('GET', `${path}?filter=${encodeURIComponent(filter)}${more}`)

/** One request of a client, and what it has to answer. `USER` and `GROUP` stand for the IDs of earlier answers. */
type Step = [method: string, path: string, body: unknown, expected: object]

/** Plays a recorded cycle of a client. */
async function play(steps: Step[], names: Record<string, string>) {
  const ids: Record<string, string> = {}
  const fill = (text: string) =>
    Object.entries({ ...names, ...ids }).reduce((filled, [name, value]) => filled.replaceAll(name, value), text)
  for (const [method, path, body, expected] of steps) {
    const sent = body === undefined ? undefined : JSON.parse(fill(JSON.stringify(body)))
    const answer = await directory.send(method, fill(path).replaceAll(' ', '%20').replaceAll('"', '%22'), sent)
    const wanted = JSON.parse(fill(JSON.stringify(expected)))
    expect(answer, `${method} ${path} ${JSON.stringify(body)}`).toMatchObject(wanted)
    if (method === 'POST' && answer.status === 201) ids[path === '/Users' ? 'USER' : 'GROUP'] = answer.body.id
  }
  return ids as { USER: string; GROUP: string }
}

const none = { status: 200, body: { totalResults: 0, itemsPerPage: 0, Resources: [] } }
const patchOf = (...Operations: object[]) => ({
  schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
  Operations,
})

test('Okta: looks for a user, creates, updates with PUT, pushes a group, deactivates, reactivates and deletes', async () => {
  const NAME = newName('okta')
  const profile = {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
    userName: 'NAME',
    name: { givenName: 'Ada', familyName: 'Okta' },
    emails: [{ primary: true, value: 'NAME', type: 'work' }],
    displayName: 'Ada Okta',
    locale: 'en-US',
    externalId: '00u1',
    groups: [],
    password: '1mz050nq',
    active: true,
  }
  const stored = { userName: 'NAME', displayName: 'Ada Okta', externalId: '00u1', active: true }
  const { USER, GROUP } = await play(
    [
      ['GET', '/Users?startIndex=1&count=2', undefined, { status: 200, body: { startIndex: 1 } }],
      ['GET', '/Users?filter=userName eq "NAME"&startIndex=1&count=100', undefined, none],
      ['POST', '/Users', profile, { status: 201, body: stored }],
      ['POST', '/Users', profile, { status: 409, body: { scimType: 'uniqueness', status: '409' } }],
      ['GET', '/Users/USER', undefined, { status: 200, body: stored }],
      [
        'PUT',
        '/Users/USER',
        { ...profile, id: 'USER', displayName: 'Ada Lovelace' },
        { status: 200, body: { displayName: 'Ada Lovelace' } },
      ],
      ['GET', '/Groups?filter=displayName eq "Team"&startIndex=1&count=100', undefined, none],
      [
        'POST',
        '/Groups',
        { schemas: [], displayName: 'Team', members: [] },
        { status: 201, body: { displayName: 'Team', members: [] } },
      ],
      [
        'PATCH',
        '/Groups/GROUP',
        patchOf({ op: 'add', path: 'members', value: [{ value: 'USER', display: 'NAME' }] }),
        { status: 204 },
      ],
      [
        'GET',
        '/Groups/GROUP',
        undefined,
        { status: 200, body: { members: [{ value: 'USER', display: 'Ada Lovelace', type: 'User' }] } },
      ],
      [
        'PATCH',
        '/Groups/GROUP',
        patchOf({ op: 'replace', value: { id: 'GROUP', displayName: 'Team A' } }),
        { status: 204 },
      ],
      ['PATCH', '/Groups/GROUP', patchOf({ op: 'remove', path: 'members[value eq "USER"]' }), { status: 204 }],
      [
        'PUT',
        '/Groups/GROUP',
        { displayName: 'Team A', members: [{ value: 'USER', display: 'NAME' }] },
        { status: 200, body: { members: [{ value: 'USER' }] } },
      ],
      [
        'PATCH',
        '/Users/USER',
        patchOf({ op: 'replace', value: { active: false } }),
        { status: 200, body: { active: false } },
      ],
      [
        'GET',
        '/Users?filter=userName eq "NAME"',
        undefined,
        { status: 200, body: { totalResults: 1, Resources: [{ active: false }] } },
      ],
      ['PUT', '/Users/USER', { ...profile, active: true }, { status: 200, body: { active: true } }],
      ['DELETE', '/Groups/GROUP', undefined, { status: 204 }],
      ['DELETE', '/Groups/GROUP', undefined, { status: 404 }],
    ],
    { NAME },
  )
  expect((await listUsers()).users).toMatchObject([
    { id: USER, user_name: NAME, email: NAME, active: true, role: null },
  ])
  expect((await directory.send('DELETE', `/Users/${USER}`)).status).toBe(204)
  expect((await directory.send('GET', `/Users/${USER}`)).status).toBe(404)
  expect((await directory.send('GET', `/Groups/${GROUP}`)).status).toBe(404)
  expect(await listUsers()).toEqual({ users: [], total: 0 })
  expect(app.logged()).not.toContain('1mz050nq')
})

test('Entra: tests the connection, matches, creates, patches with its habits, changes members in both forms, and deletes', async () => {
  const NAME = newName('entra')
  const profile = {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User', enterpriseSchema],
    externalId: '0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef',
    userName: 'NAME',
    active: 'True',
    displayName: 'Bo Entra',
    emails: [{ primary: true, type: 'work', value: 'NAME' }],
    meta: { resourceType: 'User' },
    name: { formatted: 'Bo Entra', familyName: 'Entra', givenName: 'Bo' },
    roles: [],
    [enterpriseSchema]: { department: 'Bees' },
  }
  const { USER, GROUP } = await play(
    [
      ['GET', '/Users?filter=userName eq "non-existent-user"', undefined, none],
      ['GET', '/Schemas', undefined, { status: 200, body: { totalResults: 3 } }],
      ['GET', '/Users?filter=externalId eq "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"', undefined, none],
      ['GET', '/Users?filter=emails[type eq "work"].value eq "NAME"', undefined, none],
      ['POST', '/Users', profile, { status: 201, body: { active: true, [enterpriseSchema]: { department: 'Bees' } } }],
      [
        'GET',
        '/Users?filter=emails[type eq "work"].value eq "NAME"',
        undefined,
        { body: { totalResults: 1, Resources: [{ id: 'USER' }] } },
      ],
      [
        'PATCH',
        '/Users/USER',
        patchOf(
          { op: 'Replace', path: 'emails[type eq "work"].value', value: 'NAME' },
          { op: 'Replace', path: 'name.familyName', value: 'Updated' },
          { op: 'Add', path: 'phoneNumbers[type eq "mobile"].value', value: '+1 555' },
          { op: 'Add', path: `${enterpriseSchema}:manager`, value: 'boss' },
          { op: 'Replace', value: { 'name.givenName': 'Bob', [`${enterpriseSchema}:department`]: 'Ants' } },
        ),
        {
          status: 200,
          body: {
            name: { familyName: 'Updated', givenName: 'Bob' },
            phoneNumbers: [{ type: 'mobile', value: '+1 555' }],
            [enterpriseSchema]: { department: 'Ants', manager: { value: 'boss' } },
          },
        },
      ],
      ['GET', '/Groups?excludedAttributes=members&filter=displayName eq "Bees"', undefined, none],
      [
        'POST',
        '/Groups',
        { externalId: '8aa1a0c0', displayName: 'Bees', meta: { resourceType: 'Group' } },
        { status: 201, body: { externalId: '8aa1a0c0' } },
      ],
      ['GET', '/Groups/GROUP?excludedAttributes=members', undefined, { status: 200, body: { displayName: 'Bees' } }],
      [
        'PATCH',
        '/Groups/GROUP',
        patchOf({ op: 'Add', path: 'members', value: [{ $ref: null, value: 'USER' }] }),
        { status: 204 },
      ],
      ['GET', '/Groups?filter=id eq "GROUP" and members eq "USER"', undefined, { body: { totalResults: 1 } }],
      [
        'PATCH',
        '/Groups/GROUP',
        patchOf({ op: 'Remove', path: 'members', value: [{ $ref: null, value: 'USER' }] }),
        { status: 204 },
      ],
      ['GET', '/Groups?filter=id eq "GROUP" and members eq "USER"', undefined, none],
      ['PATCH', '/Groups/GROUP', patchOf({ op: 'Add', path: 'members', value: [{ value: 'USER' }] }), { status: 204 }],
      ['PATCH', '/Groups/GROUP', patchOf({ op: 'Remove', path: 'members[value eq "USER"]' }), { status: 204 }],
      ['PATCH', '/Groups/GROUP', patchOf({ op: 'Replace', path: 'displayName', value: '1879db59' }), { status: 204 }],
      ['GET', '/Groups/GROUP', undefined, { body: { displayName: '1879db59', members: [] } }],
      [
        'PATCH',
        '/Users/USER',
        patchOf({ op: 'Replace', path: 'active', value: 'False' }),
        { status: 200, body: { active: false } },
      ],
      ['GET', '/Users/USER', undefined, { status: 200, body: { active: false } }],
      [
        'PATCH',
        '/Users/USER',
        patchOf({ op: 'Replace', path: 'active', value: 'True' }),
        { status: 200, body: { active: true } },
      ],
      ['DELETE', '/Users/USER', undefined, { status: 204 }],
      ['DELETE', '/Users/USER', undefined, { status: 404 }],
      ['DELETE', '/Groups/GROUP', undefined, { status: 204 }],
    ],
    { NAME },
  )
  expect([USER, GROUP]).toEqual([expect.any(String), expect.any(String)])
  expect([await listUsers(), await listGroups()]).toEqual([
    { users: [], total: 0 },
    { groups: [], total: 0 },
  ])
})

describe('membership in a group', () => {
  test.each<[string, (ids: string[]) => object[], number[]]>([
    ['add one', ([, , c]) => [{ op: 'add', path: 'members', value: [{ value: c }] }], [0, 1, 2]],
    ['add one that is there', ([a]) => [{ op: 'add', path: 'members', value: [{ value: a }] }], [0, 1]],
    ['add without a path', ([, , c]) => [{ op: 'add', value: { members: [{ value: c }] } }], [0, 1, 2]],
    ['add an object instead of a list', ([, , c]) => [{ op: 'add', path: 'members', value: { value: c } }], [0, 1, 2]],
    ['add an ID alone', ([, , c]) => [{ op: 'add', path: 'members', value: [c] }], [0, 1, 2]],
    ['remove by value', ([a]) => [{ op: 'remove', path: 'members', value: [{ value: a }] }], [1]],
    ['remove by filter', ([a]) => [{ op: 'remove', path: `members[value eq "${a}"]` }], [1]],
    [
      'remove by a filter with or',
      ([a, b]) => [{ op: 'remove', path: `members[value eq "${a}" or value eq "${b}"]` }],
      [],
    ],
    ['remove one who isn’t there', ([, , c]) => [{ op: 'remove', path: `members[value eq "${c}"]` }], [0, 1]],
    ['remove all', () => [{ op: 'remove', path: 'members' }], []],
    ['replace', ([, , c]) => [{ op: 'replace', path: 'members', value: [{ value: c }] }], [2]],
    [
      'replace without a path',
      ([a, , c]) => [{ op: 'replace', value: { displayName: 'New', members: [{ value: a }, { value: c }] } }],
      [0, 2],
    ],
    ['replace with nobody', () => [{ op: 'replace', path: 'members', value: [] }], []],
    [
      'several operations in order',
      ([a, b, c]) => [
        { op: 'remove', path: 'members' },
        { op: 'add', path: 'members', value: [{ value: c }] },
        { op: 'Add', path: 'members', value: [{ value: a }, { value: b }] },
        { op: 'remove', path: `members[value eq "${c}"]` },
      ],
      [0, 1],
    ],
  ])('%s', async (_, operations, left) => {
    const ids = [await directory.addUser('a'), await directory.addUser('b'), await directory.addUser('c')]
    const group = await directory.addGroup('Group', ids.slice(0, 2))
    expect((await directory.patch(`/Groups/${group}`, ...operations(ids))).status).toBe(204)
    expect(await membersOf(group)).toEqual(left.map((index) => ids[index]))
  })

  test.each<[string, (ids: string[]) => object, string]>([
    ['an unknown user', () => ({ op: 'add', path: 'members', value: [{ value: randomUUID() }] }), 'invalidValue'],
    ['an ID that is none', () => ({ op: 'add', path: 'members', value: [{ value: 'x' }] }), 'invalidValue'],
    [
      'a group as a member',
      ([a]) => ({ op: 'add', path: 'members', value: [{ value: a, type: 'Group' }] }),
      'invalidValue',
    ],
    ['a member without a value', () => ({ op: 'add', path: 'members', value: [{ display: 'x' }] }), 'invalidValue'],
    ['an unknown path', () => ({ op: 'add', path: 'people', value: [] }), 'invalidPath'],
    [
      'a part of a member',
      ([a]) => ({ op: 'replace', path: `members[value eq "${a}"].display`, value: 'x' }),
      'invalidPath',
    ],
    ['an unknown operation', () => ({ op: 'move', path: 'members' }), 'invalidSyntax'],
    ['a filter that isn’t understood', () => ({ op: 'remove', path: 'members[value is "x"]' }), 'invalidPath'],
    ['no value', () => ({ op: 'add', path: 'members' }), 'invalidValue'],
    ['a new ID', () => ({ op: 'replace', path: 'id', value: 'x' }), 'mutability'],
    ['no name', () => ({ op: 'remove', path: 'displayName' }), 'invalidValue'],
  ])('is refused for %s, and nothing changes', async (_, operation, scimType) => {
    const ids = [await directory.addUser('a'), await directory.addUser('b')]
    const group = await directory.addGroup('Group', ids.slice(0, 1))
    const answer = await directory.patch(
      `/Groups/${group}`,
      { op: 'add', path: 'members', value: [{ value: ids[1] }] },
      operation(ids),
    )
    expect(answer).toMatchObject({
      status: 400,
      body: { scimType, status: '400', detail: expect.stringMatching(/\.$/) },
    })
    expect(await membersOf(group)).toEqual(ids.slice(0, 1))
    expect((await asAdmin('/diagnostics/refusals?limit=1')).refusals).toMatchObject([
      { surface: 'scim', step: 'patch Groups', code: scimType, message: answer.body.detail },
    ])
  })

  test('loses nothing when patches of one group come at the same time', async () => {
    const ids = await Promise.all(Array.from({ length: 12 }, (_, n) => directory.addUser(`user${n}`)))
    const group = await directory.addGroup('Group', ids.slice(0, 4))
    const answers = await Promise.all(
      ids.map((id, n) =>
        directory.patch(
          `/Groups/${group}`,
          n < 4
            ? { op: 'remove', path: `members[value eq "${id}"]` }
            : { op: 'add', path: 'members', value: [{ value: id }] },
        ),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 204))
    expect((await membersOf(group)).sort()).toEqual(ids.slice(4).sort())
    const { body } = await directory.send('GET', `/Groups/${group}`)
    expect(body.meta.version, 'one version per change').toBe('W/"13"')
  })

  test('stays as it is if a PUT has no members', async () => {
    const id = await directory.addUser('a')
    const group = await directory.addGroup('Group', [id])
    await directory.send('PUT', `/Groups/${group}`, { displayName: 'Renamed' })
    expect(await membersOf(group)).toEqual([id])
    await directory.send('PUT', `/Groups/${group}`, { displayName: 'Renamed', members: [] })
    expect(await membersOf(group)).toEqual([])
  })
})

describe('roles', () => {
  test('follow the groups: users become members, change their role, and leave', async () => {
    const email = newName()
    const id = await directory.addUser(email)
    expect(await roleOf(email), 'no group has a role').toBeUndefined()
    const [staff, admins] = [await directory.addGroup('Staff', [id]), await directory.addGroup('Admins')]
    await directory.mapGroup(admins, 'admin')
    expect(await directory.mapGroup(staff, 'member')).toMatchObject({
      status: 200,
      body: { role: 'member', member_count: 1 },
    })
    expect(await roleOf(email)).toBe('member')
    await directory.patch(`/Groups/${admins}`, { op: 'add', path: 'members', value: [{ value: id }] })
    expect(await roleOf(email)).toBe('admin')
    expect((await listUsers()).users).toMatchObject([{ role: 'admin' }])
    await directory.patch(`/Groups/${admins}`, { op: 'remove', path: `members[value eq "${id}"]` })
    expect(await roleOf(email)).toBe('member')
    await directory.deactivate(id)
    expect(await roleOf(email)).toBeUndefined()
    await directory.patch(`/Users/${id}`, { op: 'replace', path: 'active', value: 'True' })
    expect(await roleOf(email)).toBe('member')
    await directory.mapGroup(staff, null)
    expect(await roleOf(email)).toBeUndefined()
    await directory.mapGroup(staff, 'admin')
    await directory.send('DELETE', `/Groups/${staff}`)
    expect(await roleOf(email)).toBeUndefined()
  })

  test('can’t be given to a group that isn’t in the directory, nor by members', async () => {
    const other = await connectDirectory(app)
    const group = await other.addGroup('Theirs')
    expect((await directory.mapGroup(group, 'admin')).body.data).toEqual({
      code: 'RESOURCE_NOT_FOUND',
      resource: 'directory_group',
      resourceId: group,
    })
    const path = `/directories/${other.directoryId}/groups/${group}`
    const member = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('PATCH', path, { token: member, body: { role: 'admin' } })).status).toBe(403)
    const owner = await app.request('PATCH', path, { token: admin, body: { role: 'owner' } })
    expect(owner.body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'role' })
  })

  test('of members whom an administrator added are raised, and given back', async () => {
    const id = await directory.addUser('member@demo.test')
    const group = await directory.addGroup('Admins', [id])
    const memberId = (await asAdmin('/organizations/current/members')).find(
      ({ user }: Member) => user.email === 'member@demo.test',
    ).id
    await directory.mapGroup(group, 'admin')
    expect(await roleOf('member@demo.test')).toBe('admin')
    const change = await app.request('PATCH', `/organizations/current/members/${memberId}`, {
      token: admin,
      body: { role: 'member' },
    })
    expect(change.body).toMatchObject({
      status: 409,
      data: { code: 'MANAGED_BY_DIRECTORY' },
      message: expect.stringContaining('“Okta”'),
    })
    const removal = await app.request('DELETE', `/organizations/current/members/${memberId}`, { token: admin })
    expect(removal.body.data.code).toBe('MANAGED_BY_DIRECTORY')
    await directory.mapGroup(group, 'member')
    expect(await roleOf('member@demo.test')).toBe('member')
    await directory.mapGroup(group, null)
    expect(await roleOf('member@demo.test')).toBe('member')
    await directory.send('DELETE', `/Users/${id}`)
    expect(await roleOf('member@demo.test'), 'who is deleted in the directory has left').toBeUndefined()
    const again = await directory.addGroup('Again', [await directory.addUser('member@demo.test')])
    await directory.mapGroup(again, 'member')
    expect(await roleOf('member@demo.test'), 'the organization hasn’t proven demo.test').toBeUndefined()
    const invitations = await asAdmin('/organizations/current/invitations')
    expect(invitations).toMatchObject([{ email: 'member@demo.test', role: 'member' }])
  })

  test('never leave the organization without an admin who can sign in', async () => {
    const group = await directory.addGroup('Admins', [await directory.addUser(newName())])
    await directory.mapGroup(group, 'admin')
    const left = await app.request('POST', '/organizations/current/leave', { token: admin })
    expect(left.body.data.code, 'the other admin has never signed in').toBe('LAST_ADMIN')
    const own = await directory.addUser('admin@demo.test')
    expect(await directory.deactivate(own)).toMatchObject({
      status: 409,
      body: { status: '409', detail: expect.stringContaining('last admin') },
    })
    expect((await asAdmin('/diagnostics/refusals?limit=1')).refusals).toMatchObject([{ surface: 'scim', code: '409' }])
    expect(await roleOf('admin@demo.test')).toBe('admin')
  })

  test('wait for a user’s first sign-in, whose verified address decides', async () => {
    const email = newName()
    const group = await directory.addGroup('Staff', [await directory.addUser(email)])
    await directory.mapGroup(group, 'member')
    const membership = (await asAdmin('/organizations/current/members')).find(
      ({ user }: Member) => user.email === email,
    )
    const identity = { issuer: 'https://idp.example', email: email.toUpperCase(), name: 'Ann', avatar_url: '' }
    await signIn(app.service, { ...identity, subject: 'stranger', email_verified: false })
    const organizationsOf = (userId: string) =>
      app.service.database.asUser(
        userId,
        (sql) => sql<{ id: string; role: string }>`select id, role from members where user_id = ${userId}`,
      )
    const user = await signIn(app.service, { ...identity, subject: 'ann', email_verified: true })
    expect(await organizationsOf(user.id)).toEqual([{ id: membership.id, role: 'member' }])
    expect(await roleOf(email)).toBe('member')
    await directory.mapGroup(group, null)
    expect(await organizationsOf(user.id)).toEqual([])
  })

  test('wait for the user with the address, however its international domain is spelled, and for no look-alike', async () => {
    await proveDomains(app, await app.organization('demo'), 'xn--bcher-kva.example')
    const name = `mike-${randomUUID()}`
    const group = await directory.addGroup('Staff', [await directory.addUser(`${name}@Bücher.example`)])
    await directory.mapGroup(group, 'admin')
    const rolesAfterSignIn = async (email: string) => {
      const identity = { issuer: 'https://idp.example', subject: email, email, email_verified: true }
      const { id } = await signIn(app.service, { ...identity, name: 'Mike', avatar_url: '' })
      return app.service.database.asUser(id, (sql) => sql`select role from members where user_id = ${id}`)
    }
    expect(await rolesAfterSignIn(`${name.replace('k', '\u212a')}@bücher.example`)).toEqual([])
    expect(await rolesAfterSignIn(`${name}@BÜCHER.example`)).toEqual([{ role: 'admin' }])
  })

  test('apply to an account that exists, and replace an invitation', async () => {
    const email = newName()
    const user = await signIn(app.service, {
      issuer: 'https://idp.example',
      subject: email,
      email,
      email_verified: true,
      name: 'Bo',
      avatar_url: '',
    })
    await app.request('POST', '/organizations/current/invitations', { token: admin, body: { email, role: 'admin' } })
    const group = await directory.addGroup('Staff', [await directory.addUser(email)])
    await directory.mapGroup(group, 'member')
    const found = (await asAdmin('/organizations/current/members')).find(({ user }: Member) => user.email === email)
    expect(found).toMatchObject({ role: 'member', user: { id: user.id } })
    expect(
      (await asAdmin('/organizations/current/invitations')).filter((one: { email: string }) => one.email === email),
    ).toEqual([])
  })

  test('stay when the directory is disconnected, except for deactivated users', async () => {
    const [stays, gone] = [newName('stays'), newName('gone')]
    const ids = [await directory.addUser(stays), await directory.addUser(gone)]
    await directory.mapGroup(await directory.addGroup('Staff', ids), 'member')
    await directory.deactivate(ids[1] as string)
    await app.request('DELETE', `/directories/${directory.directoryId}`, { token: admin })
    const members = await asAdmin('/organizations/current/members')
    const kept = members.find(({ user }: Member) => user.email === stays)
    expect([kept?.role, await roleOf(gone)]).toEqual(['member', undefined])
    const removed = await app.request('DELETE', `/organizations/current/members/${kept.id}`, { token: admin })
    expect(removed.status, 'administrators decide from now on').toBe(200)
    expect((await directory.send('GET', '/Users')).status).toBe(401)
  })

  test('are audited with the directory as the actor', async () => {
    const email = newName()
    const id = await directory.addUser(email)
    const group = await directory.addGroup('Staff', [id])
    await directory.mapGroup(group, 'member')
    await directory.deactivate(id)
    await directory.send('DELETE', `/Users/${id}`)
    const rows = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`
        select actor, action from audit_events where target in (${id}, ${group}) or data->>'email' = ${email} order by sequence`,
    )
    expect(rows.map(({ actor, action }) => `${actor}: ${action}`)).toEqual([
      'directory Okta: directory_user.created',
      'directory Okta: directory_group.created',
      'admin@demo.test: member.added',
      'admin@demo.test: directory_group.role_changed',
      'directory Okta: member.deactivated',
      'directory Okta: directory_user.deactivated',
      'directory Okta: member.removed',
      'directory Okta: directory_user.deleted',
    ])
  })
})

describe('lists', () => {
  let ids: string[]
  beforeEach(async () => {
    ids = []
    for (let n = 0; n < 5; n += 1)
      ids.push(await directory.addUser(`user${n}`, { active: n > 0, title: n > 2 ? 'Chief' : 'Clerk' }))
  })
  const idsOf = ({ body }: ScimAnswer) => body.Resources.map(({ id }: { id: string }) => ids.indexOf(id))

  test.each<[string, number[], object]>([
    ['', [0, 1, 2, 3, 4], { totalResults: 5, startIndex: 1, itemsPerPage: 5 }],
    ['?count=2', [0, 1], { totalResults: 5, startIndex: 1, itemsPerPage: 2 }],
    ['?startIndex=4&count=2', [3, 4], { totalResults: 5, startIndex: 4, itemsPerPage: 2 }],
    ['?startIndex=6', [], { totalResults: 5, startIndex: 6, itemsPerPage: 0 }],
    ['?startIndex=0&count=1', [0], { startIndex: 1 }],
    ['?startIndex=-3&count=-1', [], { totalResults: 5, startIndex: 1, itemsPerPage: 0 }],
    ['?count=0', [], { totalResults: 5, itemsPerPage: 0 }],
    ['?count=100000', [0, 1, 2, 3, 4], { totalResults: 5 }],
    ['?filter=title eq "Chief"', [3, 4], { totalResults: 2 }],
    ['?filter=title eq "Clerk"&startIndex=2&count=1', [1], { totalResults: 3, startIndex: 2, itemsPerPage: 1 }],
    ['?filter=active eq false', [0], { totalResults: 1 }],
    ['?filter=userName sw "user" and not (title eq "Clerk")', [3, 4], { totalResults: 2 }],
    ['?filter=userName eq "USER3"', [3], { totalResults: 1 }],
    ['?filter=userName eq "user3" and active eq false', [], { totalResults: 0 }],
    ['?filter=id eq "x"', [], { totalResults: 0 }],
    ['?aadOptscim062020&sortBy=userName', [0, 1, 2, 3, 4], { totalResults: 5 }],
  ])('Users%s', async (query, found, page) => {
    const answer = await directory.send('GET', `/Users${query.replaceAll(' ', '%20').replaceAll('"', '%22')}`)
    expect(answer).toMatchObject({ status: 200, body: page })
    expect(idsOf(answer)).toEqual(found)
  })

  test('find groups by their members', async () => {
    const group = await directory.addGroup('Staff', ids.slice(0, 2))
    await directory.addGroup('Others', ids.slice(4))
    const byGroup = await filtered('/Users', `title pr and groups.value eq "${group}"`)
    expect(byGroup.body).toMatchObject({ status: '400', scimType: 'invalidFilter' })
    const groupsWith = async (filter: string) =>
      (await filtered('/Groups', filter)).body.Resources?.map((one: { displayName: string }) => one.displayName)
    expect(await groupsWith(`members eq "${ids[0]}"`)).toEqual(['Staff'])
    expect(await groupsWith(`members[value eq "${ids[4]}" or value eq "${ids[0]}"]`)).toEqual(['Staff', 'Others'])
    expect(await groupsWith('displayName co "staf"')).toEqual(['Staff'])
    expect((await filtered('/Groups', 'members pr')).body).toMatchObject({ scimType: 'invalidFilter' })
    expect((await filtered('/Groups', 'members.display co "x"')).body).toMatchObject({ scimType: 'invalidFilter' })
  })

  test.each([
    ['filter=title foo "x"', 'invalidFilter'],
    ['filter=', 'invalidFilter'],
    ['filter=shoeSize eq "7"', 'invalidFilter'],
    [`filter=userName eq "${'x'.repeat(2_000)}"`, 'invalidFilter'],
    ['count=many', 'invalidValue'],
    ['startIndex=1.5', 'invalidValue'],
  ])('with %s are refused, never empty', async (query, scimType) => {
    const answer = await directory.send('GET', `/Users?${query.replaceAll(' ', '%20').replaceAll('"', '%22')}`)
    expect(answer).toMatchObject({ status: 400, body: { scimType, detail: expect.any(String) } })
    expect((await asAdmin('/diagnostics/refusals?limit=1')).refusals).toMatchObject([
      { surface: 'scim', step: 'get Users', code: scimType },
    ])
  })

  test.each<[string, string[]]>([
    ['attributes=userName', ['id', 'schemas', 'userName']],
    ['attributes=NAME.givenName,urn:ietf:params:scim:schemas:core:2.0:User:title', ['id', 'schemas', 'title']],
    ['excludedAttributes=meta,groups,title', ['active', 'id', 'schemas', 'userName']],
  ])('with %s have only these attributes', async (query, names) => {
    const { body } = await directory.send('GET', `/Users/${ids[0]}?${query}`)
    expect(Object.keys(body).sort()).toEqual(names)
  })
})
