import { randomUUID } from 'node:crypto'
import type { Email, TestService } from '../../../test/harness.ts'
import {
  asOrg,
  newEmail,
  type OperationSamples,
  post,
  type Slug,
  type ToolSample,
} from '../../../test/sample-helpers.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import type * as contract from './contract.ts'
import { foundOrganization } from './organizations.ts'

const invitation = (app: TestService, slug: Slug) =>
  post(app, slug, '/organizations/current/invitations', { email: newEmail(), role: 'member' })

export const fillTables = invitation

/** An invitation to a new organization, for the admin of demo, or, for the other slug, for another address. */
async function myInvitation(app: TestService, slug: Slug) {
  const founder = await findUserByEmail(app.service, 'admin@other.test')
  if (!founder) throw new Error('The demo has no admin@other.test')
  const organization = await foundOrganization(app.service, { name: 'Inviting', founder })
  const id = randomUUID()
  await app.service.database.asOrg(
    organization.id,
    (sql) => sql`
      insert into invitations (organization_id, id, email, role, invited_by)
      values (current_organization(), ${id}, ${slug === 'demo' ? 'admin@demo.test' : newEmail()}, 'member', 'admin@other.test')`,
  )
  return { id }
}

/** Adds a member who can be changed and removed, so that the last admin stays. */
async function member(app: TestService, slug: Slug) {
  const [id, user] = [randomUUID(), randomUUID()]
  await asOrg(app, slug, async (sql) => {
    await sql`insert into users (id, issuer, subject, email, name) values (${user}, 'local', ${user}, ${newEmail()}, 'Sample')`
    await sql`insert into members (organization_id, id, user_id, role) values (current_organization(), ${id}, ${user}, 'member')`
  })
  return { id }
}

/** Adds a second admin, so that the first can leave. */
async function anotherAdmin(app: TestService, slug: Slug) {
  const { id } = await member(app, slug)
  await asOrg(app, slug, (sql) => sql`update members set role = 'admin' where id = ${id}`)
  return {}
}

async function comeBack(app: TestService, email: Email, slug: Slug) {
  const user = await findUserByEmail(app.service, email)
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into members (organization_id, id, user_id, role)
      values (current_organization(), ${randomUUID()}, ${user?.id}, ${email.startsWith('admin') ? 'admin' : 'member'})`,
  )
}

export const operationSamples: OperationSamples<typeof contract> = {
  listOrganizations: {},
  createOrganization: { body: () => ({ name: 'Sample' }) },
  getOrganization: { prepare: async (app, slug) => ({ id: await app.organization(slug) }) },
  getOrganizationBySlug: { prepare: async (_, slug) => ({ slug }) },
  updateOrganization: { body: () => ({ name: 'Demo' }) },
  listMembers: {},
  updateMember: { prepare: member, body: () => ({ role: 'admin' }) },
  removeMember: { prepare: member },
  leaveOrganization: { prepare: anotherAdmin, undo: comeBack },
  listInvitations: {},
  createInvitation: { body: () => ({ email: newEmail(), role: 'member' }) },
  renewInvitation: { prepare: invitation },
  deleteInvitation: { prepare: invitation },
  listMyInvitations: {},
  acceptInvitation: { prepare: myInvitation },
  declineInvitation: { prepare: myInvitation },
}

export const toolSamples: Record<string, ToolSample> = {
  list_organizations: { valid: [{}], invalid: [[{ limit: 1 }, 'limit']] },
  get_organization: {
    valid: [{ slug: 'demo' }],
    invalid: [
      [{}, ''],
      [{ id: 'x', slug: 'y' }, ''],
      [{ id: 1 }, 'id'],
      [{ slug: null }, 'slug'],
      [{ name: 'x' }, 'name'],
    ],
  },
  list_members: { valid: [{}], invalid: [[{ organization_id: 'x' }, 'organization_id']] },
}
