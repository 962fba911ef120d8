import { createPrivateKey } from 'node:crypto'
import { request } from '@octokit/request'
import { SignJWT } from 'jose'
import { z } from 'zod'
import type { PlatformApp } from '../../kernel/config/config.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { createSafeFetch, privateNetworks } from '../../kernel/net/safe-fetch.ts'
import { explainGithubFailure, GithubError, refusals, suspended } from './github-errors.ts'

/** Enough for the largest tree that GitHub returns in one response. */
const responseLimit = 8 * 1024 * 1024
/** Timeout of a request. A sync's lease lasts longer. */
const githubTimeoutMs = 10_000

/** What identifies an app at GitHub. */
export interface AppCredentials {
  app_id: number
  private_key: string
  /** For an app that many organizations share: the only installation that may be used. */
  installation_id?: number
}

/** GitHub's REST API. Every function throws a `GithubError`. */
export interface Github {
  /** Reads what GitHub knows about the app, which proves that its ID and private key belong together. */
  describeApp(app: AppCredentials): Promise<AppDescription>
  convertManifest(code: string): Promise<Conversion>
  /** The repositories that the app can read, at most `mostListed`. */
  listRepositories(
    app: AppCredentials,
  ): Promise<{ isInstalled: boolean; isComplete: boolean; list: GithubRepository[] }>
  findRepository(app: AppCredentials, fullName: string): Promise<GithubRepository & { installation_id: number }>
  /**
   * Opens one repository for reading. The token is limited to it. If an organization's own app was installed anew, its
   * new installation is used.
   */
  openRepository(app: AppCredentials, connected: Connected, control: Control): Promise<OpenRepository>
  /**
   * Finds an installation of the operator's app, if the user who authorized the app with this code has access to it.
   * Anyone can send an installation's ID, so it proves nothing.
   */
  findUserInstallation(app: PlatformApp, code: string, installationId: number): Promise<{ account: string } | undefined>
  close(): Promise<void>
}

interface Control {
  signal?: AbortSignal
}

interface Connected {
  installation_id: number
  repository_id: number
  full_name: string
}

export interface OpenRepository extends GithubRepository {
  installation_id: number
  /** The commit that the default branch points to. */
  commit: string
  listTree(sha: string, options?: { isRecursive: boolean }): Promise<TreeEntry[]>
  readBlob(sha: string): Promise<Buffer>
}

/** GitHub sends many more fields. These are the ones that are used. */
const Conversion = z.object({
  id: z.int(),
  slug: z.string().min(1).max(200),
  html_url: z.url({ protocol: /^https?$/ }).max(500),
  owner: z.object({ login: z.string() }),
  client_id: z.string().min(1).max(200),
  client_secret: z.string().min(1).max(1_000),
  webhook_secret: z.string().min(1).max(1_000).nullable(),
  pem: z.string().min(1).max(10_000),
})
export type Conversion = z.infer<typeof Conversion>

const GithubRepository = z.object({
  id: z.int(),
  full_name: z.string().min(3).max(200),
  html_url: z.url({ protocol: /^https?$/ }).max(500),
  private: z.boolean(),
  default_branch: z.string().min(1).max(300),
})
type GithubRepository = z.infer<typeof GithubRepository>

const App = z.object({
  slug: z.string(),
  client_id: z.string().optional(),
  permissions: z.record(z.string(), z.string()),
  events: z.array(z.string()),
})
/** An app without a webhook has no address. */
const Hook = z.object({ url: z.string().nullish() })
export interface AppDescription extends z.infer<typeof App> {
  webhookUrl: string | undefined
}

const Installation = z.object({ id: z.int(), suspended_at: z.string().nullish() })
const Token = z.object({ token: z.string().min(1) })
/** GitHub reports a wrong code with the status 200. */
const UserToken = z.union([z.object({ access_token: z.string().min(1) }), z.object({ error: z.string() })])
const UserInstallations = z.object({
  installations: z.array(z.object({ id: z.int(), app_id: z.int(), account: z.object({ login: z.string().max(200) }) })),
})
const RepositoryPage = z.object({ total_count: z.int(), repositories: z.array(GithubRepository) })
const Reference = z.object({ object: z.object({ sha: z.string().regex(/^[0-9a-f]{40,64}$/) }) })
const TreeEntry = z.object({
  path: z.string(),
  mode: z.string(),
  type: z.string(),
  sha: z.string().regex(/^[0-9a-f]{40,64}$/),
  size: z.int().optional(),
})
export type TreeEntry = z.infer<typeof TreeEntry>
const Tree = z.object({ truncated: z.boolean(), tree: z.array(TreeEntry) })
const Blob = z.object({ encoding: z.literal('base64'), content: z.string(), size: z.int() })

