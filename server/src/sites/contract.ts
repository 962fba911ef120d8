import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, Success, Timestamp } from '../shapes.ts'

const Site = z
  .strictObject({
    id: z.string(),
    origin: z
      .string()
      .describe('As an administrator allowed it; a wildcard such as `https://*.example.com` is one site'),
    name: z.string(),
    created_at: Timestamp,
    last_seen_at: Timestamp.nullable().describe('Null until the widget is used there'),
  })
  .meta({ id: 'Site' })

const sites = { tag: 'Sites', resource: 'site' } as const

export const listSites = operation({
  ...sites,
  id: 'listSites',
  method: 'get',
  path: '/sites',
  access: 'org',
  summary: 'The origins that an administrator allowed, on a key or in the organization’s domains',
  description:
    'A site whose origin is no longer allowed stays listed while usage is recorded for it. Only allowed ones count towards the plan.',
  response: z.array(Site),
  errors: [],
})

export const deleteSite = operation({
  ...sites,
  id: 'deleteSite',
  method: 'delete',
  path: '/sites/{id}',
  access: 'admin',
  summary: 'Delete a site that is no longer allowed; its usage moves to “no site”',
  description:
    'While a key or the allowed domains still name the origin, the response is a 409 with the code `SITE_STILL_ALLOWED` that says where to remove it.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})
