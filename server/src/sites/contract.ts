import { z } from 'zod'
import { operation } from '../operation.ts'
import { Timestamp } from '../shapes.ts'

const Site = z
  .strictObject({
    id: z.string(),
    origin: z.string(),
    name: z.string(),
    created_at: Timestamp,
    last_seen_at: Timestamp.nullable().describe('Null for a site that was declared and has not been seen'),
  })
  .meta({ id: 'Site' })

export const listSites = operation({
  id: 'listSites',
  method: 'get',
  path: '/sites',
  access: 'org',
  tag: 'Sites',
  summary: 'The origins that the widget was seen on, or that were declared for it',
  response: z.array(Site),
  errors: [],
})
