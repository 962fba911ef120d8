import { z } from 'zod'
import { usersDecideAccess } from '../../kernel/foundation/caller.ts'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, name, Page, Role, Success, Timestamp } from '../../kernel/foundation/shapes.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { parseDomain } from './domains.ts'

const Name = name(100)
const Type = z.enum(['okta', 'azure', 'google', 'onelogin', 'generic'])
const Status = z.enum(['active', 'inactive'])

const Domain = z
  .string()
  .max(253)
  .transform((text, context) => {
    const domain = parseDomain(text)
    if (domain !== null) return domain
    context.addIssue({ code: 'custom', message: 'Must be a domain such as acme.example' })
    return z.NEVER
  })

const DirectoryToken = z
  .strictObject({
    id: z.string().describe('ID of the token'),
    last_four: z.string().describe('Last four characters of the token; empty if the token is older than this field'),
    created_at: Timestamp.describe('When the token was created'),
    expires_at: Timestamp.nullable().describe('When the token stops working; null for the current token'),
    last_used_at: Timestamp.nullable().describe('When your directory last used the token; null if never'),
  })
  .meta({ id: 'DirectoryToken' })

const Directory = z
  .strictObject({
    id: z.string().describe('ID of the directory'),
    name: z.string().describe('Name that tells your directories apart'),
    type: Type.describe('Product that sends the users; `generic` for any other SCIM client'),
    domain: z.string().describe('Domain of the email addresses in the directory'),
    status: Status.describe('`active` accepts changes over SCIM; `inactive` rejects them'),
    scim_base_url: z.string().describe('URL to enter in your directory’s SCIM settings'),
    user_count: z.int().describe('Number of users in the directory'),
    group_count: z.int().describe('Number of groups in the directory'),
    tokens: z
      .array(DirectoryToken)
      .describe('Bearer tokens that still work, newest first, without the tokens themselves'),
    last_synced_at: Timestamp.nullable().describe('When your directory last sent an accepted request; null if never'),
    created_at: Timestamp.describe('When the directory was connected'),
    updated_at: Timestamp.describe('When the directory’s settings were last changed'),
  })
  .meta({ id: 'Directory' })

const DirectoryStatus = z
  .strictObject({
    has_directory: z.boolean().describe('Whether any directory is connected'),
    has_active_directory: z.boolean().describe('Whether an active directory is connected'),
    directory_count: z.int().describe('Number of connected directories'),
    active_directory: Directory.pick({
      id: true,
      name: true,
      type: true,
      domain: true,
      user_count: true,
      group_count: true,
    })
      .optional()
      .describe('The active directory, or the oldest if several are active; omitted if none is active'),
  })
  .meta({ id: 'DirectoryStatus' })

const DirectoryUser = z
  .strictObject({
    id: z.string().describe('ID of the directory user in Inlay'),
    external_id: z.string().nullable().describe('The user’s ID in your directory; null if it didn’t send one'),
    user_name: z.string().describe('SCIM `userName`, often an email address'),
    email: z.string().describe('Primary email address'),
    name: z.string().describe('Display name'),
    active: z.boolean().describe('Whether the user is active in your directory'),
    role: Role.nullable().describe(
      'The user’s role in the organization; null if they aren’t a member or are deactivated',
    ),
    is_invited: z
      .boolean()
      .describe(
        'Whether an invitation is open, with the role of the user’s groups: the organization hasn’t proven the domain of the address, so the user decides',
      ),
    created_at: Timestamp.describe('When your directory first sent the user'),
    updated_at: Timestamp.describe('When your directory last changed the user'),
  })
  .meta({ id: 'DirectoryUser' })

const DirectoryGroup = z
  .strictObject({
    id: z.string().describe('ID of the directory group in Inlay'),
    external_id: z.string().nullable().describe('The group’s ID in your directory; null if it didn’t send one'),
    display_name: z.string().describe('Name of the group'),
    member_count: z.int().describe('Number of users in the group'),
    role: Role.nullable().describe('Role that the group’s users get in the organization; null for none'),
    created_at: Timestamp.describe('When your directory first sent the group'),
    updated_at: Timestamp.describe('When your directory last changed the group'),
  })
  .meta({ id: 'DirectoryGroup' })

