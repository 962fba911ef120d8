import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useCallback } from 'react'
import { api, read } from './api.ts'
import { currentOrganizationId } from './session.ts'

export const meQuery = read(['me'], (signal) => api.GET('/users/me', { signal }))

/** The organization that the URL names, and the user's role in it. Only for pages below `/o/{slug}`, which wait for it. */
export function useOrganization() {
  const { data } = useQuery(meQuery)
  const { slug } = useParams({ strict: false }) as { slug?: string }
  const organization = data?.organizations.find((one) => one.slug === slug)
  if (!organization) throw new Error('A page was shown outside of an organization')
  return { ...organization, isAdmin: organization.role === 'admin' }
}

/** Returns the URL of a page of this organization. */
export function useOrgPath(): (path: string) => string {
  const { slug } = useParams({ strict: false }) as { slug?: string }
  return useCallback((path) => `/o/${slug}${path ? `/${path}` : ''}`, [slug])
}

export const isTokenFor = (organizationId: string): boolean => currentOrganizationId() === organizationId
