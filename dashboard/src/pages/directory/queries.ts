import type { components } from '@inlay/client'
import { api, read } from '../../session/api.ts'

export type Directory = components['schemas']['Directory']

export type DirectoryGroup = components['schemas']['DirectoryGroup']

export const directoriesQuery = read(['directories'], (signal) => api.GET('/directories', { signal }))

export const scimRefusalsQuery = (directory_id: string) =>
  read(['refusals', 'scim', directory_id], (signal) =>
    api.GET('/diagnostics/refusals', { params: { query: { directory_id, limit: 10 } }, signal }),
  )
