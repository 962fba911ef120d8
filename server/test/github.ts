import { createHash, createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { components } from '@octokit/openapi-types'
import type { Endpoints } from '@octokit/types'
import { sign } from '@octokit/webhooks-methods'
import { jwtVerify } from 'jose'

/** The data of GitHub's successful response. */
type Data<Route extends keyof Endpoints> = Endpoints[Route]['response']['data']

interface App {
  id: number
  slug: string
  owner: string
  manifest: Manifest
  webhookSecret: string
  installationId: number | undefined
  isSuspended: boolean
  /** For an app that several owners install: where, by installation ID. */
  installations: Map<number, string>
  /** IDs of repositories that its installations were not given. */
  withheld: Set<number>
  permissions: Record<string, string>
  events: string[]
  hookUrl: string | undefined
}

interface Manifest {
  name: string
  redirect_url: string
  setup_url?: string
  hook_attributes?: { url: string }
}

interface Repository {
  id: number
  name: string
  isPrivate: boolean
  branch: string
  /** By path. A string that starts with `->` is a symbolic link. */
  files: Map<string, string | Buffer>
  commit: string
}

/** An answer in place of the usual one. `hang` never answers; `drop` closes the connection. */
type Fault = { status: number; headers?: Record<string, string>; body?: unknown } | 'hang' | 'drop'

interface Answer {
  status: number
  body: unknown
  headers?: Record<string, string>
}

const keys = generateKeyPairSync('rsa', { modulusLength: 2048 })
const pem = keys.privateKey.export({ type: 'pkcs1', format: 'pem' }) as string
const publicKey = createPublicKey(pem)
const dayMs = 24 * 3600_000

/**
 * A GitHub Enterprise Server with the parts of the REST API that Inlay uses. It keeps state, and TypeScript checks its
 * responses against octokit's types, which are generated from GitHub's description of the API.
 */
export async function startGithub() {
  const apps = new Map<number, App>()
  const codes = new Map<string, number>()
  const tokens = new Map<
    string,
    { app: App; installation: number; owner: string; repositoryIds: number[] | undefined }
  >()
  const repositories = new Map<string, Repository>()
  const objects = new Map<string, { tree: TreeItem[] } | { blob: Buffer }>()
  /** Who authorized an app with a code, or by a token: the accounts that they have access to. */
  const userCodes = new Map<string, string[]>()
  const userTokens = new Map<string, { accounts: string[]; app: App }>()
  const faults: { match: RegExp; fault: Fault; times: number }[] = []
  const asked: string[] = []
  const hooks: { match: RegExp; work: () => void }[] = []
  let lastId = 1000
  let isDown = false

  type TreeItem = { path: string; mode: string; type: string; sha: string; size?: number }

  function newNumber(): number {
    lastId += 1
    return lastId
  }

  const server = createServer((request, response) => void serve(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const apiUrl = `${url}/api/v3`

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', url)
    const body = (await request.toArray()).join('')
    const name = `${request.method} ${pathname.replace('/api/v3', '')}`
    asked.push(name)
    const fault = isDown ? ({ status: 503, body: 'Unicorn!' } as const) : takeFault(name)
    if (fault === 'hang') return
    if (fault === 'drop') return void response.destroy()
    if (!pathname.startsWith('/api/v3/')) return servePage(request, response, pathname, searchParams, body)
    const answer: Answer = fault
      ? { body: { message: 'Failed', documentation_url: '', status: String(fault.status) }, ...fault }
      : await answerApi(name, searchParams, request.headers.authorization ?? '', body)
    const hook = hooks.find(({ match }) => match.test(name))
    if (hook) hooks.splice(hooks.indexOf(hook), 1)
    hook?.work()
    const limits = { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '4999' }
    response.writeHead(answer.status, {
      'content-type': 'application/json; charset=utf-8',
      ...limits,
      ...answer.headers,
    })
    response.end(JSON.stringify(answer.body))
  }

  function takeFault(name: string): Fault | undefined {
    const found = faults.find(({ match, times }) => times > 0 && match.test(name))
    if (found) found.times -= 1
    return found?.fault
  }

  const notFound: Answer = { status: 404, body: { message: 'Not Found', documentation_url: '', status: '404' } }
  const badCredentials: Answer = {
    status: 401,
    body: { message: 'Bad credentials', documentation_url: '', status: '401' },
  }

  async function answerApi(name: string, query: URLSearchParams, authorization: string, body: string): Promise<Answer> {
    const [, code] = /^POST \/app-manifests\/([^/]+)\/conversions$/.exec(name) ?? []
    if (code) return convert(code)
    const [scheme, token = ''] = authorization.split(' ')
    if (scheme === 'Bearer') {
      const issuer = await findIssuer(token)
      const app = apps.get(issuer ?? 0)
      if (issuer === undefined) return badCredentials
      return app ? asApp(name, app, body) : { status: 404, body: { message: 'Integration not found' } }
    }
    if (scheme === 'Basic') return revokeToken(name, token, body)
    const user = userTokens.get(token)
    if (user) return name === 'GET /user/installations' ? listForUser(user.accounts) : notFound
    const granted = tokens.get(token)
    return granted && !granted.app.isSuspended && ownersOf(granted.app).some(([id]) => id === granted.installation)
      ? asInstallation(name, query, granted)
      : badCredentials
  }

  /** `DELETE /applications/{client_id}/token`. */
  function revokeToken(name: string, credentials: string, body: string): Answer {
    const { access_token } = JSON.parse(body || '{}') as { access_token: string }
    const { app } = userTokens.get(access_token) ?? {}
    if (!app || name !== `DELETE /applications/${clientIdOf(app)}/token`) return notFound
    const expected = Buffer.from(`${clientIdOf(app)}:${clientSecretOf(app)}`).toString('base64')
    if (credentials !== expected) return badCredentials
    userTokens.delete(access_token)
    return { status: 204, body: undefined }
  }

  /** The ID of the app that signed the token. */
  async function findIssuer(jwt: string): Promise<number | undefined> {
    const verified = await jwtVerify(jwt, publicKey, { algorithms: ['RS256'], clockTolerance: dayMs / 1000 }).catch(
      () => undefined,
    )
    const { iat = 0, exp = 0, iss } = verified?.payload ?? {}
    return exp - iat <= 600 ? Number(iss) : undefined
  }

  function convert(code: string): Answer {
    const app = apps.get(codes.get(code) ?? 0)
    codes.delete(code)
    if (!app) return notFound
    const data = {
      id: app.id,
      slug: app.slug,
      node_id: 'A_1',
      client_id: clientIdOf(app),
      client_secret: clientSecretOf(app),
      webhook_secret: app.webhookSecret,
      pem,
      owner: { login: app.owner } as Data<'POST /app-manifests/{code}/conversions'>['owner'],
      name: app.manifest.name,
      description: null,
      external_url: url,
      html_url: `${url}/github-apps/${app.slug}`,
      created_at: new Date().toISOString(),
      updated_at: new Date().toISOString(),
      permissions: { contents: 'read', metadata: 'read' },
      events: ['push'],
    } satisfies Data<'POST /app-manifests/{code}/conversions'>
    return { status: 201, body: data }
  }

  const ownersOf = (app: App): [id: number, owner: string][] => [
    ...(app.installationId === undefined ? [] : ([[app.installationId, app.owner]] as [number, string][])),
    ...app.installations,
  ]

  function listForUser(accounts: string[]): Answer {
    const installations = [...apps.values()].flatMap((app) =>
      ownersOf(app)
        .filter(([, owner]) => accounts.includes(owner))
        .map(([id, owner]) => ({ ...describeInstallation(app, id), account: { login: owner } })),
    )
    return { status: 200, body: { total_count: installations.length, installations } }
  }

  const describeInstallation = (app: App, id: number) =>
    ({
      id,
      app_id: app.id,
      app_slug: app.slug,
      repository_selection: 'selected',
      suspended_at: app.isSuspended ? new Date().toISOString() : null,
    }) satisfies Partial<Data<'GET /app/installations'>[number]>

  function asApp(name: string, app: App, body: string): Answer {
    const owners = ownersOf(app)
    const installed = owners.map(([id]) => describeInstallation(app, id))
    if (name === 'GET /app') {
      const { id, slug, permissions, events } = app
      const data = { id, slug, client_id: clientIdOf(app), permissions, events } satisfies Partial<Data<'GET /app'>>
      return { status: 200, body: data }
    }
    if (name === 'GET /app/hook/config') {
      const data = {
        ...(app.hookUrl && { url: app.hookUrl }),
        content_type: 'json',
        insecure_ssl: '0',
      } satisfies Data<'GET /app/hook/config'>
      return { status: 200, body: data }
    }
    if (name === 'GET /app/installations') return { status: 200, body: installed }
    const [, asked, isToken] = /^(?:GET|POST) \/app\/installations\/(\d+)(\/access_tokens)?$/.exec(name) ?? []
    const found = owners.find(([id]) => id === Number(asked))
    if (found && !isToken) return { status: 200, body: describeInstallation(app, found[0]) }
    if (found) {
      if (app.isSuspended) return { status: 403, body: { message: 'This installation has been suspended' } }
      const { repository_ids } = JSON.parse(body || '{}') as { repository_ids?: number[] }
      const existing = new Set([...repositories.values()].map(({ id }) => id))
      if (repository_ids?.some((id) => !existing.has(id) || app.withheld.has(id))) {
        const message =
          'There is at least one repository that does not exist or is not accessible to the parent installation.'
        return { status: 422, body: { message } }
      }
      const token = `ghs_${randomBytes(18).toString('hex')}`
      tokens.set(token, { app, installation: found[0], owner: found[1], repositoryIds: repository_ids })
      const data = {
        token,
        expires_at: new Date(Date.now() + 3600_000).toISOString(),
        permissions: { contents: 'read', metadata: 'read' },
        repository_selection: 'selected',
      } satisfies Data<'POST /app/installations/{installation_id}/access_tokens'>
      return { status: 201, body: data }
    }
    const [, fullName = ''] = /^GET \/repos\/(.+)\/installation$/.exec(name) ?? []
    const [id] = owners.find(([, owner]) => fullName.startsWith(`${owner}/`)) ?? []
    const repository = repositories.get(fullName)
    return repository && !app.withheld.has(repository.id) && id
      ? { status: 200, body: describeInstallation(app, id) }
      : notFound
  }

  const describeRepository = (fullName: string, { id, name, isPrivate, branch }: Repository) =>
    ({
      id,
      name,
      full_name: fullName,
      private: isPrivate,
      html_url: `${url}/${fullName}`,
      default_branch: branch,
    }) satisfies Partial<Data<'GET /repos/{owner}/{repo}'>>

  function asInstallation(
    name: string,
    query: URLSearchParams,
    { app, owner, repositoryIds }: { app: App; owner: string; repositoryIds: number[] | undefined },
  ): Answer {
    const readable = [...repositories].filter(
      ([fullName, { id }]) =>
        fullName.startsWith(`${owner}/`) && !app.withheld.has(id) && (repositoryIds?.includes(id) ?? true),
    )
    if (name === 'GET /installation/repositories') {
      const [size, at] = [Number(query.get('per_page')), Number(query.get('page')) - 1]
      const page = readable.slice(at * size, (at + 1) * size)
      const described = page.map(([fullName, repository]) => describeRepository(fullName, repository))
      return { status: 200, body: { total_count: readable.length, repositories: described } }
    }
    const [, fullName = '', rest = ''] = /^GET \/repos\/([^/]+\/[^/]+)(\/.+)?$/.exec(name) ?? []
    const repository = readable.find(([known]) => known === fullName)?.[1]
    if (!repository) return notFound
    if (rest === '') return { status: 200, body: describeRepository(fullName, repository) }
    if (repository.files.size === 0) return { status: 409, body: { message: 'Git Repository is empty.' } }
    if (decodeURIComponent(rest) === `/git/ref/heads/${repository.branch}`)
      return { status: 200, body: describeRef(repository) }
    const [, kind, sha = ''] = /^\/git\/(trees|blobs)\/(.+)$/.exec(rest) ?? []
    const object = objects.get(sha)
    if (kind === 'trees' && object && 'tree' in object) {
      const isRecursive = query.has('recursive')
      const tree = isRecursive ? object.tree.flatMap(expand) : object.tree
      const data = {
        sha,
        url: '',
        truncated: false,
        tree: tree.map((item) => ({ url: '', ...item })),
      } satisfies Data<'GET /repos/{owner}/{repo}/git/trees/{tree_sha}'>
      return { status: 200, body: data }
    }
    if (kind === 'blobs' && object && 'blob' in object) {
      const { blob } = object
      const content = blob.toString('base64').replace(/.{60}/g, '$&\n')
      const data = {
        sha,
        node_id: '',
        url: '',
        size: blob.length,
        encoding: 'base64',
        content,
      } satisfies Data<'GET /repos/{owner}/{repo}/git/blobs/{file_sha}'>
      return { status: 200, body: data }
    }
    return notFound
  }

  const describeRef = ({ branch, commit }: Repository) =>
    ({
      ref: `refs/heads/${branch}`,
      node_id: '',
      url: '',
      object: { type: 'commit', sha: commit, url: '' },
    }) satisfies Data<'GET /repos/{owner}/{repo}/git/ref/{ref}'>

  /** The entries below a folder, as GitHub lists them. */
  function expand(item: TreeItem): TreeItem[] {
    const object = objects.get(item.sha)
    if (item.type !== 'tree' || !object || !('tree' in object)) return [item]
    return [item, ...object.tree.flatMap(expand).map((below) => ({ ...below, path: `${item.path}/${below.path}` }))]
  }

  const store = (kind: string, bytes: Buffer, object: { tree: TreeItem[] } | { blob: Buffer }): string => {
    const sha = createHash('sha1').update(`${kind} ${bytes.length}\0`).update(bytes).digest('hex')
    objects.set(sha, object)
    return sha
  }

  function storeTree(files: readonly (readonly [string, string | Buffer])[]): string {
    const byName = Map.groupBy(files, ([path]) => path.split('/')[0] ?? '')
    const tree = [...byName].map(([path, inside]): TreeItem => {
      const [[whole, content] = ['', '']] = inside
      if (whole !== path) {
        const below = inside.map(([each, text]) => [each.slice(path.length + 1), text] as const)
        return { path, mode: '040000', type: 'tree', sha: storeTree(below) }
      }
      const blob = Buffer.from(content)
      const mode = String(content).startsWith('->') ? '120000' : '100644'
      return { path, mode, type: 'blob', sha: store('blob', blob, { blob }), size: blob.length }
    })
    return store('tree', Buffer.from(JSON.stringify(tree)), { tree })
  }

  /** The pages on which users confirm an app, and install it. */
  function servePage(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
    body: string,
  ): void {
    const form = new URLSearchParams(body)
    const show = (title: string, fields: Record<string, string>, button: string) => {
      const inputs = Object.entries(fields).map(
        ([name, value]) => `<input type="hidden" name="${name}" value="${Buffer.from(value).toString('hex')}">`,
      )
      response.setHeader('content-type', 'text/html; charset=utf-8')
      response.end(
        `<!doctype html><title>${title}</title><h1>${title}</h1><form method="post" action="?">${inputs.join('')}<button>${button}</button></form>`,
      )
    }
    const read = (name: string) => Buffer.from(form.get(name) ?? '', 'hex').toString()
    const goTo = (to: string) => response.writeHead(302, { location: to }).end()
    const [, owner] = /^\/organizations\/([^/]+)\/settings\/apps\/new$/.exec(path) ?? []
    const [, slug] = /^\/github-apps\/([^/]+)\/installations\/new$/.exec(path) ?? []
    const app = [...apps.values()].find((each) => each.slug === slug)
    if (owner && form.has('manifest')) {
      const fields = { owner, text: form.get('manifest') ?? '', state: query.get('state') ?? '' }
      show('Create GitHub App', fields, 'Create GitHub App')
    } else if (owner && form.has('text')) {
      const manifest = JSON.parse(read('text')) as Manifest
      const answer = new URLSearchParams({ code: register(manifest, owner), state: read('state') })
      goTo(`${manifest.redirect_url}?${answer}`)
    } else if (path === '/login/oauth/authorize') {
      const answer = new URLSearchParams({ code: authorize(['acme']), state: query.get('state') ?? '' })
      goTo(`${query.get('redirect_uri')}?${answer}`)
    } else if (path === '/login/oauth/access_token') {
      const sent = JSON.parse(body) as { client_id: string; client_secret: string; code: string }
      const known = [...apps.values()].find((each) => sent.client_secret === clientSecretOf(each))
      const accounts = known ? userCodes.get(sent.code) : undefined
      userCodes.delete(sent.code)
      const token = `ghu_${randomBytes(18).toString('hex')}`
      if (known && accounts) userTokens.set(token, { accounts, app: known })
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(accounts ? { access_token: token } : { error: 'bad_verification_code' }))
    } else if (app && request.method === 'GET')
      show('Install', { slug: app.slug, state: query.get('state') ?? '' }, 'Install')
    else if (app && form.get('state')) {
      const answer = { installation_id: String(installFor(app, 'acme')), setup_action: 'install', state: read('state') }
      goTo(`${app.manifest.setup_url}?${new URLSearchParams(answer)}`)
    } else if (app)
      goTo(`${app.manifest.setup_url}?installation_id=${install(app.id).installationId}&setup_action=install`)
    else response.writeHead(404).end()
  }

  /** As if a user had confirmed the manifest. Returns the code that the browser brings back. */
  function register(manifest: Manifest, owner: string): string {
    const id = newNumber()
    apps.set(id, {
      id,
      slug: manifest.name.toLowerCase(),
      owner,
      manifest,
      webhookSecret: randomBytes(20).toString('hex'),
      installationId: undefined,
      isSuspended: false,
      installations: new Map(),
      withheld: new Set(),
      permissions: { contents: 'read', metadata: 'read' },
      events: ['push'],
      hookUrl: manifest.hook_attributes?.url,
    })
    const code = randomBytes(20).toString('hex')
    codes.set(code, id)
    return code
  }

  const clientIdOf = ({ id }: App) => `Iv23.${id}`

  const clientSecretOf = ({ id }: App) => `client-secret-${id}-abcd`

  /** As if a user with access to these accounts had authorized an app. Returns the code that the browser brings back. */
  function authorize(accounts: string[]): string {
    const code = randomBytes(10).toString('hex')
    userCodes.set(code, accounts)
    return code
  }

  /** As if an owner of the account had installed an app that isn't theirs. */
  function installFor(app: App, account: string): number {
    const id = newNumber()
    app.installations.set(id, account)
    return id
  }

  function install(appId: number): App {
    const app = apps.get(appId) as App
    app.installationId ??= newNumber()
    return app
  }

  const fullNameOf = (repository: Repository) => [...repositories].find(([, each]) => each === repository)?.[0] ?? ''

  return {
    url,
    apiUrl,
    apps,
    register,
    install,
    /** As if an owner had uninstalled the app. */
    uninstall(app: App): void {
      app.installationId = undefined
    },
    /** Tokens of users that were not given back. */
    userTokens: () => userTokens.size,
    authorize,
    installFor,
    /** The settings of an app that the operator registered by hand. */
    platformApp(setupUrl = '') {
      const code = register({ name: 'inlay', redirect_url: '', setup_url: setupUrl }, 'operator')
      const app = apps.get(codes.get(code) ?? 0) as App
      const settings = {
        INLAY_GITHUB_APP_ID: String(app.id),
        INLAY_GITHUB_APP_SLUG: app.slug,
        INLAY_GITHUB_APP_CLIENT_ID: clientIdOf(app),
        INLAY_GITHUB_APP_CLIENT_SECRET: clientSecretOf(app),
        INLAY_GITHUB_APP_PRIVATE_KEY: pem,
        INLAY_GITHUB_APP_WEBHOOK_SECRET: app.webhookSecret,
      }
      return { app, settings }
    },
    /** Every request, as `GET /path`. */
    asked,
    setDown(down: boolean) {
      isDown = down
    },
    /** Answers the next requests that match differently. */
    fail(match: RegExp, fault: Fault, times = 1) {
      faults.push({ match, fault, times })
    },
    /** Does something once, after a request that matches was handled and before its response is sent. */
    beforeResponse(match: RegExp, work: () => void) {
      hooks.push({ match, work })
    },
    stopFailing: () => void faults.splice(0),
    createRepository(fullName: string, files: Record<string, string | Buffer> = {}): Repository {
      const repository: Repository = {
        id: newNumber(),
        name: fullName.split('/')[1] ?? '',
        isPrivate: true,
        branch: 'main',
        files: new Map(),
        commit: '',
      }
      repositories.set(fullName, repository)
      this.push(repository, files)
      return repository
    },
    /** Commits to the default branch. Null deletes a file. */
    push(repository: Repository, changes: Record<string, string | Buffer | null>): void {
      for (const [path, content] of Object.entries(changes)) {
        if (content === null) repository.files.delete(path)
        else repository.files.set(path, content)
      }
      const tree = storeTree([...repository.files])
      repository.commit = createHash('sha1').update(`${repository.commit}${tree}`).digest('hex')
      const object = objects.get(tree)
      if (object) objects.set(repository.commit, object)
    },
    rename(from: string, to: string): void {
      const repository = repositories.get(from) as Repository
      repositories.delete(from)
      repositories.set(to, repository)
    },
    /** What GitHub sends to the app's webhook after a push. */
    async pushDelivery(app: App, repository: Repository, ref = `refs/heads/${repository.branch}`) {
      const payload = {
        ref,
        after: repository.commit,
        repository: describeRepository(
          fullNameOf(repository),
          repository,
        ) as components['schemas']['webhook-push']['repository'],
        installation: {
          id: ownersOf(app).find(([, owner]) => fullNameOf(repository).startsWith(`${owner}/`))?.[0] ?? 0,
          node_id: '',
        },
      } satisfies Partial<components['schemas']['webhook-push']>
      return this.delivery(app, 'push', payload)
    },
    delivery(app: App, event: string, payload: object) {
      return this.deliverText(app, event, JSON.stringify(payload))
    },
    async deliverText(app: App, event: string, body: string) {
      return {
        method: 'POST',
        body,
        headers: {
          'content-type': 'application/json',
          'x-github-event': event,
          'x-github-delivery': String(crypto.randomUUID()),
          'x-hub-signature-256': await sign(app.webhookSecret, body),
        },
      }
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export type LocalGithub = Awaited<ReturnType<typeof startGithub>>
