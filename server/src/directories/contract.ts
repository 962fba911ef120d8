import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, name, Page, Success, Timestamp } from '../shapes.ts'
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
    context.addIssue({ code: 'custom', message: 'A domain such as acme.example is expected' })
    return z.NEVER
  })

const Directory = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    type: Type,
    domain: z.string().describe('Of the addresses in the directory'),
    status: Status,
    scim_base_url: z.string().describe('Where the directory sends its people and groups'),
    user_count: z.int(),
    group_count: z.int(),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'Directory' })

const DirectoryStatus = z
  .strictObject({
    has_directory: z.boolean(),
    has_active_directory: z.boolean(),
    directory_count: z.int(),
    active_directory: Directory.pick({
      id: true,
      name: true,
      type: true,
      domain: true,
      user_count: true,
      group_count: true,
    })
      .optional()
      .describe('Only when one exists; of several the oldest'),
  })
  .meta({ id: 'DirectoryStatus' })

const DirectoryUser = z
  .strictObject({
    id: z.string(),
    external_id: z.string().nullable(),
    user_name: z.string(),
    email: z.string(),
    name: z.string(),
    active: z.boolean(),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'DirectoryUser' })

const DirectoryGroup = z
  .strictObject({
    id: z.string(),
    external_id: z.string().nullable(),
    display_name: z.string(),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'DirectoryGroup' })

const directories = { tag: 'Directories', resource: 'directory' } as const
const oneActive = 'A domain has one active directory: a second one is answered with 409.'

export const getDirectoryStatus = operation({
  ...directories,
  id: 'getDirectoryStatus',
  method: 'get',
  path: '/directories/status',
  access: 'org',
  summary: 'Whether the organization has directories, and which one is active',
  response: DirectoryStatus,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listDirectories = operation({
  ...directories,
  id: 'listDirectories',
  method: 'get',
  path: '/directories',
  access: 'org',
  summary: 'The organization’s directories, the oldest first',
  response: z.strictObject({ directories: z.array(Directory) }),
  errors: [],
})

export const createDirectory = operation({
  ...directories,
  id: 'createDirectory',
  method: 'post',
  path: '/directories',
  creates: true,
  access: 'admin',
  summary: 'Connect a directory; the bearer token for its SCIM client is shown this once',
  description: oneActive,
  body: z.strictObject({ name: Name, type: Type, domain: Domain }),
  response: Directory.extend({ bearer_token: z.string() }).meta({ id: 'CreatedDirectory' }),
  errors: ['DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})

export const getDirectory = operation({
  ...directories,
  id: 'getDirectory',
  method: 'get',
  path: '/directories/{id}',
  access: 'org',
  summary: 'One directory',
  params: Id,
  response: Directory,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const updateDirectory = operation({
  ...directories,
  id: 'updateDirectory',
  method: 'patch',
  path: '/directories/{id}',
  access: 'admin',
  summary: 'Change a directory, or switch it on or off',
  description: oneActive,
  params: Id,
  body: z.strictObject({
    name: Name.optional(),
    type: Type.optional(),
    domain: Domain.optional(),
    status: Status.optional(),
  }),
  response: Directory,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})

export const deleteDirectory = operation({
  ...directories,
  id: 'deleteDirectory',
  method: 'delete',
  path: '/directories/{id}',
  access: 'admin',
  summary: 'Disconnect a directory, with the people and groups that came from it',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listDirectoryUsers = operation({
  ...directories,
  id: 'listDirectoryUsers',
  method: 'get',
  path: '/directories/{id}/users',
  access: 'org',
  summary: 'The people in a directory, in the order they came',
  params: Id,
  query: Page,
  response: z.strictObject({ users: z.array(DirectoryUser), total: z.int() }),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listDirectoryGroups = operation({
  ...directories,
  id: 'listDirectoryGroups',
  method: 'get',
  path: '/directories/{id}/groups',
  access: 'org',
  summary: 'The groups in a directory, in the order they came',
  params: Id,
  query: Page,
  response: z.strictObject({ groups: z.array(DirectoryGroup), total: z.int() }),
  errors: ['RESOURCE_NOT_FOUND'],
})