const directories = { tag: 'Directories', resource: 'directory' } as const

export const getDirectoryStatus = operation({
  ...directories,
  id: 'getDirectoryStatus',
  method: 'get',
  path: '/directories/status',
  access: 'org',
  summary: 'Get the directory status',
  description: 'Returns whether the organization has directories and which one is active. Available on every plan.',
  response: DirectoryStatus,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      has_directory: true,
      has_active_directory: true,
      directory_count: 1,
      active_directory: {
        id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
        name: 'Acme',
        type: 'okta',
        domain: 'acme.example',
        user_count: 36,
        group_count: 4,
      },
    },
  },
})

const exampleDirectoryToken = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d1',
  last_four: 'MPLE',
  created_at: '2026-11-02T09:30:00.000Z',
  expires_at: null,
  last_used_at: '2026-11-14T16:05:12.480Z',
} as const

const exampleDirectory = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  name: 'Acme',
  type: 'okta',
  domain: 'acme.example',
  status: 'active',
  scim_base_url: 'https://inlay.example.com/scim/v2/019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2',
  user_count: 36,
  group_count: 4,
  tokens: [exampleDirectoryToken],
  last_synced_at: '2026-11-14T16:05:12.480Z',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listDirectories = operation({
  ...directories,
  id: 'listDirectories',
  method: 'get',
  path: '/directories',
  access: 'org',
  summary: 'List directories',
  description: 'Returns the organization’s directories, oldest first, without their bearer tokens.',
  response: z.strictObject({ directories: z.array(Directory).describe('The directories') }),
  errors: [],
  example: { response: { directories: [exampleDirectory] } },
})

export const createDirectory = operation({
  ...directories,
  id: 'createDirectory',
  method: 'post',
  path: '/directories',
  creates: true,
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Connect a directory',
  description:
    'Enter the `scim_base_url` and the `bearer_token` from the response in your directory’s SCIM settings. The token is shown only once. Requires a plan with SCIM; otherwise the response is `PAYMENT_REQUIRED`. A domain can have only one active directory; a second one is a 409.',
  body: z.strictObject({
    name: Name.describe('Name that tells your directories apart, 1 to 100 characters'),
    type: Type.describe('Product that sends the users; `generic` for any other SCIM client'),
    domain: Domain.describe('Domain of the email addresses in the directory, such as `acme.example`'),
  }),
  response: Directory.extend({
    bearer_token: z.string().describe('Token for the SCIM client; shown only once'),
  }).meta({ id: 'CreatedDirectory' }),
  errors: ['DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: {
    request: { name: 'Acme', type: 'okta', domain: 'acme.example' },
    response: { ...exampleDirectory, user_count: 0, group_count: 0, bearer_token: 'scim_EXAMPLE' },
  },
})

export const getDirectory = operation({
  ...directories,
  id: 'getDirectory',
  method: 'get',
  path: '/directories/{id}',
  access: 'org',
  summary: 'Get a directory',
  description: 'Returns a directory with the number of its users and groups, without its bearer token.',
  params: Id,
  response: Directory,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleDirectory },
})

export const updateDirectory = operation({
  ...directories,
  id: 'updateDirectory',
  method: 'patch',
  path: '/directories/{id}',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Change, activate or deactivate a directory',
  description:
    'Fields that you leave out stay as they are. Activating a directory requires a plan with SCIM; otherwise the response is `PAYMENT_REQUIRED`. A domain can have only one active directory; a second one is a 409.',
  params: Id,
  body: z.strictObject({
    name: Name.optional().describe('New name, 1 to 100 characters'),
    type: Type.optional().describe('Product that sends the users'),
    domain: Domain.optional().describe('Domain of the email addresses in the directory'),
    status: Status.optional().describe('`active` accepts changes over SCIM; `inactive` rejects them'),
  }),
  response: Directory,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: {
    request: { name: 'Acme', type: 'okta', domain: 'acme.example', status: 'active' },
    response: exampleDirectory,
  },
})

