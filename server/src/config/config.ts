import { randomBytes } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import ipaddr from 'ipaddr.js'
import { type Plan, readPlanFile, shippedPlanFile } from './plan-file.ts'

/**
 * The only reader of the environment. Every setting is described where it is defined; docs/configuration.md is
 * rendered from this table.
 */
export const settings = {
  PORT: {
    default: '8787',
    parse: integer(0, 65535),
    text: 'Port to listen on. `0` picks a free one. In development the examples use the four ports after it: the shop 8788, its identity provider 8789, the tool server 8790 and the service behind it 8791. An example whose port is taken gets a free one.',
  },
  INLAY_LISTEN: {
    parse: address,
    text: 'IP address to listen on, for example `0.0.0.0` or `::` for every interface. Default: every interface in production; in development only this computer (`127.0.0.1` and `::1`), because anybody who reaches a development server can sign in as a demo user. In a container, development needs `0.0.0.0`.',
  },
  INLAY_DRAIN_SECONDS: {
    parse: integer(0, 600),
    text: 'How long a server that was told to stop keeps accepting connections. `/readyz` answers 503 from the start, so load balancers have this long to notice. Default: 5 in production, 0 in development. Requests on connections that are open are answered either way.',
  },
  INLAY_PUBLIC_URL: {
    parse: publicUrl,
    text: 'The one origin under which browsers and clients reach the service, for example `https://inlay.example.com`. Without it the service runs in development: demo data, local sign-in, `http://localhost:<PORT>`. With an https URL it runs in production. Generated addresses come from here alone, never from request headers.',
  },
  INLAY_DATA_DIR: {
    default: './.inlay',
    parse: (text: string) => resolve(text),
    text: 'Folder for everything the service keeps on this machine: its PostgreSQL, its key-value store and, in development, its secret.',
  },
  DATABASE_URL: {
    parse: url('postgres:', 'postgresql:'),
    secret: true,
    text: 'PostgreSQL 15 or newer, as the role that owns the schema; it needs `CREATEROLE`, because the service itself connects as a role of its own that owns nothing. Without it an embedded PostgreSQL runs under the data folder.',
  },
  REDIS_URL: {
    parse: url('redis:', 'rediss:', 'unix:'),
    secret: true,
    text: 'Redis or Valkey for sessions, tickets, caches and messages between nodes. Needed as soon as there is more than one node. Without it a file under the data folder serves.',
  },
  INLAY_REDIS_PREFIX: {
    default: 'inlay',
    parse: (text: string) => text,
    text: 'What the names of keys and channels in Redis start with, where several installations share one.',
  },
  INLAY_SECRET: {
    parse: secretList,
    secret: true,
    text: 'Root of encryption and signing, at least 32 random characters (`openssl rand -base64 32`). Required in production; in development one is made in the data folder. To rotate, put the new secret in front, separated by a comma (`new,old`), restart every node, run `npx inlay secret rotate`, then drop the old one.',
  },
  INLAY_ALLOWED_PRIVATE_NETWORKS: {
    parse: cidrList,
    text: 'Comma-separated CIDRs of private networks that outbound calls to addresses chosen by administrators may reach. The metadata addresses of clouds, such as 169.254.169.254, are not part of a wider network and have to be listed themselves. Default: none in production, loopback in development.',
  },
  INLAY_TRUSTED_PROXIES: {
    parse: cidrList,
    text: 'Comma-separated CIDRs of the reverse proxies in front of this server, for example `10.0.0.0/8`. `X-Forwarded-For` is read from these alone; every other client is known by the address that it connects from. Without this setting all clients behind a proxy count as one where sign-ins are limited by address.',
  },
  INLAY_MCP_ALLOWED_ORIGINS: {
    parse: originList,
    text: 'Comma-separated origins of web pages that may call `/mcp` from a browser, for example `https://app.example.com`. Pages of the public URL always may, and in development pages on loopback addresses.',
  },
  INLAY_CLIENT_METADATA_DOCUMENTS: {
    default: 'auto',
    parse: oneOf('auto', 'on', 'off'),
    text: 'Whether OAuth clients can identify themselves by the https address of their metadata document, which the server then has to fetch from the internet. Clients that see this offered often don’t fall back to registration when the fetch fails. `off`: not offered, and nothing is fetched; for networks without egress. `on`: always offered. `auto`: offered, but not for a day after a document couldn’t be fetched because of the network, unless another one was fetched within the last day.',
  },
  SIGN_IN_ISSUER: {
    parse: url('https:', 'http:'),
    text: 'OIDC issuer of the people who administer organizations, exactly as its discovery document names it. With `SIGN_IN_CLIENT_ID` people sign in there, with `SIGN_IN_AUDIENCE` its own access tokens are accepted; at least one of the two is required with it.',
  },
  SIGN_IN_CLIENT_ID: {
    parse: (text: string) => text,
    text: 'Client of this installation at `SIGN_IN_ISSUER`, registered with the redirect URI `<INLAY_PUBLIC_URL>/sign-in/callback`. People then sign in there, and passwords of this installation are no longer accepted.',
  },
  SIGN_IN_CLIENT_SECRET: {
    parse: (text: string) => text,
    secret: true,
    text: 'Secret of `SIGN_IN_CLIENT_ID`. Left out for a public client, which PKCE protects alone.',
  },
  SIGN_IN_AUDIENCE: {
    parse: (text: string) => text,
    text: 'Audience under which access tokens of `SIGN_IN_ISSUER` are accepted beside the built-in ones. Their users are known from their first request on. Not the client id: ID tokens would pass for access tokens.',
  },
  INLAY_PLANS_FILE: {
    parse: (text: string) => readPlanFile(resolve(text)),
    text: 'JSON file with the plans that organizations can be on, in place of `server/plans.json`, which shows its form. Limits of 0 are unlimited; `product_id` is the billing provider’s product that buys the plan. One plan must have the id `free`: it is for organizations without a subscription.',
  },
  INLAY_LOG_LEVEL: {
    default: 'info',
    parse: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    text: 'Least severe log line that is written (JSON, standard output).',
  },
  INLAY_METRICS_TOKEN: {
    parse: (text: string) => text,
    secret: true,
    text: 'Bearer token that `GET /metrics` asks for. Without it metrics are open in development and absent in production.',
  },
} as const satisfies Record<string, Setting<unknown>>

