import type { components } from '@inlay/client'
import { api, read } from '../../session/api.ts'

export type Connector = components['schemas']['Connector']

export const connectorsQuery = read(['connectors'], (signal) => api.GET('/connectors', { signal }))

export const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)
export const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