export const deleteDirectory = operation({
  ...directories,
  id: 'deleteDirectory',
  method: 'delete',
  path: '/directories/{id}',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Disconnect a directory',
  description:
    'Deletes the directory and the users and groups that it sent. Its bearer tokens stop working. Its members stay, and you manage them yourself from then on; those whom it had deactivated are removed. To connect it again, create a new directory.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

export const listDirectoryUsers = operation({
  ...directories,
  id: 'listDirectoryUsers',
  method: 'get',
  path: '/directories/{id}/users',
  access: 'org',
  summary: 'List the users in a directory',
  description: 'Returns the users in the order in which your directory first sent them.',
  params: Id,
  query: Page.extend({ cursor: cursorAt(order.id) }),
  response: z.strictObject({
    users: z.array(DirectoryUser).describe('Users on this page of the list'),
    total: z.int().describe('Number of users in the directory'),
  }),
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      users: [
        {
          id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
          external_id: '00u1a2b3c4EXAMPLE',
          user_name: 'ada@example.com',
          email: 'ada@example.com',
          name: 'Ada Lovelace',
          active: true,
          role: 'admin',
          is_invited: true,
          created_at: '2026-11-02T09:30:00.000Z',
          updated_at: '2026-11-14T16:05:12.480Z',
        },
      ],
      total: 1,
    },
  },
})

const exampleDirectoryGroup = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  external_id: '00u1a2b3c4EXAMPLE',
  display_name: 'Support',
  member_count: 1,
  role: 'admin',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listDirectoryGroups = operation({
  ...directories,
  id: 'listDirectoryGroups',
  method: 'get',
  path: '/directories/{id}/groups',
  access: 'org',
  summary: 'List the groups in a directory',
  description: 'Returns the groups in the order in which your directory first sent them.',
  params: Id,
  query: Page.extend({ cursor: cursorAt(order.id) }),
  response: z.strictObject({
    groups: z.array(DirectoryGroup).describe('Groups on this page of the list'),
    total: z.int().describe('Number of groups in the directory'),
  }),
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { groups: [exampleDirectoryGroup], total: 1 } },
})

export const rotateDirectoryToken = operation({
  ...directories,
  id: 'rotateDirectoryToken',
  method: 'post',
  path: '/directories/{id}/token',
  creates: true,
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Rotate a directory’s bearer token',
  description:
    'Creates a new token, which is shown only once. The previous tokens keep working for `overlap_hours`, so that you can enter the new one without an interruption. Use 0 if a token was leaked.',
  params: Id,
  body: z.strictObject({
    overlap_hours: z.int().min(0).max(168).default(24).describe('Hours until the previous tokens stop working'),
  }),
  response: z
    .strictObject({
      bearer_token: z.string().describe('Token for the SCIM client; shown only once'),
      tokens: z.array(DirectoryToken).describe('All tokens that still work, newest first'),
    })
    .meta({ id: 'RotatedDirectoryToken' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    request: { overlap_hours: 24 },
    response: { bearer_token: 'scim_EXAMPLE', tokens: [exampleDirectoryToken] },
  },
})

export const updateDirectoryGroup = operation({
  ...directories,
  id: 'updateDirectoryGroup',
  method: 'patch',
  path: '/directories/{id}/groups/{group_id}',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Give a group’s users a role',
  description:
    'Active users in the group become members of the organization with this role; `admin` wins if several groups give a role. With null, users whose only role came from this group are removed. Members whom you invited keep at least the role that you gave them. The last admin can’t lose the role: the response is a 409 with the code `LAST_ADMIN`. If the plan has too few seats, it’s `PAYMENT_REQUIRED`, and nothing changes.',
  params: Id.extend({ group_id: z.string().refine(isId).describe('ID of the directory group') }),
  body: z.strictObject({ role: Role.nullable().describe('Role in the organization; null for none') }),
  response: DirectoryGroup,
  errors: ['RESOURCE_NOT_FOUND', 'PAYMENT_REQUIRED'],
  example: { request: { role: 'admin' }, response: exampleDirectoryGroup },
})