export interface Setting<T> {
  default?: string
  parse: (text: string) => T
  text: string
  secret?: boolean
}

export interface Config {
  mode: 'development' | 'production'
  port: number
  /** Undefined for every interface, or `localhost` for both loopback addresses. */
  listen: string | undefined
  drainSeconds: number
  /** Undefined in development with a port still to be picked; `main.ts` fills it in. */
  publicUrl: string | undefined
  dataDir: string
  databaseUrl: string | undefined
  redisUrl: string | undefined
  redisPrefix: string
  /** Newest first: the first encrypts and signs, all decrypt and verify. */
  secrets: readonly string[]
  allowedPrivateNetworks: readonly string[]
  /** Whose `X-Forwarded-For` counts. */
  trustedProxies: readonly string[]
  /** Origins of web pages that may call `/mcp` beside our own. */
  mcpAllowedOrigins: readonly string[]
  clientMetadataDocuments: 'auto' | 'on' | 'off'
  /** Whose access tokens are accepted beside the built-in ones. */
  signIn: { issuer: string; audience: string } | undefined
  /** Where people sign in; without it they have passwords here. */
  signInClient: { issuer: string; id: string; secret: string | undefined } | undefined
  plans: readonly Plan[]
  logLevel: (typeof settings)['INLAY_LOG_LEVEL']['parse'] extends (text: string) => infer Level ? Level : never
  metricsToken: string | undefined
}

/** A configuration the service refuses to run with; the message says what to change. */
export class InvalidConfig extends Error {
  override name = 'InvalidConfig'
}

type Env = Record<string, string | undefined>

