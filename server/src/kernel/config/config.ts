import { createPrivateKey, randomBytes } from 'node:crypto'
import { Resolver } from 'node:dns'
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
import { isId } from '../lib/ids.ts'
import { type Plan, readPlanFile, shippedPlanFile } from './plan-file.ts'
import { type ModelPrice, readPriceFile } from './price-file.ts'

/** Used without MODEL_NAME. */
const defaultModels = { anthropic: 'claude-sonnet-5-5', openai: 'gpt-5.4-mini' }

/**
 * The only reader of the environment. Every setting is described where it is defined; docs/configuration.md is
 * rendered from this table.
 */
export const settings = {
  PORT: {
    default: '8787',
    parse: integer(0, 65535),
    text: 'Port to listen on. `0` picks a free one. In development, the examples use the next four ports: 8788 for the shop, 8789 for its identity provider, 8790 for the tool server and 8791 for the service behind it. If a port is taken, the example uses a free one.',
  },
  INLAY_LISTEN: {
    parse: address,
    text: 'IP address to listen on, for example `0.0.0.0` or `::` for every interface. Default: every interface in production; in development, only this computer (`127.0.0.1` and `::1`), because anyone who can reach a development server can sign in as a demo user. In a container, development needs `0.0.0.0`.',
  },
  INLAY_DRAIN_SECONDS: {
    parse: integer(0, 600),
    text: 'How long the server keeps accepting connections after it receives a signal to stop. `/readyz` returns 503 immediately, so load balancers have this long to notice. From 0 to 600. Default: 5 in production, 0 in development. Requests on open connections are completed either way.',
  },
  INLAY_PUBLIC_URL: {
    parse: publicUrl,
    text: 'Origin at which browsers and clients reach the server, for example `https://inlay.example.com`. Without it, the server runs in development mode: with demo data and local sign-in, at `http://localhost:<PORT>`. With an https URL, it runs in production mode. Generated URLs always use this origin, never request headers.',
  },
  INLAY_DATA_DIR: {
    default: './.inlay',
    parse: (text: string) => resolve(text),
    text: 'Folder for everything the server stores on this machine: the embedded PostgreSQL, the key-value store and, in development, the secret.',
  },
  DATABASE_URL: {
    parse: url('postgres:', 'postgresql:'),
    secret: true,
    text: 'URL of a PostgreSQL database, version 15 or newer. Its role owns the schema and needs `CREATEROLE`: the server creates roles that own nothing, and connects with those. Without this setting, an embedded PostgreSQL runs in the data folder.',
  },
  DATABASE_POOL_SIZE: {
    default: '10',
    parse: integer(4, 1_000),
    text: 'Maximum number of connections to PostgreSQL, from 4 to 1000. The server opens one more for its readiness probe, and a few for its start and for maintenance. All nodes together must stay below PostgreSQL’s `max_connections`. An organization can use up to 70 % of the connections of a node at the same time, its anonymous visitors 20 %, and all anonymous visitors 50 %.',
  },
  INLAY_MIGRATE_ON_START: {
    default: 'on',
    parse: oneOf('on', 'off'),
    text: 'Whether the server migrates the database when it starts. With `off`, it never uses the role in `DATABASE_URL`, which then needs no user and no password, and it only starts if `npx inlay migrate` has been run with the role that owns the schema. The embedded PostgreSQL is always migrated. See [operations.md](operations.md#without-the-owners-password).',
  },
  INLAY_KEEP_USAGE_MONTHS: {
    parse: integer(1, 1_200),
    text: 'For how many months before the current one to keep usage events. Older months are deleted for good; the sums per day, end user, site and model stay. By default, all are kept. See [operations.md](operations.md#tables-that-grow).',
  },
  INLAY_KEEP_TOOL_CALL_MONTHS: {
    parse: integer(1, 1_200),
    text: 'For how many months before the current one to keep the records of tool calls. By default, all are kept.',
  },
  INLAY_KEEP_AUDIT_MONTHS: {
    parse: integer(1, 1_200),
    text: 'For how many months before the current one to keep audit events. Export them first; the rest of each trail stays verifiable. By default, all are kept. See [audit.md](audit.md#dropping-old-months).',
  },
  REDIS_URL: {
    parse: url('redis:', 'rediss:', 'unix:'),
    secret: true,
    text: 'URL of a Redis or Valkey for sessions, tickets, caches and messages between nodes. Required for more than one node. Without it, a file in the data folder is used.',
  },
  INLAY_REDIS_PREFIX: {
    default: 'inlay',
    parse: (text: string) => text,
    text: 'Prefix of keys and channels in Redis. Set it if several installations share one Redis.',
  },
  INLAY_SECRET: {
    parse: secretList,
    secret: true,
    text: 'Secret for encryption and signing, at least 32 random characters (`openssl rand -base64 32`). Required in production; in development, one is generated in the data folder. To rotate it, put the new secret in front, separated by a comma (`new,old`), restart every node, run `npx inlay secret rotate`, and then remove the old one.',
  },
  INLAY_ALLOWED_PRIVATE_NETWORKS: {
    parse: cidrList,
    text: 'Comma-separated CIDRs of private networks that the server may call when an administrator enters an address in them. Cloud metadata addresses, such as 169.254.169.254, are never included in a larger network and must be listed explicitly. Default: none in production, loopback in development.',
  },
  INLAY_TRUSTED_PROXIES: {
    parse: cidrList,
    text: 'Comma-separated CIDRs of the reverse proxies in front of this server, for example `10.0.0.0/8`. The server trusts `X-Forwarded-For` only from these; any other client is identified by the address it connects from. Without this setting, all clients behind a proxy share one limit for sign-ins.',
  },
  INLAY_DNS_SERVERS: {
    parse: dnsServerList,
    text: 'Comma-separated IP addresses of the DNS servers that the server asks for the records that prove organizations’ email domains, for example `10.0.0.2` or `10.0.0.2:5353`. Default: those of the operating system.',
  },
  INLAY_MCP_ALLOWED_ORIGINS: {
    parse: originList,
    text: 'Comma-separated origins of web pages that may call `/mcp` from a browser, for example `https://app.example.com`. Pages on the public URL are always allowed and, in development, pages on loopback addresses.',
  },
  INLAY_CLIENT_METADATA_DOCUMENTS: {
    default: 'auto',
    parse: oneOf('auto', 'on', 'off'),
    text: 'Whether OAuth clients can identify themselves by the https URL of their metadata document, which the server fetches from the internet. Clients that see this offered often don’t fall back to registration when the fetch fails. `off`: not offered, and nothing is fetched; for networks without egress. `on`: always offered. `auto`: offered, except for one day after a fetch failed because of the network and no other document was fetched within the last day.',
  },
  SIGN_IN_ISSUER: {
    parse: url('https:', 'http:'),
    text: 'Issuer URL of the sign-in provider, exactly as in its discovery document. It needs at least one of two settings: with `SIGN_IN_CLIENT_ID`, users sign in there; with `SIGN_IN_AUDIENCE`, Inlay accepts its access tokens.',
  },
  SIGN_IN_CLIENT_ID: {
    parse: (text: string) => text,
    text: 'Client ID of this installation at `SIGN_IN_ISSUER`. Register the client with the redirect URI `<INLAY_PUBLIC_URL>/sign-in/callback`. Users then sign in there, and local passwords are no longer accepted.',
  },
  SIGN_IN_CLIENT_SECRET: {
    parse: (text: string) => text,
    secret: true,
    text: 'Client secret for `SIGN_IN_CLIENT_ID`. Omit it for a public client, which is protected by PKCE only.',
  },
  SIGN_IN_AUDIENCE: {
    parse: (text: string) => text,
    text: 'Audience of access tokens from `SIGN_IN_ISSUER` that Inlay accepts in addition to its own. A user is created on their first request. It must differ from the client ID, because ID tokens would otherwise pass as access tokens.',
  },
  INLAY_SMTP_URL: {
    parse: smtpUrl,
    secret: true,
    text: 'URL of the SMTP server that sends Inlay’s mail, for example `smtps://user:password@smtp.example.com` or `smtp://127.0.0.1:25`. It needs `INLAY_MAIL_FROM`. With `smtp:`, the connection must be upgraded to TLS, except on this computer; add `?requireTLS=false` to allow plain text. Without this setting, Inlay sends no mail: administrators send the links of invitations, and you create links for forgotten passwords. See [sign-in.md](sign-in.md#mail).',
  },
  INLAY_MAIL_FROM: {
    parse: mailSender,
    text: 'Sender of Inlay’s mail: an address such as `inlay@example.com`, or `Inlay <inlay@example.com>`.',
  },
  INLAY_PLANS_FILE: {
    parse: (text: string) => readPlanFile(resolve(text)),
    text: 'JSON file with the plans of this installation. It replaces `server/plans.json` and has the same format. A limit of 0 means unlimited. `product_id` is the billing provider’s product for the plan. One plan must have the id `free`; it is for organizations without a subscription.',
  },
  POLAR_ACCESS_TOKEN: {
    parse: headerValue,
    secret: true,
    text: 'Organization access token for Polar, which then sells the plans. It needs `POLAR_WEBHOOK_SECRET`, and plans with Polar’s products in `INLAY_PLANS_FILE`. See [billing.md](billing.md).',
  },
  POLAR_WEBHOOK_SECRET: {
    parse: webhookSecret,
    secret: true,
    text: 'Secret of the webhook endpoint at Polar, whose URL is `<INLAY_PUBLIC_URL>/billing/webhooks`. At least 16 characters.',
  },
  POLAR_URL: {
    default: 'https://api.polar.sh',
    parse: polarUrl,
    text: 'URL of Polar’s API. For tests without real payments, use `https://sandbox-api.polar.sh`.',
  },
  INLAY_BILLING_GRACE_DAYS: {
    default: '7',
    parse: integer(0, 90),
    text: 'How many days an organization keeps its plan after a payment failed (`past_due`), from 0 to 90. Then it’s on the plan `free` until it pays.',
  },
  MODEL_URL: {
    parse: modelUrl,
    text: 'URL of a model server with the OpenAI-compatible API, for example `http://127.0.0.1:11434/v1` or `https://openrouter.ai/api/v1`. It must end in `/v1`, and needs `MODEL_NAME`. It may point to this computer or a private network; everywhere else it must be https. It takes precedence over `ANTHROPIC_API_KEY` and `OPENAI_API_KEY`. See [agent.md](agent.md).',
  },
  MODEL_NAME: {
    parse: modelName,
    text: `Name of the model, exactly as its provider spells it. Required with \`MODEL_URL\`. With \`ANTHROPIC_API_KEY\` or \`OPENAI_API_KEY\`, it replaces the default, \`${defaultModels.anthropic}\` or \`${defaultModels.openai}\`.`,
  },
  MODEL_KEY: {
    parse: headerValue,
    secret: true,
    text: 'API key for `MODEL_URL`. Omit it for a server that needs none, such as Ollama.',
  },
  ANTHROPIC_API_KEY: {
    parse: headerValue,
    secret: true,
    text: 'API key for Anthropic. Used if `MODEL_URL` isn’t set.',
  },
  OPENAI_API_KEY: {
    parse: headerValue,
    secret: true,
    text: 'API key for OpenAI. Used if neither `MODEL_URL` nor `ANTHROPIC_API_KEY` is set.',
  },
  MODEL_SILENCE_SECONDS: {
    default: '60',
    parse: integer(1, 600),
    text: 'How long a model may send nothing before the agent gives up on the request, tries again, and then uses a fallback model, from 1 to 600. Raise it for models that think for long before they answer.',
  },
  INLAY_MODEL_PRICES: {
    parse: (text: string) => readPriceFile(resolve(text)),
    text: 'JSON file with prices and limits of models. Its entries take precedence over the built-in ones, `server/src/agent/models/default-prices.json`, which has the same format. Budgets in money need a price for the agent’s model. See [agent.md](agent.md#prices).',
  },
  GITHUB_URL: {
    default: 'https://github.com',
    parse: githubUrl,
    text: 'Origin of the GitHub where organizations register apps and keep their skills: `https://github.com`, or your own GitHub Enterprise Server. Your own may be on this computer or in a private network; everywhere else it must be https. See [code-host.md](code-host.md).',
  },
  INLAY_GITHUB_APP_ID: {
    parse: integer(1, Number.MAX_SAFE_INTEGER),
    text: 'ID of a GitHub app that organizations without an app of their own can install. It needs all settings that start with `INLAY_GITHUB_APP_`. [code-host.md](code-host.md#offer-an-app-to-all-organizations) says how to create the app.',
  },
  INLAY_GITHUB_APP_SLUG: {
    parse: githubSlug,
    text: 'Name of that app in GitHub’s URLs: `inlay` for `https://github.com/apps/inlay`.',
  },
  INLAY_GITHUB_APP_CLIENT_ID: {
    parse: headerValue,
    text: 'Client ID of that app. With the client secret, Inlay asks GitHub whether the user who connects an installation has access to it.',
  },
  INLAY_GITHUB_APP_CLIENT_SECRET: {
    parse: headerValue,
    secret: true,
    text: 'Client secret of that app.',
  },
  INLAY_GITHUB_APP_PRIVATE_KEY: {
    parse: githubPrivateKey,
    secret: true,
    text: 'Private key of that app: the path of the `.pem` file that GitHub generated, or its contents. Line breaks can be written as `\\n`.',
  },
  INLAY_GITHUB_APP_WEBHOOK_SECRET: {
    parse: githubWebhookSecret,
    secret: true,
    text: 'Webhook secret of that app, whose webhook URL is `<INLAY_PUBLIC_URL>/api/org-github-apps/webhook`. At least 16 characters.',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    parse: receiverUrl,
    text: 'URL of an OpenTelemetry receiver that takes OTLP over HTTP, such as a collector, Langfuse or Phoenix; for example `http://127.0.0.1:4318`. The server sends spans of the agent’s runs to `<URL>/v1/traces`, and metrics to `<URL>/v1/metrics`. It may be on this computer or in a private network; everywhere else it must be https. Without this setting, nothing is sent. See [agent.md](agent.md#telemetry).',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    parse: headerList,
    secret: true,
    text: 'Headers for these requests, such as a key: `name=value` pairs, separated by commas. Values can be percent-encoded: `Authorization=Basic%20…`.',
  },
  OTEL_SERVICE_NAME: {
    default: 'inlay',
    parse: (text: string) => text,
    text: 'Name of this installation in the telemetry.',
  },
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: {
    default: 'false',
    parse: capturesContents,
    text: 'Whether the telemetry includes contents: instructions, messages, and the arguments and results of tools. `true` or `false`.',
  },
  INLAY_LOG_LEVEL: {
    default: 'info',
    parse: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    text: 'Minimum level of log lines: `trace`, `debug`, `info`, `warn`, `error`, `fatal`, or `silent` for none. The server logs JSON to standard output.',
  },
  INLAY_METRICS_TOKEN: {
    parse: (text: string) => text,
    secret: true,
    text: 'Bearer token required for `GET /metrics`. Without this setting, metrics are public in development and disabled in production.',
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
  /** Undefined in development, where `main.ts` sets it once the port is known. */
  publicUrl: string | undefined
  dataDir: string
  databaseUrl: string | undefined
  databasePoolSize: number
  /** Whether the role in `databaseUrl` owns the schema and may be used. */
  migratesOnStart: boolean
  /** For how many months before the current one rows of these tables are kept; all of them without a number. */
  keptMonths: Record<'usage_events' | 'tool_call_records' | 'audit_events', number | undefined>
  redisUrl: string | undefined
  redisPrefix: string
  /** Newest first: the first encrypts and signs, all decrypt and verify. */
  secrets: readonly string[]
  allowedPrivateNetworks: readonly string[]
  /** CIDRs from which `X-Forwarded-For` is trusted. */
  trustedProxies: readonly string[]
  /** DNS servers for the proof of email domains; empty for the operating system's. */
  dnsServers: readonly string[]
  /** Origins of web pages that may call `/mcp`, in addition to our own. */
  mcpAllowedOrigins: readonly string[]
  clientMetadataDocuments: 'auto' | 'on' | 'off'
  /** The issuer whose access tokens are accepted in addition to our own. */
  signIn: { issuer: string; audience: string } | undefined
  /** The provider where users sign in; without it, they have local passwords. */
  signInClient: { issuer: string; id: string; secret: string | undefined } | undefined
  /** How mail is sent; without it, none is. */
  mail: { url: string; from: string } | undefined
  plans: readonly Plan[]
  /** The account at Polar that sells the plans. */
  polar: { url: string; accessToken: string; webhookSecret: string } | undefined
  /** How long an organization keeps its plan after a payment failed. */
  billingGraceDays: number
  /** The model that the operator configured. */
  model: ModelSettings | undefined
  /** How long a model may send nothing. */
  modelSilenceSeconds: number
  /** The operator's prices. They take precedence over the built-in ones. */
  modelPrices: readonly ModelPrice[]
  /** Where a server without a configured model looks for Ollama. Only set in development. */
  ollamaUrl: string | undefined
  /** The GitHub that organizations connect. */
  github: GithubSettings
  /** Where the agent's telemetry is sent. */
  telemetry: TelemetrySettings | undefined
  logLevel: (typeof settings)['INLAY_LOG_LEVEL']['parse'] extends (text: string) => infer Level ? Level : never
  metricsToken: string | undefined
}

export interface ModelSettings {
  provider: 'openai_compatible' | 'anthropic'
  url: string
  name: string
  key: string | undefined
  /** The setting that decided. */
  setting: 'MODEL_URL' | 'ANTHROPIC_API_KEY' | 'OPENAI_API_KEY'
}

interface GithubSettings {
  /** Where users register and install apps. */
  url: string
  apiUrl: string
  /** The operator's app, for organizations without their own. */
  app: PlatformApp | undefined
}

export interface PlatformApp {
  id: number
  slug: string
  clientId: string
  clientSecret: string
  privateKey: string
  webhookSecret: string
}

interface TelemetrySettings {
  /** Without a slash at the end. */
  url: string
  headers: Record<string, string>
  serviceName: string
  areContentsSent: boolean
}

/** A configuration the service refuses to run with; the message says what to change. */
export class InvalidConfig extends Error {
  override name = 'InvalidConfig'
}

export class UnusedDataFolder extends InvalidConfig {
  override name = 'UnusedDataFolder'
}

type Env = Record<string, string | undefined>

export function readConfig(env: Env = process.env, { mustExist = false, createsNothing = false } = {}): Config {
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
  const plans = read('INLAY_PLANS_FILE') ?? readPlanFile(shippedPlanFile)
  return {
    mode,
    port: given('PORT'),
    listen: read('INLAY_LISTEN') ?? (mode === 'development' ? 'localhost' : undefined),
    drainSeconds: read('INLAY_DRAIN_SECONDS') ?? (mode === 'development' ? 0 : 5),
    publicUrl,
    dataDir,
    databaseUrl,
    databasePoolSize: given('DATABASE_POOL_SIZE'),
    migratesOnStart: given('INLAY_MIGRATE_ON_START') === 'on' || !databaseUrl,
    keptMonths: {
      usage_events: read('INLAY_KEEP_USAGE_MONTHS'),
      tool_call_records: read('INLAY_KEEP_TOOL_CALL_MONTHS'),
      audit_events: read('INLAY_KEEP_AUDIT_MONTHS'),
    },
    redisUrl: read('REDIS_URL'),
    redisPrefix: given('INLAY_REDIS_PREFIX'),
    secrets: secrets ?? (createsNothing && mode === 'development' ? [newSecret()] : secretOfDataFolder(dataDir, mode)),
    allowedPrivateNetworks:
      read('INLAY_ALLOWED_PRIVATE_NETWORKS') ?? (mode === 'development' ? ['127.0.0.0/8', '::1/128'] : []),
    trustedProxies: read('INLAY_TRUSTED_PROXIES') ?? [],
    dnsServers: read('INLAY_DNS_SERVERS') ?? [],
    mcpAllowedOrigins: read('INLAY_MCP_ALLOWED_ORIGINS') ?? [],
    clientMetadataDocuments: given('INLAY_CLIENT_METADATA_DOCUMENTS'),
    ...readSignIn({
      mode,
      issuer: read('SIGN_IN_ISSUER'),
      id: read('SIGN_IN_CLIENT_ID'),
      secret: read('SIGN_IN_CLIENT_SECRET'),
      audience: read('SIGN_IN_AUDIENCE'),
    }),
    mail: readMail(read('INLAY_SMTP_URL'), read('INLAY_MAIL_FROM')),
    plans,
    polar: readPolar(plans, {
      url: given('POLAR_URL'),
      accessToken: read('POLAR_ACCESS_TOKEN'),
      webhookSecret: read('POLAR_WEBHOOK_SECRET'),
    }),
    billingGraceDays: given('INLAY_BILLING_GRACE_DAYS'),
    model: readModel({
      url: read('MODEL_URL'),
      name: read('MODEL_NAME'),
      key: read('MODEL_KEY'),
      anthropicKey: read('ANTHROPIC_API_KEY'),
      openaiKey: read('OPENAI_API_KEY'),
    }),
    modelSilenceSeconds: given('MODEL_SILENCE_SECONDS'),
    modelPrices: read('INLAY_MODEL_PRICES') ?? [],
    ollamaUrl: mode === 'development' ? 'http://127.0.0.1:11434' : undefined,
    github: {
      ...githubSettings(given('GITHUB_URL')),
      app: readPlatformApp({
        INLAY_GITHUB_APP_ID: read('INLAY_GITHUB_APP_ID'),
        INLAY_GITHUB_APP_SLUG: read('INLAY_GITHUB_APP_SLUG'),
        INLAY_GITHUB_APP_CLIENT_ID: read('INLAY_GITHUB_APP_CLIENT_ID'),
        INLAY_GITHUB_APP_CLIENT_SECRET: read('INLAY_GITHUB_APP_CLIENT_SECRET'),
        INLAY_GITHUB_APP_PRIVATE_KEY: read('INLAY_GITHUB_APP_PRIVATE_KEY'),
        INLAY_GITHUB_APP_WEBHOOK_SECRET: read('INLAY_GITHUB_APP_WEBHOOK_SECRET'),
      }),
    },
    telemetry: readTelemetry({
      url: read('OTEL_EXPORTER_OTLP_ENDPOINT'),
      headers: read('OTEL_EXPORTER_OTLP_HEADERS') ?? {},
      serviceName: given('OTEL_SERVICE_NAME'),
      areContentsSent: given('OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT'),
    }),
    logLevel: given('INLAY_LOG_LEVEL'),
    metricsToken: read('INLAY_METRICS_TOKEN'),
  }
}

/** For commands that need an existing installation: in an empty data folder they fail instead of creating one. */
export const readExistingConfig = (env: Env = process.env): Config => readConfig(env, { mustExist: true })

/** For an examination, which creates nothing. Without data there is no secret yet, so it gets one that isn't kept. */
export function inspectConfig(env: Env = process.env): { config: Config; unused?: UnusedDataFolder } {
  try {
    return { config: readExistingConfig(env) }
  } catch (error) {
    if (!(error instanceof UnusedDataFolder)) throw error
    return { config: readConfig(env, { createsNothing: true }), unused: error }
  }
}

function requireData(dataDir: string, names: readonly string[]): void {
  if (names.every((name) => existsSync(join(dataDir, name)))) return
  throw new UnusedDataFolder(
    `No Inlay server has used the data folder ${dataDir}. Run the command in the server's folder, or set INLAY_DATA_DIR to the server's data folder.`,
  )
}

/** One sentence for each variable that looks like a setting but isn't one. */
export function describeUnknownSettings(env: Env = process.env): string[] {
  return Object.entries(env)
    .filter(
      ([name, value]) => /^(INLAY|SIGN_IN|MODEL)_/.test(name) && !(name in settings) && !isFromKubernetes(name, value),
    )
    .map(([name]) => {
      const closest = closestSetting(name)
      return `${name} isn't a setting and has no effect. ${closest ? `Did you mean ${closest}?` : 'docs/configuration.md lists the settings.'}`
    })
}

/** Kubernetes sets such variables in every pod for each service, and the service may be called `inlay`. */
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

/** Levenshtein distance. */
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

const missing = (present: string, absent: string, value: string): InvalidConfig =>
  new InvalidConfig(`${present} is set, but ${absent} isn't. Set ${absent} to ${value}.`)

function readMail(smtpUrl: string | undefined, from: string | undefined): Config['mail'] {
  if (smtpUrl && from) return { url: smtpUrl, from }
  if (smtpUrl) throw missing('INLAY_SMTP_URL', 'INLAY_MAIL_FROM', "the sender's address, for example inlay@example.com")
  if (from) throw missing('INLAY_MAIL_FROM', 'INLAY_SMTP_URL', 'the URL of your SMTP server')
  return undefined
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
  if (secret && !id)
    throw missing('SIGN_IN_CLIENT_SECRET', 'SIGN_IN_CLIENT_ID', 'the ID of the client with this secret')
  if (!issuer) {
    const lonely = id ? 'SIGN_IN_CLIENT_ID' : audience && 'SIGN_IN_AUDIENCE'
    if (lonely) throw missing(lonely, 'SIGN_IN_ISSUER', 'the issuer URL of your sign-in provider')
    return { signIn: undefined, signInClient: undefined }
  }
  if (!id && !audience) {
    throw new InvalidConfig(
      'SIGN_IN_ISSUER needs SIGN_IN_CLIENT_ID (users sign in there), SIGN_IN_AUDIENCE (its access tokens are accepted), or both',
    )
  }
  if (id === audience) {
    throw new InvalidConfig(
      'SIGN_IN_AUDIENCE must differ from SIGN_IN_CLIENT_ID: ID tokens would otherwise pass as access tokens',
    )
  }
  if (issuer.startsWith('http:') && mode === 'production') {
    throw new InvalidConfig('SIGN_IN_ISSUER must be an https URL in production')
  }
  return { signIn: audience ? { issuer, audience } : undefined, signInClient: id ? { issuer, id, secret } : undefined }
}

/** A product that Polar can't have would only be noticed at the first checkout. */
function readPolar(
  plans: readonly Plan[],
  { url, accessToken, webhookSecret }: { url: string } & Record<'accessToken' | 'webhookSecret', string | undefined>,
): Config['polar'] {
  if (!accessToken && !webhookSecret) return undefined
  if (!accessToken)
    throw missing('POLAR_WEBHOOK_SECRET', 'POLAR_ACCESS_TOKEN', 'an organization access token for Polar')
  if (!webhookSecret) {
    throw missing('POLAR_ACCESS_TOKEN', 'POLAR_WEBHOOK_SECRET', 'the secret of the webhook endpoint at Polar')
  }
  const products = plans.flatMap(({ product_id }) => product_id ?? [])
  const foreign = products.find((product) => !isId(product))
  if (foreign !== undefined || products.length === 0) {
    throw new InvalidConfig(
      `POLAR_ACCESS_TOKEN is set, but ${foreign === undefined ? 'no plan has a product_id' : `"${foreign}" isn't the ID of a Polar product`}. Set INLAY_PLANS_FILE to plans with the IDs of your products at Polar as product_id.`,
    )
  }
  return { url, accessToken, webhookSecret }
}

function readModel({
  url,
  name,
  key,
  anthropicKey,
  openaiKey,
}: Record<'url' | 'name' | 'key' | 'anthropicKey' | 'openaiKey', string | undefined>): ModelSettings | undefined {
  if (url) {
    if (!name) {
      throw missing('MODEL_URL', 'MODEL_NAME', 'the name that this server uses for the model, for example llama3.2')
    }
    return { provider: 'openai_compatible', url, name, key, setting: 'MODEL_URL' }
  }
  if (key) throw missing('MODEL_KEY', 'MODEL_URL', 'the URL of the model server that the key is for')
  if (anthropicKey) {
    const anthropic = { provider: 'anthropic', url: 'https://api.anthropic.com/v1' } as const
    return { ...anthropic, name: name ?? defaultModels.anthropic, key: anthropicKey, setting: 'ANTHROPIC_API_KEY' }
  }
  if (openaiKey) {
    const openai = { provider: 'openai_compatible', url: 'https://api.openai.com/v1' } as const
    return { ...openai, name: name ?? defaultModels.openai, key: openaiKey, setting: 'OPENAI_API_KEY' }
  }
  if (name) {
    throw new InvalidConfig('MODEL_NAME is set, but it needs MODEL_URL, ANTHROPIC_API_KEY or OPENAI_API_KEY')
  }
  return undefined
}

/** The names are OpenTelemetry's, so the others may be set for another reason than a receiver of ours. */
const readTelemetry = ({
  url,
  ...rest
}: Omit<TelemetrySettings, 'url'> & { url: string | undefined }): TelemetrySettings | undefined =>
  url === undefined ? undefined : { url, ...rest }

/** In development, the secret is generated in the data folder; in production, the operator must provide it. */
function secretOfDataFolder(dataDir: string, mode: Config['mode']): readonly string[] {
  if (mode === 'production') {
    throw new InvalidConfig(
      'INLAY_SECRET is missing. In production, generate a secret and keep it: INLAY_SECRET="$(openssl rand -base64 32)"',
    )
  }
  const file = join(dataDir, 'secret')
  prepareDataFolder(dataDir)
  try {
    if (!existsSync(file)) makeSecret(file)
    return secretList(readFileSync(file, 'utf8').trim())
  } catch (cause) {
    throw new InvalidConfig(`Can't use the secret in ${file}: ${(cause as Error).message}`, { cause })
  }
}

/** Creates the data folder if it is missing, and checks that this user can write to it. */
export function prepareDataFolder(dataDir: string): void {
  try {
    makeFolder(dataDir)
    if (!statSync(dataDir).isDirectory()) throw new Error("it isn't a folder")
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw new InvalidConfig(`Can't use the data folder ${dataDir} (INLAY_DATA_DIR): ${(cause as Error).message}`, {
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

/** Atomic: if two processes start at once, one creates the secret, and the other never reads a partial one. */
const newSecret = () => randomBytes(32).toString('base64url')

function makeSecret(file: string): void {
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${newSecret()}\n`, { mode: 0o600 })
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(draft)
  }
}

/** The user's configuration folder. It isn't a setting of the server, but it is read from the environment too. */
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
    // The message omits the URL, which may contain a password.
    if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol)) {
      throw new Error(`must be a URL starting with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`)
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
    throw new Error('must use https, except on localhost: tokens would be sent in plain text')
  }
  return parsed.origin
}

/** The messages omit the URL, which may contain a password. */
function modelUrl(text: string): string {
  const parsed = URL.parse(text)
  if (!parsed || !/^https?:$/.test(parsed.protocol)) throw new Error('must be a URL starting with https:// or http://')
  if (parsed.username || parsed.password) {
    throw new Error('must not contain a user name or a password; set the key with MODEL_KEY')
  }
  if (parsed.search || parsed.hash || !parsed.pathname.endsWith('/v1')) {
    throw new Error('must end in /v1, for example http://127.0.0.1:11434/v1')
  }
  return parsed.href
}

/** The message omits the URL, which may contain a password. */
function smtpUrl(text: string): string {
  const parsed = URL.parse(text)
  if (!parsed || !/^smtps?:$/.test(parsed.protocol) || !parsed.hostname) {
    throw new Error('must be a URL such as smtps://user:password@smtp.example.com or smtp://127.0.0.1:25')
  }
  return text
}

function mailSender(text: string): string {
  if (!/^([^<>"\r\n]+<[^\s<>@",]+@[^\s<>@",]+>|[^\s<>@",]+@[^\s<>@",]+)$/.test(text)) {
    throw new Error(`must be an address such as inlay@example.com or Inlay <inlay@example.com>, not "${text}"`)
  }
  return text
}

/** The message omits the secret. */
function webhookSecret(text: string): string {
  if (text.length < 16) throw new Error('must have at least 16 characters; let Polar generate one')
  return headerValue(text)
}

function polarUrl(text: string): string {
  const parsed = URL.parse(text)
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.href !== `${parsed.origin}/`) {
    throw new Error('must be a URL without a path, such as https://api.polar.sh or https://sandbox-api.polar.sh')
  }
  return parsed.origin
}

/** The message omits the URL, which may contain a password. */
function githubUrl(text: string): string {
  const parsed = URL.parse(text)
  if (!parsed || !/^https?:$/.test(parsed.protocol) || `${parsed.origin}/` !== parsed.href) {
    throw new Error('must be an origin such as https://github.example.com, without a path')
  }
  return parsed.origin
}

/** GitHub and its cloud for enterprises have a host for the API; GitHub Enterprise Server has a path. */
function githubSettings(url: string): Pick<GithubSettings, 'url' | 'apiUrl'> {
  const { protocol, host } = new URL(url)
  const hasApiHost = host === 'github.com' || host.endsWith('.ghe.com')
  return { url, apiUrl: hasApiHost ? `${protocol}//api.${host}` : `${url}/api/v3` }
}

function githubSlug(text: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,99}$/.test(text)) throw new Error('must be the last part of the app’s URL on GitHub')
  return text
}

/** The messages omit the text, which may be a key. */
function githubPrivateKey(text: string): string {
  const pem = text.startsWith('-----BEGIN') ? text.replaceAll('\\n', '\n') : readKeyFile(resolve(text))
  try {
    return createPrivateKey(pem).export({ type: 'pkcs8', format: 'pem' }).toString()
  } catch {
    throw new Error('must be a private key in PEM format, or the path of a file with one')
  }
}

function readKeyFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`must be a private key that starts with -----BEGIN, or a file that can be read (${code})`)
  }
}

