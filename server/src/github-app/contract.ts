import { z } from 'zod'
import { operation } from '../operation.ts'
import { Timestamp } from '../shapes.ts'

const GithubApp = z
  .strictObject({
    configured: z.boolean().describe('False: the platform’s own app serves, and everything else is null'),
    github_org_name: z.string().nullable(),
    app_id: z.int().nullable(),
    app_slug: z.string().nullable(),
    app_url: z.string().nullable(),
    repository: z.string().nullable().describe('The connected one, as `owner/name`'),
    created_at: Timestamp.nullable(),
  })
  .meta({ id: 'GithubApp' })

const githubApp = { tag: 'Code hosting' } as const

export const getApp = operation({
  ...githubApp,
  id: 'getGithubApp',
  method: 'get',
  path: '/org-github-apps/config',
  access: 'admin',
  summary: 'The organization’s own GitHub app, without its secrets',
  response: GithubApp,
  errors: [],
})

export const startManifest = operation({
  ...githubApp,
  id: 'startGithubAppManifest',
  method: 'post',
  path: '/org-github-apps/manifest-start',
  access: 'admin',
  summary: 'Start the registration of the organization’s own GitHub app',
  description:
    'A browser posts `manifest` as a form field of that name to `registration_url`, within an hour. An app that is configured already has to be removed first.',
  body: z.strictObject({
    github_org_name: z
      .string()
      .min(1)
      .max(39)
      .regex(
        /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$/,
        'Must be the name of a GitHub organization: letters, digits, hyphens',
      ),
  }),
  response: z
    .strictObject({
      success: z.boolean(),
      github_org_name: z.string(),
      registration_url: z.string(),
      manifest: z.string().describe('JSON'),
    })
    .meta({ id: 'GithubAppManifestStart' }),
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
})

export const removeApp = operation({
  ...githubApp,
  id: 'removeGithubApp',
  method: 'delete',
  path: '/org-github-apps/config',
  access: 'admin',
  summary: 'Forget the organization’s own GitHub app and go back to the platform’s',
  description: 'The app itself stays on GitHub, where its owner can delete it.',
  response: z.strictObject({ success: z.boolean(), repo_disconnected: z.boolean() }).meta({ id: 'GithubAppRemoval' }),
  errors: ['VALIDATION_ERROR', 'RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
})
