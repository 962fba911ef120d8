import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Success, Timestamp } from '../../kernel/foundation/shapes.ts'
import { variant } from '../../kernel/lib/errors.ts'

const PlatformGithubApp = z
  .strictObject({
    app_slug: z.string().describe('Name of the app in GitHub URLs'),
    app_url: z.string().describe('URL of the app on GitHub'),
    installation: z
      .strictObject({
        account: z.string().describe('GitHub organization or user where the app is installed'),
        installed_by: z.string().describe('Email address of the user who connected it'),
        installed_at: Timestamp.describe('When it was connected'),
      })
      .nullable()
      .describe('Where your organization installed the app; null if it hasn’t'),
  })
  .meta({ id: 'PlatformGithubApp' })

const GithubApp = z
  .strictObject({
    configured: z
      .boolean()
      .describe(
        'Whether the organization has its own app. If false, all fields except `repository` and `platform_app` are null.',
      ),
    github_org_name: z.string().nullable().describe('GitHub organization that owns the app'),
    app_id: z.int().nullable().describe('ID of the app on GitHub'),
    app_slug: z.string().nullable().describe('Name of the app in GitHub URLs'),
    app_url: z.string().nullable().describe('URL of the app on GitHub'),
    repository: z.string().nullable().describe('Connected repository, as `owner/name`; null if none is connected'),
    installation_url: z.string().nullable().describe('URL where you install the app in your GitHub organization'),
    client_secret_last4: z.string().nullable().describe('Last four characters of the client secret'),
    webhook_secret_last4: z
      .string()
      .nullable()
      .describe('Last four characters of the webhook secret; null if GitHub created none'),
    created_at: Timestamp.nullable().describe('When the app was registered'),
    platform_app: PlatformGithubApp.nullable().describe(
      'The operator’s app, which is used if the organization has no app of its own; null if the operator offers none',
    ),
  })
  .meta({ id: 'GithubApp' })

const fullName = z
  .string()
  .regex(/^[A-Za-z0-9][\w-]{0,99}\/(?!\.{1,2}$)[\w.-]{1,100}$/, 'Must be a repository such as acme/skills')
  .describe('Repository, as `owner/name`')

const RepositorySync = z
  .strictObject({
    status: z
      .enum(['succeeded', 'retrying', 'failed'])
      .describe(
        '`succeeded`: the skills are those of the commit, except for the problems. `retrying`: GitHub couldn’t be reached; no skill was changed. `failed`: someone has to change something first; no skill was changed.',
      ),
    finished_at: Timestamp.describe('When it ended'),
    commit: z.string().nullable().describe('Commit that was synced; null if the sync failed'),
    created: z.int().describe('Number of new skills'),
    updated: z.int().describe('Number of skills with a new version'),
    archived: z.int().describe('Number of skills whose file was deleted'),
    unchanged: z.int().describe('Number of skills that were up to date'),
    problem: z.string().nullable().describe('Why the sync failed; null if it succeeded'),
    problems: z
      .array(
        z.strictObject({
          path: z.string().describe('Path of the file in the repository'),
          problem: z.string().describe('Why the file was skipped'),
        }),
      )
      .describe('Files that were skipped. A skill that already came from such a file stays as it was.'),
  })
  .meta({ id: 'RepositorySync' })

const ConnectedRepository = z
  .strictObject({
    repository: z.string().describe('Repository, as `owner/name`'),
    url: z.string().describe('URL of the repository on GitHub'),
    default_branch: z.string().describe('Branch that skills are synced from'),
    connected_by: z.string().describe('Email address of the user who connected it'),
    connected_at: Timestamp.describe('When it was connected'),
    state: z
      .enum(['waiting', 'syncing', 'idle'])
      .describe(
        '`waiting`: a sync is about to start. `syncing`: it’s running. `idle`: the next one is at `next_sync_at`.',
      ),
    next_sync_at: Timestamp.describe(
      'When the next sync starts without a push: a retry, or an hour after the last one',
    ),
    synced_at: Timestamp.nullable().describe('When a sync last succeeded; null if none has'),
    synced_commit: z.string().nullable().describe('Commit of the last sync that succeeded; null if none has'),
    last_sync: RepositorySync.nullable().describe('The last sync; null before the first has ended'),
  })
  .meta({ id: 'ConnectedRepository' })

const Connection = z
  .strictObject({
    repository: ConnectedRepository.nullable().describe('The connected repository; null if none is connected'),
  })
  .meta({ id: 'RepositoryConnection' })

