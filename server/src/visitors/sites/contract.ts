import { z } from 'zod'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, OptionalPage, Success, Timestamp } from '../../kernel/foundation/shapes.ts'

const Site = z
  .strictObject({
    id: z.string().describe('ID of the site; usage and threads refer to it'),
    origin: z
      .string()
      .describe('Origin as an admin allowed it; a wildcard such as `https://*.example.com` is one site'),
    name: z.string().describe('Display name'),
    created_at: Timestamp.describe('When the origin was first allowed'),
    last_seen_at: Timestamp.nullable().describe('When the widget was last used there; null if never'),
  })
  .meta({ id: 'Site' })

const sites = { tag: 'Sites', resource: 'site' } as const

export const listSites = operation({
  ...sites,
  id: 'listSites',
  method: 'get',
  path: '/sites',
  access: 'org',
  summary: 'List sites',
  description:
    'A site is an origin that an admin has allowed, on a publishable key or in the allowed domains. A site that is no longer allowed stays in the list while usage is recorded for it, and doesn’t count towards the plan.',
  query: OptionalPage.extend({ cursor: cursorAt(order.time, order.id) }),
  response: z.array(Site),
  pages: true,
  errors: [],
  example: {
    response: [
      {
        id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4',
        origin: 'https://app.example.com',
        name: 'app.example.com',
        created_at: '2026-11-02T09:30:00.000Z',
        last_seen_at: '2026-11-14T16:05:12.480Z',
      },
    ],
  },
})

export const deleteSite = operation({
  ...sites,
  id: 'deleteSite',
  method: 'delete',
  path: '/sites/{id}',
  access: 'admin',
  summary: 'Delete a site that is no longer allowed',
  description:
    'The site’s usage is kept, but no longer belongs to a site. If a key or the allowed domains still include the origin, the request fails with a 409 `SITE_STILL_ALLOWED`, and the message says where to remove the origin first.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})
