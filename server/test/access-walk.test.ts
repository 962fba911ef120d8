import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { issueAccessToken } from '../src/accounts/access/access-tokens.ts'
import { admitFromOrganization } from '../src/accounts/organization-sign-in/admission.ts'
import { findWayIn, signInPlanCheck } from '../src/accounts/organization-sign-in/ways-in.ts'
import { insertLocalUser } from '../src/accounts/users/local-accounts.ts'
import { signIn, type User } from '../src/accounts/users/users.ts'
import { addMember } from '../src/console/operator/accounts.ts'
import { resources } from '../src/kernel/http/protected-resources.ts'
import { acceptFor } from '../src/organizations/organizations/invitations.ts'
import { foundOrganization } from '../src/organizations/organizations/organizations.ts'
import {
  accessTables,
  cellsOf,
  type membershipEnds,
  type peopleWays,
  type signOnEnds,
  titleOf,
} from './access-matrix.ts'
import { runJob, startTestService, type TestService } from './harness.ts'
import { proveDomains, type ScimClient, scimClient } from './scim.ts'

type Way = (typeof peopleWays)[number]
type End = (typeof membershipEnds)[number] | (typeof signOnEnds)[number]

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

/** An organization of its own for each cell, with single sign-on and a directory. */
async function useOrganization() {
  const { service } = app
  const domain = `d${randomUUID().slice(0, 8)}.example`
  const admin = await addUser(`admin@${domain}`)
  const { id, slug } = await foundOrganization(service, { name: domain, founder: admin, planId: 'enterprise' })
  const token = await tokenOf(admin.id, id)
  const request = async (method: string, path: string, body?: object) => {
    const answer = await app.request(method, path, { token, body })
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    return answer.body
  }
  await proveDomains(app, id, domain)
  const provider = { issuer: 'https://sso.example.com', client_id: 'inlay', client_secret: 'secret-of-inlay' }
  await request('PUT', '/organizations/current/sign-in', { ...provider, joins_on_first_sign_in: true })
  const settings = { name: 'Okta', type: 'okta', domain }
  const { id: directoryId, bearer_token } = await request('POST', '/directories', settings)
  const directory = scimClient(app, directoryId, bearer_token, token)
  return { id, slug, domain, admin, request, directory }
}
type Organization = Awaited<ReturnType<typeof useOrganization>>

const addUser = (email: string, isVerified = true) =>
  app.service.database.asService((sql) => insertLocalUser(sql, { email, name: 'Ann', passwordHash: null, isVerified }))

const atProvider = (email: string) =>
  signIn(app.service, {
    issuer: 'https://idp.example',
    subject: email,
    email,
    email_verified: true,
    name: 'Ann',
    avatar_url: '',
  })

/** A sign-in at the organization's provider; undefined if it is refused. */
async function singleSignOn({ id }: Organization, email: string): Promise<User | undefined> {
  const way = await findWayIn(app.service, id)
  if (!way) return undefined
  const admission = await admitFromOrganization(app.service, way, { sub: email, email, name: 'Ann' }, '198.51.100.7')
  return admission.is === 'admitted' ? admission.user : undefined
}

const tokenOf = (userId: string, organizationId: string) =>
  issueAccessToken(app.service, {
    userId,
    organizationId,
    audience: Object.values(resources('http://localhost:8787')),
    lifetimeSeconds: 3600,
  })

async function invite({ request }: Organization, email: string): Promise<string> {
  return (await request('POST', '/organizations/current/invitations', { email, role: 'member' })).id
}

const accept = ({ id: organizationId }: Organization, invitation: string, { id: userId, email }: User) =>
  app.service.database.asOrg(organizationId, (sql) => acceptFor(sql, organizationId, { id: invitation, email, userId }))

/** The directory user with an address; also gives them a role if there is a group. */
async function inDirectory({ directory }: Organization, email: string, { role }: { role?: 'member' } = {}) {
  const { body } = await directory.send('GET', `/Users?filter=${encodeURIComponent(`userName eq "${email}"`)}`)
  const id: string = body.Resources[0]?.id ?? (await directory.addUser(email))
  if (role) await directory.mapGroup(await directory.addGroup(`Group ${randomUUID()}`, [id]), role)
  return id
}

