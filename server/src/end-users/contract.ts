import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, Page, Success, Timestamp } from '../shapes.ts'

const EndUser = z
  .strictObject({
    id: z.string(),
    organization_id: z.string(),
    external_id: z.string().describe('The subject at the organization’s identity provider'),
    email: z.string().describe('Empty when the provider says none'),
    metadata: z
      .string()
      .describe('JSON text of the other claims about the person, 8 KiB at most: larger claims are left out'),
    last_activity_at: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'EndUser' })

const common = { tag: 'End users', resource: 'end_user' } as const

export const listEndUsers = operation({
  ...common,
  id: 'listEndUsers',
  method: 'get',
  path: '/end-users',
  access: 'org',
  summary: 'The people who used the widget, in the order they first came',
  query: Page,
  response: z.strictObject({ users: z.array(EndUser), total: z.int() }),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const getEndUser = operation({
  ...common,
  id: 'getEndUser',
  method: 'get',
  path: '/end-users/{id}',
  access: 'org',
  summary: 'One of them',
  params: Id,
  response: EndUser,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const eraseEndUser = operation({
  ...common,
  id: 'eraseEndUser',
  method: 'delete',
  path: '/end-users/{id}',
  access: 'admin',
  summary: 'Erase a person and what hangs on them; the organization’s usage totals stay',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})