function githubWebhookSecret(text: string): string {
  if (text.length < 16) throw new Error('must have at least 16 characters; generate one with: openssl rand -hex 32')
  return headerValue(text)
}

type PlatformAppSetting = Extract<keyof typeof settings, `INLAY_GITHUB_APP_${string}`>

function readPlatformApp(
  given: {
    [Name in PlatformAppSetting]: ReturnType<(typeof settings)[Name]['parse']> | undefined
  },
): PlatformApp | undefined {
  const names = Object.keys(given) as PlatformAppSetting[]
  const [present] = names.filter((name) => given[name] !== undefined)
  if (!present) return undefined
  const absent = names.filter((name) => given[name] === undefined)
  if (absent.length > 0)
    throw new InvalidConfig(`${present} is set, but these aren't: ${absent.join(', ')}. Set all of them.`)
  return {
    id: given.INLAY_GITHUB_APP_ID as number,
    slug: given.INLAY_GITHUB_APP_SLUG as string,
    clientId: given.INLAY_GITHUB_APP_CLIENT_ID as string,
    clientSecret: given.INLAY_GITHUB_APP_CLIENT_SECRET as string,
    privateKey: given.INLAY_GITHUB_APP_PRIVATE_KEY as string,
    webhookSecret: given.INLAY_GITHUB_APP_WEBHOOK_SECRET as string,
  }
}

