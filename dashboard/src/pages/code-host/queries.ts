import type { components } from '@inlay/client'
import { api, read } from '../../session/api.ts'

export type GithubApp = components['schemas']['GithubApp']
export type PlatformGithubApp = components['schemas']['PlatformGithubApp']
export type ConnectedRepository = components['schemas']['ConnectedRepository']

/** The keys of the others begin with this one, so that they're loaded again together. */
export const githubAppQuery = read(['github-app'], (signal) => api.GET('/org-github-apps/config', { signal }))

export const repositoriesQuery = read(['github-app', 'repositories'], (signal) =>
  api.GET('/org-github-apps/repositories', { signal }),
)

export const connectionQuery = read(['github-app', 'repository'], (signal) =>
  api.GET('/org-github-apps/repository', { signal }),
)
