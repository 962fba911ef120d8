import { describe, expect, inject, test } from 'vitest'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { connectDirectory, proveDomains, type ScimClient } from '../../../test/scim.ts'
import { scimLimits } from './resources.ts'

const { redisUrl } = inject('engines')
/**
 * 5 000 users take a minute and a half:
 * `SCIM_USERS=5000 npx vitest run --project external server/src/organizations/scim/large-directory`.
 */
const userCount = Number(process.env.SCIM_USERS ?? 500)

/** Runs jobs like a client that sends a few requests at a time. */
async function inParallel<T>(jobs: readonly T[], work: (job: T, index: number) => Promise<void>): Promise<void> {
  const left = jobs.entries()
  const worker = async () => {
    for (const [index, job] of left) await work(job, index)
  }
  await Promise.all(Array.from({ length: 8 }, worker))
}

interface ExpectedUser {
  id: string
  active: boolean
  groups: Set<number>
}

const roleOfGroup = (group: number) => (group < 10 ? 'admin' : group < 120 ? 'member' : null)
const roleFrom = ({ active, groups }: ExpectedUser) => {
  const roles = [...groups].map(roleOfGroup)
  return !active ? null : roles.includes('admin') ? 'admin' : roles.includes('member') ? 'member' : null
}

// The requests are the same on all engines, and many, so one is enough.
test.runIf(redisUrl)(
  `${userCount} users and 200 groups leave exactly the right members, groups, roles and counts`,
  { timeout: 600_000 },
  async () => {
    const app = await useTestService()
    const directory = await connectDirectory(app)
    await proveDomains(app, await app.organization('demo'), 'acme.example')
    const people = await addPeople(directory, userCount)
    const groups = await addGroups(directory, people, 200)
    await changeMembers(directory, people, groups)
    await changePeople(directory, people)
    await compare(app, directory, people, groups)
  },
)

async function addPeople({ send, addUser }: ScimClient, count: number): Promise<ExpectedUser[]> {
  const people: ExpectedUser[] = []
  await inParallel(Array.from({ length: count }), async (_, n) => {
    const userName = `user${n}@acme.example`
    if (n % 5 === 0) {
      const found = await send('GET', `/Users?filter=userName%20eq%20%22${userName}%22`)
      expect(found.body.totalResults).toBe(0)
    }
    people[n] = {
      id: await addUser(userName, { externalId: `ext-${n}`, displayName: `User ${n}` }),
      active: true,
      groups: new Set(),
    }
  })
  return people
}

/** Every user is in two groups. Half of the groups have their role before their members come. */
async function addGroups(directory: ScimClient, people: ExpectedUser[], count: number): Promise<string[]> {
  const ids: string[] = []
  await inParallel(Array.from({ length: count }), async (_, group) => {
    const id = await directory.addGroup(`Group ${group}`)
    ids[group] = id
    const members = people.filter((__, n) => n % count === group || (n * 7 + 3) % count === group)
    for (const { groups } of members) groups.add(group)
    if (group % 2 === 0) await directory.mapGroup(id, roleOfGroup(group))
    for (let first = 0; first < members.length; first += 30) {
      const value = members.slice(first, first + 30).map((member) => ({ value: member.id }))
      expect((await directory.patch(`/Groups/${id}`, { op: 'Add', path: 'members', value })).status).toBe(204)
    }
    if (group % 2 === 1) expect((await directory.mapGroup(id, roleOfGroup(group))).status).toBe(200)
  })
  return ids
}

async function changeMembers({ patch, send }: ScimClient, people: ExpectedUser[], groups: string[]): Promise<void> {
  const inGroup = (group: number) => people.filter((person) => person.groups.has(group))
  await inParallel([3, 13, 130], async (group) => {
    for (const person of inGroup(group).slice(0, 10)) {
      person.groups.delete(group)
      await patch(`/Groups/${groups[group]}`, { op: 'remove', path: `members[value eq "${person.id}"]` })
    }
  })
  await inParallel([4, 14, 140], async (group) => {
    const gone = inGroup(group).slice(10)
    for (const person of gone) person.groups.delete(group)
    await patch(`/Groups/${groups[group]}`, {
      op: 'Remove',
      path: 'members',
      value: gone.map(({ id }) => ({ value: id })),
    })
  })
  await inParallel([5, 15, 150], async (group) => {
    for (const person of inGroup(group)) person.groups.delete(group)
    const members = people.slice(group * 10, group * 10 + 40)
    for (const person of members) person.groups.add(group)
    await send('PUT', `/Groups/${groups[group]}`, {
      displayName: `Renamed ${group}`,
      members: members.map(({ id }) => ({ value: id })),
    })
  })
}

