import { randomUUID } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { inject as injectRequest } from 'light-my-request'
import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { expect, inject, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { issueAccessToken } from '../src/accounts/access/access-tokens.ts'
import type { demoUsers } from '../src/accounts/users/demo-users.ts'
import { findUserByEmail } from '../src/accounts/users/local-accounts.ts'
import { passwordCost } from '../src/accounts/users/passwords.ts'
import { api, builtInNames } from '../src/api.ts'
import { type App, createApp } from '../src/app.ts'
import { type Capabilities, createCapabilities } from '../src/capabilities.ts'
import { type Config, readConfig } from '../src/kernel/config/config.ts'
import type { Operation } from '../src/kernel/foundation/operation.ts'
import { createService } from '../src/kernel/foundation/service.ts'
import { resources } from '../src/kernel/http/protected-resources.ts'
import { requestJob } from '../src/kernel/jobs/requests.ts'
import { beginning, type Repeated } from '../src/kernel/lib/clock.ts'
import { createLog } from '../src/kernel/lib/log.ts'
import { createSecrets } from '../src/kernel/lib/secrets.ts'
import { maintenanceConnection, serviceConnection } from '../src/kernel/stores/postgres/migrations.ts'
import { openStores, type Stores } from '../src/kernel/stores/stores.ts'
import { type Engines, testSecret } from './engines/engines.ts'

// Passwords take a few tenths of a second otherwise, in hundreds of tests. passwords.test.ts has the real cost.
Object.assign(passwordCost, { N: 2 ** 11, p: 1 })
// Otherwise the service may delete what a test has just added, such as an expired row, before the test looks at it.
beginning.withinMs = undefined

export type Email = (typeof demoUsers)[number]['email']

/** A whole service with its own database and the demo's users. Requests bypass the network. */
export interface TestService {
  service: Capabilities
  stores: Stores
  config: Config
  /** The clock of everything except the database; advance it with `clock.now += …`. */
  clock: { now: number }
  /** Returns everything that was logged. */
  logged(): string
  /** Returns the id of a demo organization. */
  organization(slug: 'demo' | 'other'): Promise<string>
  tokenFor(email: Email, slug?: 'demo' | 'other'): Promise<string>
  request(method: string, path: string, options?: RequestOptions): Promise<TestResponse>
  fetch(path: string, init?: RequestInit): Promise<Response>
  fetchRequest(request: Request): Promise<Response>
  /** The listener for a Node server. */
  listener: App['listener']
  upgrade: App['upgrade']
  drain(): void
  close(): Promise<void>
}

export interface RequestOptions {
  token?: string
  body?: unknown
  headers?: Record<string, string>
}

export interface TestResponse {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of every shape
  body: any
  headers: Headers
}

/** A configuration with a new database and a new key-value store on the current engines. */
export async function makeConfig(
  env: Record<string, string> = {},
  contents: keyof Engines['templates'] | 'bare' = 'empty',
  { inheritsGrants = false } = {},
): Promise<{ config: Config; remove: () => Promise<void> }> {
  const engines = inject('engines')
  const name = `t_${randomUUID().replaceAll('-', '')}`
  const dataDir = join(tmpdir(), `inlay-${name}`)
  mkdirSync(dataDir)
  const owner = (database: string) => engines.databaseUrl.replace('DATABASE', database)
  const template = contents === 'bare' ? 'template0' : engines.templates[contents]
  const cluster = await connectToCluster(owner('postgres'))
  // Copies the files instead of logging each page, which takes PostgreSQL half as long.
  await cluster.query(`create database ${name} template ${template} strategy file_copy`)
  // A database of the test's own may lack the roles.
  const isPrepared = inheritsGrants && !env.DATABASE_URL
  const read = readConfig({
    INLAY_DATA_DIR: dataDir,
    INLAY_SECRET: testSecret,
    DATABASE_URL: owner(name),
    ...(engines.redisUrl && { REDIS_URL: engines.redisUrl, INLAY_REDIS_PREFIX: name }),
    ...(isPrepared && { INLAY_MIGRATE_ON_START: 'off' }),
    ...env,
  })
  if (isPrepared) {
    const secrets = createSecrets(read.secrets)
    const connection = parseIntoClientConfig(owner(name))
    await inheritGrants(cluster, template, `${name}_service`, serviceConnection(connection, secrets))
    await inheritGrants(cluster, template, `${name}_maintenance`, maintenanceConnection(connection, secrets))
  }
  return {
    // The tests must not depend on whether this computer runs Ollama.
    config: { ...read, ollamaUrl: undefined },
    async remove() {
      rmSync(dataDir, { recursive: true, force: true })
      const superuser = await connectToCluster(engines.superuserUrl.replace('DATABASE', 'postgres'))
      await superuser.query(`drop database ${name} with (force)`)
    },
  }
}

/** Creates a role like the template's. The server would compare the grants of all tables, which takes longer than the copy. */
async function inheritGrants(
  cluster: pg.Client,
  template: string,
  group: string,
  { user = '', password }: pg.ClientConfig,
): Promise<void> {
  await cluster.query(`
    create role ${group} nologin in role ${group.replace(/^.*_/, `${template}_`)};
    create role ${user} login password ${pg.escapeLiteral(String(password))} in role ${group}`)
}

/** Connections to the clusters for the worker's tests. They end with the worker. */
const clusters = new Map<string, Promise<pg.Client>>()

function connectToCluster(url: string): Promise<pg.Client> {
  const client = clusters.get(url) ?? new pg.Client(url).connect()
  clusters.set(url, client)
  return client
}

/** The service's role inherits its grants from the template's, unless the test is about these. */
export async function startTestService(
  env: Record<string, string> = {},
  { inheritsGrants = true } = {},
): Promise<TestService> {
  const { config, remove } = await makeConfig(env, 'demo', { inheritsGrants })
  return startServiceOn(config, remove)
}

/** Starts a service on a database with the demo's organizations and users. */
export async function startServiceOn(config: Config, remove: () => Promise<void>): Promise<TestService> {
  const clock = { now: Date.now() }
  const lines: string[] = []
  const log = createLog('trace', new Writable({ write: (line, _, done) => done(void lines.push(String(line))) }))
  const stores = await openStores(config, { clock: () => clock.now, log, claim: 'own' })
  const publicUrl = config.publicUrl ?? 'http://localhost:8787'
  const service = await createCapabilities(
    createService(stores, { config: { ...config, publicUrl }, clock: () => clock.now, log }),
    builtInNames,
  )
  const app = await createApp(service)
  // The first connection to a new database takes the longest, and on a busy machine longer than the server would wait.
  await vi.waitFor(() => service.database.asService((sql) => sql`select 1`))

  const organizations = new Map<string, string>()
  const organization = async (slug: string) => {
    const known = organizations.get(slug)
    if (known) return known
    const people = { demo: 'admin@demo.test', other: 'admin@other.test' }
    const user = await findUserByEmail(service, people[slug as 'demo'])
    const [row] = await service.database.asUser(
      user?.id ?? '',
      (sql) => sql<{ id: string }>`select id from organizations where slug = ${slug}`,
    )
    organizations.set(slug, row?.id as string)
    return row?.id as string
  }
  const fetchRequest = (request: Request) => answerRequest(app, request)
  const fetch = (path: string, init?: RequestInit) => fetchRequest(new Request(`${publicUrl}${path}`, init))
  return {
    service,
    stores,
    config,
    clock,
    organization,
    logged: () => lines.join(''),
    drain() {
      app.drain()
      app.endConnections()
    },
    async tokenFor(email, slug) {
      const user = await findUserByEmail(service, email)
      return issueAccessToken(service, {
        userId: user?.id ?? '',
        organizationId: slug && (await organization(slug)),
        audience: Object.values(resources(publicUrl)),
        lifetimeSeconds: 3600,
      })
    },
    listener: app.listener,
    upgrade: app.upgrade,
    fetchRequest,
    fetch,
    async request(method, path, { token, body, headers = {} } = {}) {
      const response = await fetch(`/api${path}`, {
        method,
        headers: {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const answer = { status: response.status, headers: response.headers, body: await readBody(response) }
      checkAnswer(method, path, answer)
      return answer
    },
    async close() {
      await service.close()
      await stores.close()
      await remove()
    },
  }
}

/** Reads JSON Lines as an array. */
async function readBody(response: Response): Promise<TestResponse['body']> {
  if (!response.headers.get('content-type')?.startsWith('application/jsonl')) return response.json()
  return (await response.text())
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}

/** Like `fetch`, without a socket. */
async function answerRequest({ listener }: App, request: Request): Promise<Response> {
  const { pathname, search, host } = new URL(request.url)
  const answer = await injectRequest(listener as never, {
    method: request.method as 'GET',
    url: pathname + search,
    headers: { host, ...Object.fromEntries(request.headers) },
    ...(request.body && { payload: Buffer.from(await request.arrayBuffer()) }),
  })
  const headers = new Headers()
  for (const [name, value] of Object.entries(answer.headers))
    for (const each of [value].flat()) headers.append(name, String(each))
  const hasBody = request.method !== 'HEAD' && ![204, 304].includes(answer.statusCode)
  return new Response(hasBody ? new Uint8Array(answer.rawPayload) : null, { status: answer.statusCode, headers })
}

/** Starts a service for one test. Files with many tests start one in `beforeAll` instead. */
export async function useTestService(env?: Record<string, string>): Promise<TestService> {
  const service = await startTestService(env)
  onTestFinished(() => service.close())
  return service
}

/** Does repeated work once, right now. */
export async function doOnce(repeated: Repeated): Promise<void> {
  await repeated.now()
  await repeated.close()
}

/** Runs a job of an organization right now, and waits for it. */
export async function runJob(app: TestService, organizationId: string, kind: string, key = ''): Promise<void> {
  await app.service.database.asOrg(organizationId, (sql) => requestJob(sql, kind, { key }))
  await app.service.jobs.run({ organizationId, kind, key })
}

/** Checks every response against its contract, regardless of what the test checks. Additional fields fail. */
function checkAnswer(method: string, path: string, { status, body }: TestResponse): void {
  const operation = findOperation(method, path)
  if (status === 200 && operation) {
    const result = (operation.lines ? z.array(operation.response) : operation.response).safeParse(body)
    expect(result.error?.issues, `${method} ${path} returns the shape of its contract`).toBeUndefined()
  }
  if (status !== 200) {
    const { code, message, defined, status: stated } = body
    expect({ code: typeof code, message: typeof message, defined: typeof defined, stated }, 'an envelope').toEqual({
      code: 'string',
      message: 'string',
      defined: 'boolean',
      stated: status,
    })
  }
}

const operations = api.map(({ operation }) => ({
  operation,
  path: new RegExp(`^${operation.path.replace(/\{\w+\}/g, '[^/]+')}$`),
}))

function findOperation(method: string, path: string): Operation | undefined {
  const plain = path.replace(/\?.*/, '')
  return operations.find(({ operation, path }) => operation.method === method.toLowerCase() && path.test(plain))
    ?.operation
}