/** The messages omit the URL, which may contain a password. */
function receiverUrl(text: string): string {
  const parsed = URL.parse(text)
  if (!parsed || !/^https?:$/.test(parsed.protocol)) throw new Error('must be a URL starting with https:// or http://')
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new Error('must be a URL without a password, query or fragment; send a key with OTEL_EXPORTER_OTLP_HEADERS')
  }
  return parsed.href.replace(/\/+$/, '')
}

/** The message omits the headers, which may contain a key. */
function headerList(text: string): Record<string, string> {
  try {
    const headers = splitList(text).map((pair) => {
      const [name = '', ...value] = pair.split('=')
      return [name.trim(), decodeURIComponent(value.join('=').trim())] as const
    })
    return Object.fromEntries(new Headers(headers.map(([name, value]) => [name, value])))
  } catch (cause) {
    throw new Error('must be name=value pairs, separated by commas; special characters are percent-encoded', { cause })
  }
}

/** Newer versions of OpenTelemetry's libraries have further values. We send no events. */
function capturesContents(text: string): boolean {
  if (/^(true|span_only|span_and_event)$/i.test(text)) return true
  if (/^(false|no_content|event_only)$/i.test(text)) return false
  throw new Error(`must be true or false, not "${text}"`)
}

function modelName(text: string): string {
  if (text.length > 200) throw new Error('must have at most 200 characters')
  return text
}

/** The message omits the key. */
function headerValue(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text)) throw new Error('must be a key without spaces, in ASCII characters')
  return text
}

function secretList(text: string): readonly string[] {
  const list = text.split(',').map((secret) => secret.trim())
  for (const secret of list) {
    if (secret.length < 32 || new Set(secret).size < 10) {
      throw new Error('must be at least 32 random characters; generate one with: openssl rand -base64 32')
    }
    if (/change.?me|default|example|your.?secret|password/i.test(secret)) {
      throw new Error('looks like a placeholder; generate one with: openssl rand -base64 32')
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

function dnsServerList(text: string): readonly string[] {
  const list = splitList(text)
  try {
    new Resolver().setServers(list)
  } catch {
    throw new Error(`must be IP addresses such as 10.0.0.2 or 10.0.0.2:5353, not "${text}"`)
  }
  return list
}

function cidrList(text: string): readonly string[] {
  const list = splitList(text)
  for (const cidr of list) {
    if (!ipaddr.isValidCIDR(cidr)) throw new Error(`must be CIDRs such as 10.0.0.0/8, not "${cidr}"`)
  }
  return list
}
