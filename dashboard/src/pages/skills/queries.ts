import type { components } from '@inlay/client'
import { api, read } from '../../session/api.ts'

export type Skill = components['schemas']['Skill']

export const skillQuery = (id: string) =>
  read(['skills', 'one', id], (signal) => api.GET('/organization-skills/{id}', { params: { path: { id } }, signal }))

export const versionsQuery = (id: string, version: number) =>
  read(['skills', 'versions', id, version], (signal) =>
    api.GET('/organization-skills/{id}/versions', { params: { path: { id }, query: { limit: 50 } }, signal }),
  )

export const versionQuery = (id: string, version: number) =>
  read(['skills', 'version', id, version], (signal) =>
    api.GET('/organization-skills/{id}/versions/{version}', {
      params: { path: { id, version: String(version) } },
      signal,
    }),
  )