async function invited(organization: Organization, email: string, user: User): Promise<User> {
  await accept(organization, await invite(organization, email), user)
  return user
}

const invitationOf = async ({ request }: Organization, email: string): Promise<string> =>
  (await request('GET', '/organizations/current/invitations')).find((one: { email: string }) => one.email === email).id

/** Each makes a person a member, with the address that the directory knows too. */
const arrivals: Record<Way, (organization: Organization) => Promise<User>> = {
  async 'a mailed invitation'(organization) {
    const email = `ann@${organization.domain}`
    return invited(organization, email, await addUser(email))
  },
  async 'a shown invitation link'(organization) {
    const email = `ann@${organization.domain}`
    return invited(organization, email, await addUser(email, false))
  },
  async 'the installation’s provider and an invitation'(organization) {
    const email = `ann@${organization.domain}`
    return invited(organization, email, await atProvider(email))
  },
  async 'a directory’s group, in a proven domain'(organization) {
    const email = `ann@${organization.domain}`
    await inDirectory(organization, email, { role: 'member' })
    return atProvider(email)
  },
  async 'a directory’s invitation'(organization) {
    const email = `ann@other-${organization.domain}`
    await inDirectory(organization, email, { role: 'member' })
    const user = await atProvider(email)
    await accept(organization, await invitationOf(organization, email), user)
    return user
  },
  async 'founding the organization'(organization) {
    // Another admin stays, so that the founder isn't the last one.
    const other = await addUser(`other@${organization.domain}`)
    await app.service.database.asOrg(
      organization.id,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${randomUUID()}, ${other.id}, 'admin')`,
    )
    return organization.admin
  },
  async 'the operator’s command'({ id, domain }) {
    const { service } = app
    const user = await addUser(`ann@${domain}`)
    await addMember(service.config, service, id, user, 'member')
    return user
  },
  async 'single sign-on and an invitation'(organization) {
    const email = `ann@${organization.domain}`
    const invitation = await invite(organization, email)
    const user = (await singleSignOn(organization, email)) as User
    await accept(organization, invitation, user)
    return user
  },
  async 'automatic join'(organization) {
    return (await singleSignOn(organization, `ann@${organization.domain}`)) as User
  },
}

const patchUser = ({ directory }: { directory: ScimClient }, id: string, value: object) =>
  directory.patch(`/Users/${id}`, { op: 'replace', value })

async function memberId(organization: Organization, user: User): Promise<string> {
  const [member] = await app.service.database.asOrg(
    organization.id,
    (sql) => sql<{ id: string }>`select id from members where user_id = ${user.id}`,
  )
  return member?.id ?? ''
}

const renamed = ({ domain }: Organization) => `renamed@${domain}`

/** Each ends the person's access. */
const ends: Record<End, (organization: Organization, user: User) => Promise<unknown>> = {
  async leaving({ id }, user) {
    const token = await tokenOf(user.id, id)
    return app.request('POST', '/organizations/current/leave', { token })
  },
  async 'removal by an administrator'(organization, user) {
    // Members of a directory lose their role there first.
    await app.service.database.asOrg(
      organization.id,
      (sql) => sql`update members set directory_role = null, hand_role = null where user_id = ${user.id}`,
    )
    const by = await addUser(`by@${organization.domain}`)
    await app.service.database.asOrg(
      organization.id,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${randomUUID()}, ${by.id}, 'admin')`,
    )
    const path = `/organizations/current/members/${await memberId(organization, user)}`
    return app.request('DELETE', path, { token: await tokenOf(by.id, organization.id) })
  },
  async 'deactivation in the directory'(organization, { email }) {
    return organization.directory.deactivate(await inDirectory(organization, email))
  },
  async 'deletion in the directory'(organization, { email }) {
    return organization.directory.send('DELETE', `/Users/${await inDirectory(organization, email)}`)
  },
  async 'a rename and deactivation in one request'(organization, { email }) {
    const id = await inDirectory(organization, email)
    return patchUser(organization, id, { userName: renamed(organization), active: false })
  },
  async 'a rename and a later deactivation'(organization, { email }) {
    const id = await inDirectory(organization, email)
    await patchUser(organization, id, { userName: renamed(organization) })
    return organization.directory.deactivate(id)
  },
  async 'deletion of the organization'({ id, slug, domain }) {
    const by = await addUser(`by@${domain}`)
    await app.service.database.asOrg(
      id,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${randomUUID()}, ${by.id}, 'admin')`,
    )
    const token = await tokenOf(by.id, id)
    return app.request('POST', '/organizations/current/delete', { token, body: { slug } })
  },
  async 'removal of the organization’s provider'({ request }) {
    return request('DELETE', '/organizations/current/sign-in')
  },
  async 'removal of the domain'({ request }) {
    const { domains } = await request('GET', '/organizations/current/sign-in')
    return request('DELETE', `/organizations/current/sign-in/domains/${domains[0].id}`)
  },
  async 'the end of single sign-on in the plan'({ id }) {
    await app.service.database.asOrg(id, (sql) => sql`update organizations set plan_id = 'free'`)
    return runJob(app, id, signInPlanCheck)
  },
}

/** How often the user's sessions were ended; undefined if the account is gone. */
const generationOf = async ({ id }: User): Promise<number | undefined> =>
  (
    await app.service.database.asService(
      (sql) => sql<{ session_generation: number }>`select session_generation from users where id = ${id}`,
    )
  )[0]?.session_generation

/** Each event by an address names the account too. */
async function expectActorIds({ id }: Organization): Promise<void> {
  const events = await app.service.database.asOrg(
    id,
    (sql) => sql`select action, actor from audit_events where actor like '%@%' and actor_id is null`,
  )
  expect(events).toEqual([])
}

const table = accessTables.people

for (const [way, end] of cellsOf(table)) {
  test(titleOf(table.who, way, end), async () => {
    const organization = await useOrganization()
    const elsewhere = await useOrganization()
    onTestFinished(() => expectActorIds(organization))
    const user = await arrivals[way as Way](organization)
    const accounts = [user]
    // Another account with the same address must lose access together with the first.
    if (end.includes('director') || end.includes('rename')) {
      const isSignOn = way === 'automatic join' || way === 'single sign-on and an invitation'
      const other = isSignOn ? await addUser(user.email) : await singleSignOn(organization, user.email)
      if (other && isSignOn) await accept(organization, await invite(organization, user.email), other)
      if (other) accounts.push(other)
    }
    await app.service.database.asOrg(
      elsewhere.id,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${randomUUID()}, ${user.id}, 'member')`,
    )
    const probes = await Promise.all(accounts.map(({ id }) => tokenOf(id, organization.id)))
    const statuses = () =>
      Promise.all(probes.map(async (token) => (await app.request('GET', '/publishable-keys', { token })).status))
    expect(await statuses(), 'before').toEqual(probes.map(() => 200))
    const [outside, generation] = [await tokenOf(user.id, elsewhere.id), await generationOf(user)]

    await ends[end as End](organization, user)

    const isSessionEnd = [
      'removal of the organization’s provider',
      'removal of the domain',
      'the end of single sign-on in the plan',
    ].includes(end)
    if (isSessionEnd) {
      expect(await generationOf(user)).toBe((generation ?? 0) + 1)
      expect(await singleSignOn(organization, user.email)).toBeUndefined()
      return
    }
    expect(await statuses(), 'after').toEqual(probes.map(() => expect.not.toBeOneOf([200])))
    if (end === 'deletion of the organization') return
    const other = (await app.request('GET', '/publishable-keys', { token: outside })).status
    expect(other, 'in another organization').toBe(200)
    // Automatic join is only for users without a membership anywhere.
    await app.service.database.asOrg(elsewhere.id, (sql) => sql`delete from members where user_id = ${user.id}`)
    await singleSignOn(organization, user.email)
    if (end === 'leaving' || end === 'removal by an administrator') {
      await inDirectory(organization, user.email, { role: 'member' })
      await atProvider(user.email)
    }
    expect(await statuses(), 'after another sign-in').toEqual(probes.map(() => expect.not.toBeOneOf([200])))
  })
}
