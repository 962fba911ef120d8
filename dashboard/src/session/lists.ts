import { api, readList } from './api.ts'

// The lists that are shown as a whole, and that several pages take names from.

export const keysQuery = readList(
  ['keys'],
  (query, signal) => api.GET('/publishable-keys', { params: { query }, signal }),
  ({ keys }) => keys,
)

export const sitesQuery = readList(
  ['sites'],
  (query, signal) => api.GET('/sites', { params: { query }, signal }),
  (sites) => sites,
)

export const membersQuery = readList(
  ['members'],
  (query, signal) => api.GET('/organizations/current/members', { params: { query }, signal }),
  (members) => members,
)

export const invitationsQuery = readList(
  ['invitations'],
  (query, signal) => api.GET('/organizations/current/invitations', { params: { query }, signal }),
  (invitations) => invitations,
)

export const serviceAccountsQuery = readList(
  ['service-accounts'],
  (query, signal) => api.GET('/service-accounts', { params: { query }, signal }),
  ({ service_accounts }) => service_accounts,
)