const pageSize = 100
const mostListed = 500
/** A private app has one installation, in the organization that owns it. */
const mostInstallations = 10
const mostPagesOfUser = 20

export function createGithub({ config, clock, log }: Pick<Service, 'config' | 'clock' | 'log'>): Github {
  const { allowedPrivateNetworks } = config
  const isPublic = config.github.url === 'https://github.com'
  const safeFetch = createSafeFetch({
    // GitHub Enterprise Server is the operator's choice, and usually in a private network.
    allowedPrivateNetworks: isPublic ? allowedPrivateNetworks : [...privateNetworks, ...allowedPrivateNetworks],
    timeoutMs: githubTimeoutMs,
    maxBytes: responseLimit,
  })

  async function send<T>(
    route: string,
    shape: z.ZodType<T>,
    {
      signal,
      authorization,
      ...parameters
    }: Record<string, unknown> & Control & { authorization?: string; baseUrl?: string },
  ): Promise<T> {
    const response = await request(route, {
      baseUrl: config.github.apiUrl,
      ...parameters,
      headers: {
        accept: 'application/json',
        'x-github-api-version': '2022-11-28',
        ...(authorization && { authorization }),
      },
      request: { fetch: safeFetch, ...(signal && { signal }) },
    }).catch((error) => {
      throw explainGithubFailure(error, clock())
    })
    // Safe-fetch doesn't follow redirects, and octokit takes them for success.
    if (response.status >= 300)
      throw new GithubError('refused', 'The repository was renamed or moved. Connect it again.')
    const read = shape.safeParse(response.data)
    if (read.success) return read.data
    throw new GithubError('unavailable', 'GitHub sent a response that Inlay doesn’t understand', { cause: read.error })
  }

  /** Authenticates as the app itself, which can only see its installations. */
  async function asApp({ app_id, private_key }: AppCredentials): Promise<string> {
    const now = Math.floor(clock() / 1000)
    // A minute in the past, because GitHub's clock may be behind.
    const token = new SignJWT().setProtectedHeader({ alg: 'RS256' }).setIssuer(String(app_id))
    return `Bearer ${await token
      .setIssuedAt(now - 60)
      .setExpirationTime(now + 540)
      .sign(createPrivateKey(private_key))}`
  }

  /** Authenticates as the app in the installation, for reading only. */
  async function asInstallation(
    app: AppCredentials,
    installation_id: number,
    limits: Control & { repository_ids?: number[] } = {},
  ): Promise<string> {
    const { token } = await send('POST /app/installations/{installation_id}/access_tokens', Token, {
      authorization: await asApp(app),
      installation_id,
      permissions: { contents: 'read', metadata: 'read' },
      ...limits,
    })
    return `token ${token}`
  }

  async function listInstallations(
    app: AppCredentials,
    authorization: string,
  ): Promise<z.infer<typeof Installation>[]> {
    if (app.installation_id === undefined) {
      return send('GET /app/installations', z.array(Installation), { authorization, per_page: pageSize })
    }
    const { installation_id } = app
    try {
      return [await send('GET /app/installations/{installation_id}', Installation, { authorization, installation_id })]
    } catch (error) {
      if (error instanceof GithubError && error.status === 404) return []
      throw error
    }
  }

  /** Where the app is installed for a repository. */
  async function findInstallation(app: AppCredentials, fullName: string): Promise<z.infer<typeof Installation>> {
    const [owner, repo] = fullName.split('/')
    const authorization = await asApp(app)
    return send('GET /repos/{owner}/{repo}/installation', Installation, { authorization, owner, repo })
  }

  /**
   * A token for a connected repository. If the app was uninstalled and installed again, it has a new installation. An app
   * that many organizations share is no such case: a new installation isn't known to be the same organization's.
   */
  async function asConnected(
    app: AppCredentials,
    { installation_id, repository_id, full_name }: Connected,
    control: Control,
  ): Promise<{ installation_id: number; authorization: string }> {
    const limits = { repository_ids: [repository_id], ...control }
    try {
      return { installation_id, authorization: await asInstallation(app, installation_id, limits) }
    } catch (error) {
      const isGone = error instanceof GithubError && error.message === refusals[404]
      if (!isGone || app.installation_id !== undefined) throw error
      const found = await findInstallation(app, full_name)
      if (found.id === installation_id) throw error
      return { installation_id: found.id, authorization: await asInstallation(app, found.id, limits) }
    }
  }

  /** The user's token has done its work. Otherwise GitHub would accept it for hours. */
  async function giveBack({ clientId, clientSecret }: PlatformApp, access_token: string): Promise<void> {
    try {
      await send('DELETE /applications/{client_id}/token', z.unknown(), {
        authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`,
        client_id: clientId,
        access_token,
      })
    } catch (error) {
      log.warn({ reason: (error as Error).message }, 'Could not revoke a user’s token at GitHub; it expires by itself')
    }
  }

  return {
    async describeApp(app) {
      const authorization = await asApp(app)
      const described = await send('GET /app', App, { authorization })
      const { url } = await send('GET /app/hook/config', Hook, { authorization })
      return { ...described, webhookUrl: url ?? undefined }
    },

    convertManifest: (code) => send('POST /app-manifests/{code}/conversions', Conversion, { code }),

    async listRepositories(app) {
      const authorization = await asApp(app)
      const found = await listInstallations(app, authorization)
      const active = found.filter(({ suspended_at }) => !suspended_at)
      const list: GithubRepository[] = []
      let total = 0
      for (const { id } of active.slice(0, mostInstallations)) {
        const token = await asInstallation(app, id)
        for (let page = 1; list.length < mostListed; page += 1) {
          const parameters = { authorization: token, per_page: pageSize, page }
          const { repositories, total_count } = await send('GET /installation/repositories', RepositoryPage, parameters)
          list.push(...repositories)
          if (page === 1) total += total_count
          if (repositories.length < pageSize) break
        }
      }
      return { isInstalled: active.length > 0, isComplete: list.length >= total, list: list.slice(0, mostListed) }
    },

    async findRepository(app, fullName) {
      const [owner, repo] = fullName.split('/')
      const installation = await findInstallation(app, fullName)
      // As if it weren't there: the app is installed for another organization.
      if (app.installation_id !== undefined && app.installation_id !== installation.id) throw noAccess()
      if (installation.suspended_at) throw new GithubError('refused', suspended)
      const token = await asInstallation(app, installation.id)
      const found = await send('GET /repos/{owner}/{repo}', GithubRepository, { authorization: token, owner, repo })
      return { ...found, installation_id: installation.id }
    },

    async openRepository(app, connected, control) {
      const { repository_id, full_name } = connected
      if (app.installation_id !== undefined && app.installation_id !== connected.installation_id) throw noAccess()
      const { installation_id, authorization } = await asConnected(app, connected, control)
      const [owner, repo] = full_name.split('/')
      const place = { authorization, owner, repo, ...control }
      const repository = await send('GET /repos/{owner}/{repo}', GithubRepository, place)
      if (repository.id !== repository_id) {
        throw new GithubError('refused', `${full_name} is another repository now. Connect the one you want again.`)
      }
      const ref = `heads/${repository.default_branch}`
      const { object } = await send('GET /repos/{owner}/{repo}/git/ref/{ref}', Reference, { ...place, ref })
      return {
        ...repository,
        installation_id,
        commit: object.sha,
        async listTree(tree_sha, { isRecursive } = { isRecursive: false }) {
          const { tree, truncated } = await send('GET /repos/{owner}/{repo}/git/trees/{tree_sha}', Tree, {
            ...place,
            tree_sha,
            ...(isRecursive && { recursive: '1' }),
          })
          if (truncated) {
            throw new GithubError(
              'unavailable',
              'The folder has more files than GitHub lists. Remove some from skills/.',
            )
          }
          return tree
        },
        async readBlob(file_sha) {
          const blob = await send('GET /repos/{owner}/{repo}/git/blobs/{file_sha}', Blob, { ...place, file_sha })
          const bytes = Buffer.from(blob.content, 'base64')
          if (bytes.length !== blob.size) throw new GithubError('unavailable', 'GitHub sent an incomplete file')
          return bytes
        },
      }
    },

    async findUserInstallation(app, code, installationId) {
      const { id, clientId, clientSecret } = app
      const granted = await send('POST /login/oauth/access_token', UserToken, {
        baseUrl: config.github.url,
        client_id: clientId,
        client_secret: clientSecret,
        code,
      })
      if ('error' in granted) throw new GithubError('refused', 'GitHub doesn’t accept its own code. Start again.')
      const authorization = `token ${granted.access_token}`
      try {
        for (let page = 1; page <= mostPagesOfUser; page += 1) {
          const parameters = { authorization, per_page: pageSize, page }
          const { installations } = await send('GET /user/installations', UserInstallations, parameters)
          const found = installations.find((each) => each.id === installationId && each.app_id === id)
          if (found) return { account: found.account.login }
          if (installations.length < pageSize) break
        }
        return undefined
      } finally {
        await giveBack(app, granted.access_token)
      }
    },

    close: () => safeFetch.close(),
  }
}

const noAccess = () => new GithubError('refused', refusals[404], { status: 404 })