export function readConfig(env: Env = process.env, { mustExist = false } = {}): Config {
  const read = <Name extends keyof typeof settings>(name: Name) => {
    const setting: Setting<unknown> = settings[name]
    const text = env[name]?.trim() || setting.default
    if (text === undefined) return undefined
    try {
      return setting.parse(text) as ReturnType<(typeof settings)[Name]['parse']>
    } catch (cause) {
      throw new InvalidConfig(`${name} ${(cause as Error).message}`, { cause })
    }
  }
  const given = <Name extends keyof typeof settings>(name: Name) =>
    read(name) as NonNullable<ReturnType<typeof read<Name>>>

  const publicUrl = read('INLAY_PUBLIC_URL')
  const mode = publicUrl?.startsWith('https:') ? 'production' : 'development'
  const dataDir = given('INLAY_DATA_DIR')
  const databaseUrl = read('DATABASE_URL')
  const secrets = read('INLAY_SECRET')
  if (mustExist) {
    requireData(dataDir, [
      ...(secrets || mode === 'production' ? [] : ['secret']),
      ...(databaseUrl ? [] : ['postgres']),
    ])
  }
  return {
    mode,
    port: given('PORT'),
    listen: read('INLAY_LISTEN') ?? (mode === 'development' ? 'localhost' : undefined),
    drainSeconds: read('INLAY_DRAIN_SECONDS') ?? (mode === 'development' ? 0 : 5),
    publicUrl,
    dataDir,
    databaseUrl,
    redisUrl: read('REDIS_URL'),
    redisPrefix: given('INLAY_REDIS_PREFIX'),
    secrets: secrets ?? secretOfDataFolder(dataDir, mode),
    allowedPrivateNetworks:
      read('INLAY_ALLOWED_PRIVATE_NETWORKS') ?? (mode === 'development' ? ['127.0.0.0/8', '::1/128'] : []),
    trustedProxies: read('INLAY_TRUSTED_PROXIES') ?? [],
    mcpAllowedOrigins: read('INLAY_MCP_ALLOWED_ORIGINS') ?? [],
    clientMetadataDocuments: given('INLAY_CLIENT_METADATA_DOCUMENTS'),
    ...readSignIn({
      mode,
      issuer: read('SIGN_IN_ISSUER'),
      id: read('SIGN_IN_CLIENT_ID'),
      secret: read('SIGN_IN_CLIENT_SECRET'),
      audience: read('SIGN_IN_AUDIENCE'),
    }),
    plans: read('INLAY_PLANS_FILE') ?? readPlanFile(shippedPlanFile),
    logLevel: given('INLAY_LOG_LEVEL'),
    metricsToken: read('INLAY_METRICS_TOKEN'),
  }
}

/** For commands that need an existing installation: in an empty data folder they fail instead of creating one. */
export const readExistingConfig = (env: Env = process.env): Config => readConfig(env, { mustExist: true })

function requireData(dataDir: string, names: readonly string[]): void {
  if (names.every((name) => existsSync(join(dataDir, name)))) return
  throw new InvalidConfig(
    `No Inlay server has used the data folder ${dataDir}. Run the command in the server's folder, or set INLAY_DATA_DIR to the server's data folder.`,
  )
}

/** A sentence for each variable that looks like one of our settings and isn't. */
export function describeUnknownSettings(env: Env = process.env): string[] {
  return Object.entries(env)
    .filter(([name, value]) => /^(INLAY|SIGN_IN)_/.test(name) && !(name in settings) && !isFromKubernetes(name, value))
    .map(([name]) => {
      const closest = closestSetting(name)
      return `${name} is not a setting and has no effect. ${closest ? `Did you mean ${closest}?` : 'docs/configuration.md lists the settings.'}`
    })
}

/** Kubernetes sets such variables in every pod for each service, and a service may well be called `inlay`. */
const isFromKubernetes = (name: string, value = ''): boolean =>
  value.startsWith('tcp://') || /_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP)/.test(name)

function closestSetting(name: string): string | undefined {
  const spellings = [name, name.replace(/^INLAY_/, ''), name.replace(/^SIGN_IN_/, 'INLAY_')]
  const ranked = Object.keys(settings)
    .map((setting) => ({ setting, edits: Math.min(...spellings.map((spelling) => editDistance(spelling, setting))) }))
    .sort((a, b) => a.edits - b.edits)
  const [best] = ranked
  return best && best.edits <= 3 ? best.setting : undefined
}

/** How many letters have to be inserted, removed or replaced to turn one word into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...to].entries()) {
      next.push(Math.min((row[j] ?? 0) + (letter === other ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}

function readSignIn({
  mode,
  issuer,
  id,
  secret,
  audience,
}: {
  mode: Config['mode']
  issuer: string | undefined
  id: string | undefined
  secret: string | undefined
  audience: string | undefined
}): Pick<Config, 'signIn' | 'signInClient'> {
  if (secret && !id) throw new InvalidConfig('SIGN_IN_CLIENT_SECRET is set, but SIGN_IN_CLIENT_ID is not')
  if (!issuer) {
    const lonely = id ? 'SIGN_IN_CLIENT_ID' : audience && 'SIGN_IN_AUDIENCE'
    if (lonely) throw new InvalidConfig(`${lonely} is set, but SIGN_IN_ISSUER is not`)
    return { signIn: undefined, signInClient: undefined }
  }
  if (!id && !audience) {
    throw new InvalidConfig(
      'SIGN_IN_ISSUER needs SIGN_IN_CLIENT_ID, so that people sign in there, or SIGN_IN_AUDIENCE, so that its access tokens are accepted, or both',
    )
  }
  if (id === audience) {
    throw new InvalidConfig('SIGN_IN_AUDIENCE must not be SIGN_IN_CLIENT_ID: ID tokens would pass for access tokens')
  }
  if (issuer.startsWith('http:') && mode === 'production') {
    throw new InvalidConfig('SIGN_IN_ISSUER must be an https URL in production')
  }
  return { signIn: audience ? { issuer, audience } : undefined, signInClient: id ? { issuer, id, secret } : undefined }
}

/** On one machine in development nobody should have to think of a secret; in production somebody must. */
function secretOfDataFolder(dataDir: string, mode: Config['mode']): readonly string[] {
  if (mode === 'production') {
    throw new InvalidConfig(
      'INLAY_SECRET is missing. Production needs a secret that you keep: INLAY_SECRET="$(openssl rand -base64 32)"',
    )
  }
  const file = join(dataDir, 'secret')
  prepareDataFolder(dataDir)
  try {
    if (!existsSync(file)) makeSecret(file)
    return secretList(readFileSync(file, 'utf8').trim())
  } catch (cause) {
    throw new InvalidConfig(`The secret in ${file} cannot be used: ${(cause as Error).message}`, { cause })
  }
}