async function changePeople({ deactivate, patch, send }: ScimClient, people: ExpectedUser[]): Promise<void> {
  await inParallel(people.slice(0, 300), async (person, n) => {
    expect((await deactivate(person.id)).status).toBe(200)
    person.active = false
    if (n >= 100) return
    await patch(`/Users/${person.id}`, { op: 'Replace', path: 'active', value: 'True' })
    person.active = true
  })
  await inParallel(people.splice(-100), async ({ id }) => {
    expect((await send('DELETE', `/Users/${id}`)).status).toBe(204)
  })
}

async function compare(
  app: TestService,
  { directoryId }: ScimClient,
  people: ExpectedUser[],
  groups: string[],
): Promise<void> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { body: directory } = await app.request('GET', `/directories/${directoryId}`, { token })
  expect(directory).toMatchObject({ user_count: people.length, group_count: groups.length })
  const expectedRoles = people.map((person) => [person.id, person.active, roleFrom(person)]).sort()
  const roles: unknown[] = []
  for (let offset = 0; offset < people.length; offset += 100) {
    const { body } = await app.request('GET', `/directories/${directoryId}/users?limit=100&offset=${offset}`, { token })
    expect(body).toHaveProperty('users')
    for (const { id, active, role } of body.users) roles.push([id, active, role])
  }
  expect(roles.sort()).toEqual(expectedRoles)
  const members = (await app.request('GET', '/organizations/current/members', { token })).body
  const count = (role: string) => members.filter((member: { role: string }) => member.role === role).length
  const expectedCount = (role: string) => people.filter((person) => roleFrom(person) === role).length
  expect([count('admin'), count('member')], 'and the two whom nobody provisioned').toEqual([
    expectedCount('admin') + 1,
    expectedCount('member') + 1,
  ])
  const rows = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql<{ group_id: string; user_id: string }>`select group_id, user_id from directory_group_members`,
  )
  const expectedRows = people.flatMap(({ id, groups: own }) => [...own].map((group) => `${groups[group]} ${id}`))
  expect(rows.map(({ group_id, user_id }) => `${group_id} ${user_id}`).sort()).toEqual(expectedRows.sort())
  const waiting = await app.service.database.asService((sql) => sql`select from users where issuer = 'directory'`)
  const memberships = people.filter((person) => roleFrom(person) !== null || !person.active)
  expect(waiting.length, 'no account is left of those who are gone').toBeLessThanOrEqual(memberships.length)
}

describe('a directory has at most', () => {
  const limited = async (limits: Partial<typeof scimLimits>) => {
    const before = { ...scimLimits }
    Object.assign(scimLimits, limits)
    const app = await useTestService()
    return { directory: await connectDirectory(app), restore: () => Object.assign(scimLimits, before) }
  }

  test('so many users, groups and members', async () => {
    const { directory, restore } = await limited({ users: 3, groups: 2, membersPerGroup: 2 })
    const { addGroup, addUser, patch, send } = directory
    try {
      const ids = [await addUser('a'), await addUser('b'), await addUser('c')]
      const full = await send('POST', '/Users', { userName: 'd' })
      expect(full).toMatchObject({ status: 403, body: { detail: expect.stringContaining('at most 3 users') } })
      const [first, second] = [await addGroup('1', ids.slice(0, 2)), await addGroup('2')]
      expect(await send('POST', '/Groups', { displayName: '3' })).toMatchObject({
        status: 403,
        body: { detail: expect.stringContaining('at most 2 groups') },
      })
      const tooMany = { status: 403, body: { detail: 'A group can have at most 2 members.' } }
      expect(await patch(`/Groups/${first}`, { op: 'add', path: 'members', value: [{ value: ids[2] }] })).toMatchObject(
        tooMany,
      )
      const all = ids.map((value) => ({ value }))
      expect(await send('PUT', `/Groups/${second}`, { displayName: '2', members: all })).toMatchObject(tooMany)
      const list = await send('GET', '/Users')
      expect(list.body.totalResults).toBe(3)
    } finally {
      restore()
    }
  })

  test('so many entries on a page, which has fewer resources then', async () => {
    const { directory, restore } = await limited({ entriesPerPage: 3 })
    try {
      const ids = [await directory.addUser('a'), await directory.addUser('b')]
      for (const name of ['1', '2', '3']) await directory.addGroup(name, ids)
      const names: string[] = []
      for (let startIndex = 1; startIndex <= 3; ) {
        const { body } = await directory.send('GET', `/Groups?startIndex=${startIndex}`)
        expect(body).toMatchObject({ totalResults: 3, startIndex, itemsPerPage: 1 })
        for (const { displayName, members } of body.Resources) names.push(`${displayName}: ${members.length}`)
        startIndex += body.itemsPerPage
      }
      expect(names).toEqual(['1: 2', '2: 2', '3: 2'])
      const lean = await directory.send('GET', '/Groups?excludedAttributes=members')
      expect(lean.body.itemsPerPage).toBe(3)
    } finally {
      restore()
    }
  })
})
