import type { components } from '@inlay/client'
import { api, read } from '../../session/api.ts'

export type Directory = components['schemas']['Directory']

export const directoriesQuery = read(['directories'], (signal) => api.GET('/directories', { signal }))
