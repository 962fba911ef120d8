import { z } from 'zod'
import { Role } from '../../kernel/foundation/shapes.ts'
import { tool } from '../../kernel/foundation/tool.ts'
import * as contract from './contract.ts'
import * as members from './members.ts'
import * as organizations from './organizations.ts'

const Organization = contract.getOrganization.response.pick({ id: true, name: true, slug: true, role: true })

const readOnly = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const

export const listOrganizations = tool({
  name: 'list_organizations',
  title: 'List my organizations',
  description:
    'List the organizations that the signed-in user belongs to, with id, name, slug and role. The other tools act on the organization that was chosen at sign-in.',
  access: 'user',
  input: z.strictObject({}),
  output: z.strictObject({ organizations: z.array(Organization), count: z.int() }),
  annotations: readOnly,
  async handler(service, caller) {
    const found = await organizations.listOrganizations(service, caller)
    return { organizations: found.map(summarize), count: found.length }
  },
})

export const getOrganization = tool({
  name: 'get_organization',
  title: 'Get an organization',
  description:
    'Get one of the signed-in user’s organizations by `id` or by `slug`. Provide exactly one of the two. Organizations that the user doesn’t belong to are not found.',
  access: 'user',
  input: z
    .strictObject({
      id: z.string().optional().describe('ID of the organization; omit it to look up by slug'),
      slug: z.string().optional().describe('Slug of the organization; omit it to look up by ID'),
    })
    .refine(({ id, slug }) => (id === undefined) !== (slug === undefined), 'Provide either id or slug, not both'),
  output: Organization,
  annotations: readOnly,
  async handler(service, caller, { id, slug = '' }) {
    return summarize(
      id === undefined
        ? await organizations.getOrganizationBySlug(service, caller, { slug })
        : await organizations.getOrganization(service, caller, { id }),
    )
  },
})

const summarize = ({ id, name, slug, role }: z.output<typeof Organization>) => ({ id, name, slug, role })

const Member = contract.listMembers.response.element

export const listMembers = tool({
  name: 'list_members',
  title: 'List members',
  description: 'List the members of the current organization, with user id, email, name, role and join date.',
  access: 'org',
  input: z.strictObject({}),
  output: z.strictObject({
    members: z.array(
      z.strictObject({
        user_id: z.string(),
        email: z.string(),
        name: z.string(),
        role: Role,
        joined_at: Member.shape.created_at,
      }),
    ),
    count: z.int(),
  }),
  annotations: readOnly,
  async handler(service, caller) {
    const { body: found } = await members.listMembers(service, caller, { offset: 0 })
    const described = found.map(({ role, created_at, user }) => ({
      user_id: user.id,
      email: user.email,
      name: user.name,
      role,
      joined_at: created_at,
    }))
    return { members: described, count: described.length }
  },
})
