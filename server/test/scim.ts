import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { TestService } from './harness.ts'

export interface ScimAnswer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of every shape
  body: any
  headers: Headers
}

/** A directory that an administrator has connected, and its SCIM client. */
export interface ScimClient {
  directoryId: string
  token: string
  /** Sends a request to a path below the directory's URL, such as `/Users`. */
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ScimAnswer>
  /** Creates a user, and returns their ID. */
  addUser(userName: string, more?: object): Promise<string>
  addGroup(displayName: string, members?: string[]): Promise<string>
  patch(path: string, ...operations: object[]): Promise<ScimAnswer>
  deactivate(userId: string): Promise<ScimAnswer>
  /** Gives the users of a group a role, as the administrator. */
  mapGroup(groupId: string, role: 'admin' | 'member' | null): Promise<ScimAnswer>
}

const userSchema = 'urn:ietf:params:scim:schemas:core:2.0:User'

type App = Pick<TestService, 'request' | 'fetch' | 'tokenFor' | 'clock'>

export async function connectDirectory(app: App, slug: 'demo' | 'other' = 'demo'): Promise<ScimClient> {
  const admin = await app.tokenFor(slug === 'demo' ? 'admin@demo.test' : 'admin@other.test', slug)
  const settings = { name: 'Okta', type: 'okta', domain: `d-${randomUUID()}.example` }
  const { status, body: directory } = await app.request('POST', '/directories', { token: admin, body: settings })
  expect(status, JSON.stringify(directory)).toBe(200)
  return scimClient(app, directory.id, directory.bearer_token, admin)
}

/** Makes the organization the proven owner of email domains, so that its directory can add members with them. */
export const proveDomains = (app: Pick<TestService, 'service'>, organizationId: string, ...domains: string[]) =>
  app.service.database.asOrg(
    organizationId,
    (sql) => sql`
      insert into sign_in_domains (organization_id, id, domain, token, verified_at, checked_at)
      select current_organization(), gen_random_uuid(), domain, domain, now(), now()
      from unnest(${domains}::text[]) as n (domain) on conflict do nothing`,
  )

export function scimClient(app: App, directoryId: string, token: string, admin: string): ScimClient {
  const send: ScimClient['send'] = async (method, path, body, headers = {}) => {
    // The tests are faster than the rate that a directory may have.
    app.clock.now += 100
    const response = await app.fetch(`/scim/v2/${directoryId}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/scim+json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
  }
  const create = async (path: string, resource: object) => {
    const { status, body } = await send('POST', path, resource)
    expect(status, JSON.stringify(body)).toBe(201)
    return body.id as string
  }
  const patch: ScimClient['patch'] = (path, ...operations) =>
    send('PATCH', path, { schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'], Operations: operations })
  return {
    directoryId,
    token,
    send,
    patch,
    addUser: (userName, more) => create('/Users', { schemas: [userSchema], userName, ...more }),
    addGroup: (displayName, members = []) =>
      create('/Groups', { displayName, members: members.map((value) => ({ value })) }),
    deactivate: (userId) => patch(`/Users/${userId}`, { op: 'replace', value: { active: false } }),
    mapGroup: (groupId, role) =>
      app.request('PATCH', `/directories/${directoryId}/groups/${groupId}`, { token: admin, body: { role } }),
  }
}