/** Creates the data folder if it is missing, and checks that this user can write to it. */
export function prepareDataFolder(dataDir: string): void {
  try {
    makeFolder(dataDir)
    if (!statSync(dataDir).isDirectory()) throw new Error('it is not a folder')
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw new InvalidConfig(`INLAY_DATA_DIR is ${dataDir}, which cannot be used: ${(cause as Error).message}`, {
      cause,
    })
  }
}

/** One level at a time, because Node's `recursive` never returns below /proc, where nothing can be created. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path)
  } catch (error) {
    // Another process created it in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Of two processes that start at once one makes the secret, and the other never sees half of it. */
function makeSecret(file: string): void {
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(draft)
  }
}

/** Where programs of a person keep what is theirs: no setting of the service, but read from the environment all the same. */
export const personalFolder = (): string => process.env.XDG_CONFIG_HOME || join(homedir(), '.config')

function integer(min: number, max: number) {
  return (text: string): number => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new Error(`must be a whole number from ${min} to ${max}, not "${text}"`)
    }
    return value
  }
}

function address(text: string): string {
  if (!ipaddr.isValid(text) || (ipaddr.IPv4.isIPv4(text) && !ipaddr.IPv4.isValidFourPartDecimal(text))) {
    throw new Error(`must be an IP address such as 127.0.0.1, 0.0.0.0 or ::, not "${text}"`)
  }
  return text
}

function oneOf<const Words extends readonly string[]>(...words: Words) {
  return (text: string): Words[number] => {
    if (!words.includes(text)) throw new Error(`must be one of ${words.join(', ')}, not "${text}"`)
    return text
  }
}

function url(...protocols: string[]) {
  return (text: string): string => {
    // The text itself may hold a password, so the message leaves it out.
    if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol)) {
      throw new Error(`must be a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`)
    }
    return text
  }
}

function publicUrl(text: string): string {
  const parsed = URL.canParse(text) ? new URL(text) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol) || `${parsed.origin}/` !== parsed.href) {
    throw new Error(
      `must be an origin such as https://inlay.example.com, without a path${text.includes('@') ? '' : `, not "${text}"`}`,
    )
  }
  const isLocal = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(parsed.hostname)
  if (parsed.protocol === 'http:' && !isLocal) {
    throw new Error('must be https, unless it is on localhost: tokens would travel in the clear')
  }
  return parsed.origin
}

function secretList(text: string): readonly string[] {
  const list = text.split(',').map((secret) => secret.trim())
  for (const secret of list) {
    if (secret.length < 32 || new Set(secret).size < 10) {
      throw new Error('must be at least 32 random characters; make one with: openssl rand -base64 32')
    }
    if (/change.?me|default|example|your.?secret|password/i.test(secret)) {
      throw new Error('looks like a placeholder; make one with: openssl rand -base64 32')
    }
  }
  return list
}

function splitList(text: string): string[] {
  const parts = text.split(',').map((part) => part.trim())
  return parts.filter(Boolean)
}

function originList(text: string): readonly string[] {
  return splitList(text).map((each) => {
    const parsed = URL.parse(each)
    if (!parsed || !/^https?:$/.test(parsed.protocol) || `${parsed.origin}/` !== parsed.href) {
      throw new Error(`must be origins such as https://app.example.com, without a path, not "${each}"`)
    }
    return parsed.origin
  })
}

function cidrList(text: string): readonly string[] {
  const list = splitList(text)
  for (const cidr of list) {
    if (!ipaddr.isValidCIDR(cidr)) throw new Error(`must be CIDRs such as 10.0.0.0/8, not "${cidr}"`)
  }
  return list
}