const RemovalResult = z
  .strictObject({
    success: z.boolean().describe('Always true'),
    repo_disconnected: z.boolean().describe('Whether a connected repository was disconnected'),
  })
  .meta({ id: 'GithubAppRemoval' })

/** Errors of operations that ask GitHub. */
export const codeHostErrors = {
  CODE_HOST_REFUSED: variant(409, 'CONFLICT', 'GitHub refused the request'),
  CODE_HOST_UNAVAILABLE: variant(503, 'SERVICE_UNAVAILABLE', 'GitHub can’t be reached'),
}

const githubApp = { tag: 'Code hosting' } as const

export const getApp = operation({
  ...githubApp,
  id: 'getGithubApp',
  method: 'get',
  path: '/org-github-apps/config',
  access: 'admin',
  summary: 'Get the organization’s GitHub app',
  description:
    'Returns the organization’s own GitHub app without its secrets, or `configured: false` if it has none, and the app that the operator offers.',
  response: GithubApp,
  errors: [],
  example: {
    response: {
      configured: true,
      github_org_name: 'acme',
      app_id: 123_456,
      app_slug: 'inlay-acme',
      app_url: 'https://github.com/apps/inlay-acme',
      repository: 'acme/skills',
      installation_url: 'https://github.com/apps/inlay-acme/installations/new',
      client_secret_last4: '9d1c',
      webhook_secret_last4: 'a41e',
      created_at: '2026-11-02T09:30:00.000Z',
      platform_app: {
        app_slug: 'inlay-acme',
        app_url: 'https://github.com/apps/inlay-acme',
        installation: { account: 'text', installed_by: 'text', installed_at: '2026-11-14T16:05:12.480Z' },
      },
    },
  },
})

export const startManifest = operation({
  ...githubApp,
  id: 'startGithubAppManifest',
  method: 'post',
  path: '/org-github-apps/manifest-start',
  access: 'admin',
  usersOnly: 'the registration continues in the user’s browser',
  summary: 'Start registering a GitHub app',
  description:
    'Have the browser post `manifest`, as a form field of that name, to `registration_url`. GitHub asks the user to confirm, and sends the browser back to Inlay, which stores the app’s credentials and shows the dashboard. All of this must happen within an hour. If an app is already configured, the response is a 409: remove it first.',
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
  example: {
    request: { github_org_name: 'acme' },
    response: {
      success: true,
      github_org_name: 'acme',
      registration_url: 'https://github.com/organizations/acme/settings/apps/new?state=EXAMPLE',
      manifest: '{"name":"inlay-acme-4f2a9c","public":false}',
    },
  },
})

export const removeApp = operation({
  ...githubApp,
  id: 'removeGithubApp',
  method: 'delete',
  path: '/org-github-apps/config',
  access: 'admin',
  summary: 'Remove the organization’s GitHub app',
  description:
    'Deletes the app’s credentials from Inlay, disconnects the repository, and reverts to the operator’s app, if there is one: connect a repository through it again. Skills from the repository stay, and can be edited in Inlay. The app still exists on GitHub, where its owner can delete it. The response is a 404 if no app is configured.',
  response: RemovalResult,
  errors: ['VALIDATION_ERROR', 'RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
  example: { response: { success: true, repo_disconnected: true } },
})

export const startInstallation = operation({
  ...githubApp,
  id: 'startGithubInstallation',
  method: 'post',
  path: '/org-github-apps/installation-start',
  access: 'admin',
  usersOnly: 'the installation continues in the user’s browser',
  summary: 'Start installing the operator’s GitHub app',
  description:
    'Open `installation_url` in the browser in which you’re signed in to Inlay. GitHub asks where to install the app, checks who you are there, and sends the browser back to Inlay, which connects the installation to your organization. An installation can be connected to one organization. All of this must happen within an hour. The response is a 404 if the operator offers no app, and a 409 if your organization has its own.',
  response: z
    .strictObject({ installation_url: z.string().describe('URL where you install the app. It can be used once.') })
    .meta({ id: 'GithubInstallationStart' }),
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
  example: { response: { installation_url: 'https://github.com/apps/inlay-acme/installations/new' } },
})

export const removeInstallation = operation({
  ...githubApp,
  id: 'removeGithubInstallation',
  method: 'delete',
  path: '/org-github-apps/installation',
  access: 'admin',
  summary: 'Disconnect the operator’s GitHub app',
  description:
    'Ends your organization’s use of the operator’s app, and disconnects the repository that is read through it. Skills from the repository stay, and can be edited in Inlay. The app stays installed on GitHub, where you can uninstall it. The response is a 404 if your organization hasn’t installed the app.',
  response: RemovalResult,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true, repo_disconnected: true } },
})

