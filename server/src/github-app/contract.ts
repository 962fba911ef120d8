import { z } from 'zod'
import { operation } from '../foundation/operation.ts'
import { Timestamp } from '../foundation/shapes.ts'

const GithubApp = z
  .strictObject({
    configured: z
      .boolean()
      .describe(
        'Whether the organization has its own app. If false, the platform’s app is used and all other fields are null.',
      ),
    github_org_name: z.string().nullable().describe('GitHub organization that owns the app'),
    app_id: z.int().nullable().describe('ID of the app on GitHub'),
    app_slug: z.string().nullable().describe('Name of the app in GitHub URLs'),
    app_url: z.string().nullable().describe('URL of the app on GitHub'),
    repository: z.string().nullable().describe('Connected repository, as `owner/name`; null if none is connected'),
    created_at: Timestamp.nullable().describe('When the app was registered'),
  })
  .meta({ id: 'GithubApp' })

const githubApp = { tag: 'Code hosting' } as const

export const getApp = operation({
  ...githubApp,
  id: 'getGithubApp',
  method: 'get',
  path: '/org-github-apps/config',
  access: 'admin',
  summary: 'Get the organization’s GitHub app',
  description:
    'Returns the organization’s own GitHub app without its secrets, or `configured: false` if it uses the platform’s app.',
  response: GithubApp,
  errors: [],
})

export const startManifest = operation({
  ...githubApp,
  id: 'startGithubAppManifest',
  method: 'post',
  path: '/org-github-apps/manifest-start',
  access: 'admin',
  summary: 'Start registering a GitHub app',
  description:
    'Have the browser post `manifest`, as a form field of that name, to `registration_url` within an hour. GitHub then asks the user to confirm. If an app is already configured, the response is a 409: remove it first.',
  body: z.strictObject({
    github_org_name: z
      .string()
      .min(1)
      .max(39)
      .regex(
        /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$/,
        'Must be the name of a GitHub organization: letters, digits, and hyphens',
      )
      .describe('GitHub organization that will own the app'),
  }),
  response: z
    .strictObject({
      success: z.boolean().describe('Always true'),
      github_org_name: z.string().describe('The submitted organization name'),
      registration_url: z.string().describe('GitHub URL to post the form to'),
      manifest: z.string().describe('The GitHub app manifest, as a JSON string'),
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
  summary: 'Remove the organization’s GitHub app',
  description:
    'Deletes the app’s credentials from Inlay and reverts to the platform’s app. The app still exists on GitHub, where its owner can delete it. The response is a 404 if no app is configured.',
  response: z
    .strictObject({
      success: z.boolean().describe('Always true'),
      repo_disconnected: z.boolean().describe('Whether a connected repository was disconnected'),
    })
    .meta({ id: 'GithubAppRemoval' }),
  errors: ['VALIDATION_ERROR', 'RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
})