export const listRepositories = operation({
  ...githubApp,
  id: 'listGithubRepositories',
  method: 'get',
  path: '/org-github-apps/repositories',
  access: 'admin',
  summary: 'List repositories to connect',
  description:
    'Asks GitHub which repositories the organization’s app, or the operator’s, can read: those where your organization installed it. The response is a 404 if no app is configured.',
  response: z
    .strictObject({
      is_installed: z.boolean().describe('Whether the app is installed in the GitHub organization'),
      repositories: z
        .array(
          z.strictObject({
            repository: z.string().describe('Repository, as `owner/name`'),
            is_private: z.boolean().describe('Whether the repository is private on GitHub'),
            default_branch: z.string().describe('Branch that skills would be synced from'),
          }),
        )
        .describe('Repositories by name, at most 500'),
      is_complete: z.boolean().describe('False if the app can read more repositories than are listed'),
    })
    .meta({ id: 'GithubRepositories' }),
  errors: ['RESOURCE_NOT_FOUND'],
  ownErrors: codeHostErrors,
  example: {
    response: {
      is_installed: true,
      repositories: [{ repository: 'acme/skills', is_private: true, default_branch: 'text' }],
      is_complete: true,
    },
  },
})

const exampleRepositorySync = {
  status: 'succeeded',
  finished_at: '2026-11-14T16:05:14.120Z',
  commit: '6dcb09b5b57875f334f61aebed695e2e4193db5e',
  created: 2,
  updated: 1,
  archived: 0,
  unchanged: 4,
  problem: null,
  problems: [{ path: 'skills/refund/SKILL.md', problem: 'frontmatter is missing' }],
} as const

const exampleConnectedRepository = {
  repository: 'acme/skills',
  url: 'https://github.com/acme/skills',
  default_branch: 'main',
  connected_by: 'ada@example.com',
  connected_at: '2026-11-14T16:05:12.480Z',
  state: 'idle',
  next_sync_at: '2026-11-14T17:05:14.120Z',
  synced_at: '2026-11-14T16:05:14.120Z',
  synced_commit: '6dcb09b5b57875f334f61aebed695e2e4193db5e',
  last_sync: exampleRepositorySync,
} as const

export const getRepository = operation({
  ...githubApp,
  id: 'getGithubRepository',
  method: 'get',
  path: '/org-github-apps/repository',
  access: 'admin',
  summary: 'Get the connected repository',
  description: 'Returns the repository that skills are synced from, and how the last sync went.',
  response: Connection,
  errors: [],
  example: { response: { repository: exampleConnectedRepository } },
})

export const connectRepository = operation({
  ...githubApp,
  id: 'connectGithubRepository',
  method: 'put',
  path: '/org-github-apps/repository',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Connect a repository',
  description:
    'Syncs skills from the repository’s default branch: every `SKILL.md` in the folder `skills` and below it. The first sync starts right away, and each push starts another. Skills from a repository that was connected before stay, and can be edited in Inlay. The response is a 404 if no app is configured.',
  body: z.strictObject({ repository: fullName }),
  response: Connection,
  errors: ['RESOURCE_NOT_FOUND'],
  ownErrors: codeHostErrors,
  example: { request: { repository: 'acme/skills' }, response: { repository: exampleConnectedRepository } },
})

export const disconnectRepository = operation({
  ...githubApp,
  id: 'disconnectGithubRepository',
  method: 'delete',
  path: '/org-github-apps/repository',
  access: 'admin',
  summary: 'Disconnect the repository',
  description:
    'Ends the sync. Skills from the repository stay, and can be edited in Inlay. The response is a 404 if no repository is connected.',
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

export const syncRepository = operation({
  ...githubApp,
  id: 'syncGithubRepository',
  method: 'post',
  path: '/org-github-apps/sync',
  access: 'admin',
  summary: 'Sync skills now',
  description:
    'Starts a sync, or another one after the one that’s running. Get the repository to see how it went. While GitHub’s rate limit is reached, the sync waits. The response is a 404 if no repository is connected.',
  response: Connection,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { repository: exampleConnectedRepository } },
})
