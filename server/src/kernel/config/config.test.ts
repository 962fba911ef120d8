import { generateKeyPairSync } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { shippedPriceFile } from '../../agent/models/prices.ts'
import {
  type Config,
  describeUnknownSettings,
  InvalidConfig,
  inspectConfig,
  type ModelSettings,
  readConfig,
  settings,
} from './config.ts'
import { readPlanFile, shippedPlanFile } from './plan-file.ts'
import { readPriceFile } from './price-file.ts'

const secret = 'Zq3vT8nW1xK6bR0yL5dM9sH2jF7pG4cA'
const otherSecret = 'aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV'
const production = { INLAY_PUBLIC_URL: 'https://inlay.example.com', INLAY_SECRET: secret }

function problemWith(env: Record<string, string>): string {
  try {
    readConfig({ INLAY_SECRET: secret, ...env })
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidConfig)
    return (error as Error).message
  }
  throw new Error('The configuration was accepted')
}

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-config-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

type Name = keyof typeof settings

const issuer = 'https://login.example.com'
const ownServer: ModelSettings = {
  provider: 'openai_compatible',
  url: 'http://10.0.0.5:8000/v1',
  name: 'qwen3',
  key: undefined,
  setting: 'MODEL_URL',
}
const anthropic: ModelSettings = {
  provider: 'anthropic',
  url: 'https://api.anthropic.com/v1',
  name: 'claude-sonnet-5-5',
  key: 'a',
  setting: 'ANTHROPIC_API_KEY',
}
const openai: ModelSettings = {
  provider: 'openai_compatible',
  url: 'https://api.openai.com/v1',
  name: 'gpt-5.4-mini',
  key: 'o',
  setting: 'OPENAI_API_KEY',
}
const receiver = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://10.0.0.5:4318' }
const telemetry = { url: 'http://10.0.0.5:4318', headers: {}, serviceName: 'inlay', areContentsSent: false }
const polarPlans = join(mkdtempSync(join(tmpdir(), 'inlay-config-')), 'plans.json')
const shipped = readFileSync(shippedPlanFile, 'utf8')
writeFileSync(
  polarPlans,
  shipped.replace(
    /"inlay_(\w)\w+"/g,
    (_, letter) => `"00000000-0000-4000-8000-0000000000${letter === 't' ? '01' : '02'}"`,
  ),
)
const polarSettings = {
  POLAR_ACCESS_TOKEN: 'polar_oat_1',
  POLAR_WEBHOOK_SECRET: 'polar_whs_12345678',
  INLAY_PLANS_FILE: polarPlans,
}
const polar = { url: 'https://api.polar.sh', accessToken: 'polar_oat_1', webhookSecret: 'polar_whs_12345678' }
afterAll(() => rmSync(dirname(polarPlans), { recursive: true }))

const pem = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString()
const pemFile = join(dirname(polarPlans), 'app.pem')
writeFileSync(pemFile, pem)
const platformApp = {
  INLAY_GITHUB_APP_ID: '7',
  INLAY_GITHUB_APP_SLUG: 'inlay',
  INLAY_GITHUB_APP_CLIENT_ID: 'Iv23.7',
  INLAY_GITHUB_APP_CLIENT_SECRET: 'client-secret',
  INLAY_GITHUB_APP_PRIVATE_KEY: pem,
  INLAY_GITHUB_APP_WEBHOOK_SECRET: '0123456789abcdef',
}
const github: Pick<Config, 'github'> = {
  github: {
    url: 'https://github.com',
    apiUrl: 'https://api.github.com',
    app: {
      id: 7,
      slug: 'inlay',
      clientId: 'Iv23.7',
      clientSecret: 'client-secret',
      privateKey: pem,
      webhookSecret: '0123456789abcdef',
    },
  },
}

const allMonths = { usage_events: undefined, tool_call_records: undefined, audit_events: undefined }

const good: [Name, string, Partial<Config>, Record<string, string>?][] = [
  ['PORT', '0', { port: 0 }],
  ['PORT', ' 65535 ', { port: 65535 }],
  ['PORT', '', { port: 8787 }],
  ['INLAY_LISTEN', '', { listen: 'localhost' }],
  ['INLAY_LISTEN', '', { listen: undefined }, production],
  ['INLAY_LISTEN', '0.0.0.0', { listen: '0.0.0.0' }],
  ['INLAY_LISTEN', '::', { listen: '::' }, production],
  ['INLAY_DRAIN_SECONDS', '', { drainSeconds: 0 }],
  ['INLAY_DRAIN_SECONDS', '', { drainSeconds: 5 }, production],
  ['INLAY_DRAIN_SECONDS', '30', { drainSeconds: 30 }],
  ['INLAY_PUBLIC_URL', 'https://inlay.example.com', { publicUrl: 'https://inlay.example.com', mode: 'production' }],
  ['INLAY_PUBLIC_URL', 'https://Inlay.Example.com:443/', { publicUrl: 'https://inlay.example.com' }],
  ['INLAY_PUBLIC_URL', 'https://inlay.example.com:8443', { publicUrl: 'https://inlay.example.com:8443' }],
  ['INLAY_PUBLIC_URL', 'http://localhost:3000', { publicUrl: 'http://localhost:3000', mode: 'development' }],
  ['INLAY_PUBLIC_URL', 'http://127.0.0.1:3000', { publicUrl: 'http://127.0.0.1:3000', mode: 'development' }],
  ['INLAY_PUBLIC_URL', 'http://[::1]:3000', { publicUrl: 'http://[::1]:3000', mode: 'development' }],
  ['INLAY_PUBLIC_URL', '', { publicUrl: undefined, mode: 'development' }],
  ['INLAY_DATA_DIR', '/var/lib/inlay', { dataDir: '/var/lib/inlay' }],
  ['INLAY_DATA_DIR', 'data', { dataDir: resolve('data') }],
  ['INLAY_DATA_DIR', '', { dataDir: resolve('./.inlay') }],
  ['DATABASE_URL', 'postgres://u:p@db/inlay', { databaseUrl: 'postgres://u:p@db/inlay' }],
  ['DATABASE_URL', 'postgresql://db/inlay?sslmode=require', { databaseUrl: 'postgresql://db/inlay?sslmode=require' }],
  ['DATABASE_URL', '', { databaseUrl: undefined }],
  ['DATABASE_POOL_SIZE', '40', { databasePoolSize: 40 }],
  ['DATABASE_POOL_SIZE', '', { databasePoolSize: 10 }],
  ['INLAY_MIGRATE_ON_START', '', { migratesOnStart: true }, { DATABASE_URL: 'postgres://db/inlay' }],
  ['INLAY_MIGRATE_ON_START', 'off', { migratesOnStart: false }, { DATABASE_URL: 'postgres://db/inlay' }],
  ['INLAY_MIGRATE_ON_START', 'off', { migratesOnStart: true }],
  ...(
    [
      ['INLAY_KEEP_USAGE_MONTHS', 'usage_events'],
      ['INLAY_KEEP_TOOL_CALL_MONTHS', 'tool_call_records'],
      ['INLAY_KEEP_AUDIT_MONTHS', 'audit_events'],
    ] as const
  ).flatMap(([name, table]): [Name, string, Partial<Config>][] => [
    [name, '24', { keptMonths: { ...allMonths, [table]: 24 } }],
    [name, '', { keptMonths: allMonths }],
  ]),
  ['REDIS_URL', 'redis://redis:6379/1', { redisUrl: 'redis://redis:6379/1' }],
  ['REDIS_URL', 'rediss://:p@redis', { redisUrl: 'rediss://:p@redis' }],
  ['REDIS_URL', 'unix:///run/redis.sock', { redisUrl: 'unix:///run/redis.sock' }],
  ['REDIS_URL', '', { redisUrl: undefined }],
  ['INLAY_REDIS_PREFIX', 'staging', { redisPrefix: 'staging' }],
  ['INLAY_REDIS_PREFIX', '', { redisPrefix: 'inlay' }],
  ['INLAY_SECRET', secret, { secrets: [secret] }],
  ['INLAY_SECRET', `${otherSecret}, ${secret}`, { secrets: [otherSecret, secret] }],
  ['INLAY_ALLOWED_PRIVATE_NETWORKS', '10.0.0.0/8, fd00::/8', { allowedPrivateNetworks: ['10.0.0.0/8', 'fd00::/8'] }],
  ['INLAY_ALLOWED_PRIVATE_NETWORKS', '', { allowedPrivateNetworks: ['127.0.0.0/8', '::1/128'] }],
  ['INLAY_TRUSTED_PROXIES', '10.0.0.0/8, fd00::/8', { trustedProxies: ['10.0.0.0/8', 'fd00::/8'] }],
  ['INLAY_TRUSTED_PROXIES', '', { trustedProxies: [] }],
  [
    'INLAY_MCP_ALLOWED_ORIGINS',
    'https://App.example.com, http://localhost:6274/',
    { mcpAllowedOrigins: ['https://app.example.com', 'http://localhost:6274'] },
  ],
  ['INLAY_MCP_ALLOWED_ORIGINS', '', { mcpAllowedOrigins: [] }],
  ['INLAY_CLIENT_METADATA_DOCUMENTS', 'off', { clientMetadataDocuments: 'off' }],
  ['INLAY_CLIENT_METADATA_DOCUMENTS', '', { clientMetadataDocuments: 'auto' }],
  ['SIGN_IN_ISSUER', issuer, { signIn: { issuer, audience: 'inlay' } }, { SIGN_IN_AUDIENCE: 'inlay' }],
  ['SIGN_IN_ISSUER', '', { signIn: undefined }],
  ['SIGN_IN_AUDIENCE', 'a', { signIn: { issuer, audience: 'a' }, signInClient: undefined }, { SIGN_IN_ISSUER: issuer }],
  [
    'SIGN_IN_CLIENT_ID',
    'c',
    { signIn: undefined, signInClient: { issuer, id: 'c', secret: undefined } },
    { SIGN_IN_ISSUER: issuer },
  ],
  [
    'SIGN_IN_CLIENT_SECRET',
    's',
    { signIn: { issuer, audience: 'a' }, signInClient: { issuer, id: 'c', secret: 's' } },
    { SIGN_IN_ISSUER: issuer, SIGN_IN_CLIENT_ID: 'c', SIGN_IN_AUDIENCE: 'a' },
  ],
  [
    'INLAY_SMTP_URL',
    'smtps://user:pass@smtp.example.com',
    { mail: { url: 'smtps://user:pass@smtp.example.com', from: 'inlay@example.com' } },
    { INLAY_MAIL_FROM: 'inlay@example.com' },
  ],
  ['INLAY_SMTP_URL', '', { mail: undefined }],
  [
    'INLAY_MAIL_FROM',
    'Inlay <inlay@example.com>',
    { mail: { url: 'smtp://127.0.0.1', from: 'Inlay <inlay@example.com>' } },
    { INLAY_SMTP_URL: 'smtp://127.0.0.1' },
  ],
  ['INLAY_DNS_SERVERS', '10.0.0.2, [::1]:5353', { dnsServers: ['10.0.0.2', '[::1]:5353'] }],
  ['INLAY_DNS_SERVERS', '', { dnsServers: [] }],
  ['INLAY_PLANS_FILE', shippedPlanFile, { plans: readPlanFile(shippedPlanFile) }],
  ['INLAY_PLANS_FILE', '', { plans: readPlanFile(shippedPlanFile) }],
  ['INLAY_MODEL_PRICES', shippedPriceFile, { modelPrices: readPriceFile(shippedPriceFile) }],
  ['INLAY_MODEL_PRICES', '', { modelPrices: [] }],
  ['MODEL_URL', 'http://10.0.0.5:8000/v1', { model: ownServer }, { MODEL_NAME: 'qwen3' }],
  ['MODEL_URL', '', { model: undefined, ollamaUrl: 'http://127.0.0.1:11434' }],
  ['MODEL_URL', '', { model: undefined, ollamaUrl: undefined }, production],
  [
    'MODEL_KEY',
    'k',
    { model: { ...ownServer, key: 'k' } },
    { MODEL_URL: ownServer.url, MODEL_NAME: 'qwen3', ANTHROPIC_API_KEY: 'a', OPENAI_API_KEY: 'o' },
  ],
  ['ANTHROPIC_API_KEY', 'a', { model: anthropic }, { OPENAI_API_KEY: 'o' }],
  ['OPENAI_API_KEY', 'o', { model: openai }],
  ['OPENAI_API_KEY', 'o', { model: openai }, production],
  ['MODEL_NAME', 'qwen3', { model: ownServer }, { MODEL_URL: ownServer.url }],
  ['MODEL_NAME', 'claude-x', { model: { ...anthropic, name: 'claude-x' } }, { ANTHROPIC_API_KEY: 'a' }],
  ['MODEL_NAME', 'gpt-x', { model: { ...openai, name: 'gpt-x' } }, { OPENAI_API_KEY: 'o' }],
  ['POLAR_ACCESS_TOKEN', 'polar_oat_1', { polar }, polarSettings],
  ['POLAR_WEBHOOK_SECRET', 'polar_whs_12345678', { polar }, polarSettings],
  ['POLAR_URL', '', { polar }, polarSettings],
  ['INLAY_BILLING_GRACE_DAYS', '', { billingGraceDays: 7 }],
  ['INLAY_BILLING_GRACE_DAYS', '0', { billingGraceDays: 0 }],
  ['POLAR_URL', '', { polar: undefined }],
  ['POLAR_URL', 'http://127.0.0.1:1/', { polar: { ...polar, url: 'http://127.0.0.1:1' } }, polarSettings],
  ['MODEL_SILENCE_SECONDS', '600', { modelSilenceSeconds: 600 }],
  ['MODEL_SILENCE_SECONDS', '', { modelSilenceSeconds: 60 }],
  ['GITHUB_URL', '', { github: { url: 'https://github.com', apiUrl: 'https://api.github.com', app: undefined } }],
  [
    'GITHUB_URL',
    'https://github.example.com/',
    { github: { url: 'https://github.example.com', apiUrl: 'https://github.example.com/api/v3', app: undefined } },
  ],
  [
    'GITHUB_URL',
    'https://acme.ghe.com',
    { github: { url: 'https://acme.ghe.com', apiUrl: 'https://api.acme.ghe.com', app: undefined } },
  ],
  ...Object.entries(platformApp).map(([name, value]): [Name, string, Partial<Config>, Record<string, string>] => [
    name as Name,
    value,
    github,
    platformApp,
  ]),
  ['INLAY_GITHUB_APP_PRIVATE_KEY', pem.replaceAll('\n', '\\n'), github, platformApp],
  ['INLAY_GITHUB_APP_PRIVATE_KEY', pemFile, github, platformApp],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://10.0.0.5:4318', { telemetry }],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://10.0.0.5:4318/', { telemetry }],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', '', { telemetry: undefined }, { OTEL_EXPORTER_OTLP_HEADERS: 'a=b' }],
  [
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'https://cloud.langfuse.com/api/public/otel',
    { telemetry: { ...telemetry, url: 'https://cloud.langfuse.com/api/public/otel' } },
  ],
  [
    'OTEL_EXPORTER_OTLP_HEADERS',
    'Authorization=Basic%20YTpi==, x-team = support',
    { telemetry: { ...telemetry, headers: { authorization: 'Basic YTpi==', 'x-team': 'support' } } },
    receiver,
  ],
  ['OTEL_SERVICE_NAME', 'shop', { telemetry: { ...telemetry, serviceName: 'shop' } }, receiver],
  ...['true', 'True', 'SPAN_ONLY', 'span_and_event'].map(
    (text): [Name, string, Partial<Config>, Record<string, string>] => [
      'OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT',
      text,
      { telemetry: { ...telemetry, areContentsSent: true } },
      receiver,
    ],
  ),
  ['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', 'false', { telemetry }, receiver],
  ['INLAY_LOG_LEVEL', 'silent', { logLevel: 'silent' }],
  ['INLAY_LOG_LEVEL', '', { logLevel: 'info' }],
  ['INLAY_METRICS_TOKEN', 'scrape', { metricsToken: 'scrape' }],
  ['INLAY_METRICS_TOKEN', '', { metricsToken: undefined }],
]

test.each(good)('%s accepts "%s"', (name, value, expected, env = {}) => {
  expect(readConfig({ INLAY_SECRET: secret, ...env, [name]: value })).toMatchObject(expected)
})

test('every setting has a valid value in the table', () => {
  expect(new Set(good.map(([name]) => name))).toEqual(new Set(Object.keys(settings)))
})

const port = (text: string) => `must be a whole number from 0 to 65535, not "${text}"`
const origin = (text: string) => `must be an origin such as https://inlay.example.com, without a path, not "${text}"`
const weakSecret = 'must be at least 32 random characters; generate one with: openssl rand -base64 32'
const placeholder = 'looks like a placeholder; generate one with: openssl rand -base64 32'
const polarAddress = 'must be a URL without a path, such as https://api.polar.sh or https://sandbox-api.polar.sh'
const bad: [Name, string, string][] = [
  ['POLAR_URL', 'sandbox', polarAddress],
  ['POLAR_URL', 'https://api.polar.sh/v1', polarAddress],
  ['POLAR_URL', 'https://u:p@api.polar.sh', polarAddress],
  ['POLAR_URL', 'ftp://api.polar.sh', polarAddress],
  ['INLAY_BILLING_GRACE_DAYS', '91', 'must be a whole number from 0 to 90, not "91"'],
  ['INLAY_MIGRATE_ON_START', 'no', 'must be one of on, off, not "no"'],
  ['INLAY_KEEP_AUDIT_MONTHS', '0', 'must be a whole number from 1 to 1200, not "0"'],
  ['DATABASE_POOL_SIZE', '3', 'must be a whole number from 4 to 1000, not "3"'],
  ['PORT', '65536', port('65536')],
  ['PORT', '-1', port('-1')],
  ['PORT', '80.5', port('80.5')],
  ['PORT', '0x50', port('0x50')],
  ['PORT', 'http', port('http')],
  ['INLAY_LISTEN', 'localhost', 'must be an IP address such as 127.0.0.1, 0.0.0.0 or ::, not "localhost"'],
  ['INLAY_LISTEN', '127.1', 'must be an IP address such as 127.0.0.1, 0.0.0.0 or ::, not "127.1"'],
  ['INLAY_DRAIN_SECONDS', '601', 'must be a whole number from 0 to 600, not "601"'],
  ['INLAY_PUBLIC_URL', 'inlay.example.com', origin('inlay.example.com')],
  ['INLAY_PUBLIC_URL', 'https://example.com/inlay', origin('https://example.com/inlay')],
  ['INLAY_PUBLIC_URL', 'https://example.com/?a', origin('https://example.com/?a')],
  ['INLAY_PUBLIC_URL', 'ftp://example.com', origin('ftp://example.com')],
  [
    'INLAY_PUBLIC_URL',
    'http://inlay.example.com',
    'must use https, except on localhost: tokens would be sent in plain text',
  ],
  [
    'INLAY_DNS_SERVERS',
    'dns.example.com',
    'must be IP addresses such as 10.0.0.2 or 10.0.0.2:5353, not "dns.example.com"',
  ],
  ['DATABASE_URL', 'mysql://u:p@db/inlay', 'must be a URL starting with postgres:// or postgresql://'],
  ['DATABASE_URL', 'localhost', 'must be a URL starting with postgres:// or postgresql://'],
  ['REDIS_URL', 'http://redis', 'must be a URL starting with redis:// or rediss:// or unix://'],
  ['INLAY_SECRET', 'short', weakSecret],
  ['INLAY_SECRET', 'a'.repeat(64), weakSecret],
  ['INLAY_SECRET', `${secret},short`, weakSecret],
  ['INLAY_SECRET', `${secret},`, weakSecret],
  ['INLAY_SECRET', 'change-me-change-me-0123456789-abcdef', placeholder],
  ['INLAY_SECRET', 'your-secret-goes-here-0123456789-abcdef', placeholder],
  ['INLAY_ALLOWED_PRIVATE_NETWORKS', '10.0.0.0', 'must be CIDRs such as 10.0.0.0/8, not "10.0.0.0"'],
  ['INLAY_TRUSTED_PROXIES', 'proxy.internal', 'must be CIDRs such as 10.0.0.0/8, not "proxy.internal"'],
  ['INLAY_ALLOWED_PRIVATE_NETWORKS', '10.0.0.0/8,10.0.0.0/33', 'must be CIDRs such as 10.0.0.0/8, not "10.0.0.0/33"'],
  ...['*', 'app.example.com', 'https://app.example.com/mcp', 'null'].map((text): [Name, string, string] => [
    'INLAY_MCP_ALLOWED_ORIGINS',
    `https://one.example.com, ${text}`,
    `must be origins such as https://app.example.com, without a path, not "${text}"`,
  ]),
  ...['smtp.example.com', 'http://smtp.example.com', 'smtp://'].map((text): [Name, string, string] => [
    'INLAY_SMTP_URL',
    text,
    'must be a URL such as smtps://user:password@smtp.example.com or smtp://127.0.0.1:25',
  ]),
  ...['inlay', 'a@example.com, b@example.com', 'Inlay <inlay>'].map((text): [Name, string, string] => [
    'INLAY_MAIL_FROM',
    text,
    `must be an address such as inlay@example.com or Inlay <inlay@example.com>, not "${text}"`,
  ]),
  ['INLAY_CLIENT_METADATA_DOCUMENTS', 'yes', 'must be one of auto, on, off, not "yes"'],
  ['SIGN_IN_ISSUER', 'login.example.com', 'must be a URL starting with https:// or http://'],
  [
    'INLAY_PLANS_FILE',
    '/nowhere/plans.json',
    "names a file that can't be read: ENOENT: no such file or directory, open '/nowhere/plans.json'",
  ],
  [
    'INLAY_MODEL_PRICES',
    '/nowhere/prices.json',
    "names a file that can't be read: ENOENT: no such file or directory, open '/nowhere/prices.json'",
  ],
  ['MODEL_URL', 'localhost:11434/v1', 'must be a URL starting with https:// or http://'],
  ['MODEL_URL', 'ftp://models.example.com/v1', 'must be a URL starting with https:// or http://'],
  ...['', '/', '/v1/', '/v1?a', '/v1#a', '/v1/chat/completions'].map((path): [Name, string, string] => [
    'MODEL_URL',
    `http://127.0.0.1:11434${path}`,
    'must end in /v1, for example http://127.0.0.1:11434/v1',
  ]),
  [
    'MODEL_URL',
    'https://me:p@models.example.com/v1',
    'must not contain a user name or a password; set the key with MODEL_KEY',
  ],
  ['MODEL_NAME', 'm'.repeat(201), 'must have at most 200 characters'],
  ['MODEL_KEY', 'two words', 'must be a key without spaces, in ASCII characters'],
  ['ANTHROPIC_API_KEY', 'schlüssel', 'must be a key without spaces, in ASCII characters'],
  ['OPENAI_API_KEY', 'two words', 'must be a key without spaces, in ASCII characters'],
  ['MODEL_SILENCE_SECONDS', '0', 'must be a whole number from 1 to 600, not "0"'],
  ['INLAY_GITHUB_APP_ID', '0', `must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}, not "0"`],
  ['INLAY_GITHUB_APP_SLUG', 'https://github.com/apps/inlay', 'must be the last part of the app’s URL on GitHub'],
  [
    'INLAY_GITHUB_APP_PRIVATE_KEY',
    '-----BEGIN RSA PRIVATE KEY-----',
    'must be a private key in PEM format, or the path of a file with one',
  ],
  [
    'INLAY_GITHUB_APP_PRIVATE_KEY',
    '/nowhere/app.pem',
    'must be a private key that starts with -----BEGIN, or a file that can be read (ENOENT)',
  ],
  [
    'INLAY_GITHUB_APP_WEBHOOK_SECRET',
    'short',
    'must have at least 16 characters; generate one with: openssl rand -hex 32',
  ],
  ...[
    'github.com',
    'ftp://github.com',
    'https://github.com/acme',
    'https://github.com?a',
    'https://me:p@github.com',
  ].map((text): [Name, string, string] => [
    'GITHUB_URL',
    text,
    'must be an origin such as https://github.example.com, without a path',
  ]),
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'localhost:4318', 'must be a URL starting with https:// or http://'],
  ...['http://me:p@localhost:4318', 'http://localhost:4318?a', 'http://localhost:4318#a'].map(
    (text): [Name, string, string] => [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      text,
      'must be a URL without a password, query or fragment; send a key with OTEL_EXPORTER_OTLP_HEADERS',
    ],
  ),
  ...['Bearer abc', 'a=%zz', 'a b=c', 'a=b%0Ac'].map((text): [Name, string, string] => [
    'OTEL_EXPORTER_OTLP_HEADERS',
    text,
    'must be name=value pairs, separated by commas; special characters are percent-encoded',
  ]),
  ['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', 'yes', 'must be true or false, not "yes"'],
  ['INLAY_LOG_LEVEL', 'verbose', 'must be one of trace, debug, info, warn, error, fatal, silent, not "verbose"'],
]

test.each(bad)('%s rejects "%s"', (name, value, message) => {
  expect(problemWith({ [name]: value })).toBe(`${name} ${message}`)
})

const needsMore =
  'SIGN_IN_ISSUER needs SIGN_IN_CLIENT_ID (users sign in there), SIGN_IN_AUDIENCE (its access tokens are accepted), or both'
const withoutIssuer = "is set, but SIGN_IN_ISSUER isn't. Set SIGN_IN_ISSUER to the issuer URL of your sign-in provider."
test.each([
  ['an issuer alone', { SIGN_IN_ISSUER: issuer }, needsMore],
  ['an audience alone', { SIGN_IN_AUDIENCE: 'a' }, `SIGN_IN_AUDIENCE ${withoutIssuer}`],
  ['a client alone', { SIGN_IN_CLIENT_ID: 'c' }, `SIGN_IN_CLIENT_ID ${withoutIssuer}`],
  [
    'a client secret without its client',
    { SIGN_IN_ISSUER: issuer, SIGN_IN_AUDIENCE: 'a', SIGN_IN_CLIENT_SECRET: 'hunter2' },
    "SIGN_IN_CLIENT_SECRET is set, but SIGN_IN_CLIENT_ID isn't. Set SIGN_IN_CLIENT_ID to the ID of the client with this secret.",
  ],
  [
    'a client that is also the audience',
    { SIGN_IN_ISSUER: issuer, SIGN_IN_CLIENT_ID: 'same', SIGN_IN_AUDIENCE: 'same' },
    'SIGN_IN_AUDIENCE must differ from SIGN_IN_CLIENT_ID: ID tokens would otherwise pass as access tokens',
  ],
])('sign-in cannot be configured with %s', (_, env: Record<string, string>, message) => {
  expect(problemWith(env)).toBe(message)
})

const noModelName =
  "MODEL_URL is set, but MODEL_NAME isn't. Set MODEL_NAME to the name that this server uses for the model, for example llama3.2."
const noModelUrl =
  "MODEL_KEY is set, but MODEL_URL isn't. Set MODEL_URL to the URL of the model server that the key is for."
test.each([
  ['a URL alone', { MODEL_URL: ownServer.url }, noModelName],
  ['a URL and a provider’s key, but no name', { MODEL_URL: ownServer.url, OPENAI_API_KEY: 'hunter2' }, noModelName],
  [
    'a name alone',
    { MODEL_NAME: 'qwen3' },
    'MODEL_NAME is set, but it needs MODEL_URL, ANTHROPIC_API_KEY or OPENAI_API_KEY',
  ],
  ['a key alone', { MODEL_KEY: 'hunter2' }, noModelUrl],
  ['a name and a key without a URL', { MODEL_NAME: 'qwen3', MODEL_KEY: 'hunter2' }, noModelUrl],
])('a model cannot be configured with %s', (_, env: Record<string, string>, message) => {
  expect(problemWith(env)).toBe(message)
})

test.each(Object.keys(platformApp))('a GitHub app cannot be configured without %s', (name) => {
  const env: Record<string, string> = { ...platformApp, [name]: '' }
  const [first] = Object.keys(platformApp).filter((each) => each !== name)
  expect(problemWith(env)).toBe(`${first} is set, but these aren't: ${name}. Set all of them.`)
})

const noPolarProduct =
  'POLAR_ACCESS_TOKEN is set, but "inlay_team" isn\'t the ID of a Polar product. Set INLAY_PLANS_FILE to plans with the IDs of your products at Polar as product_id.'
test.each([
  [
    'a token alone',
    { POLAR_ACCESS_TOKEN: 'hunter2' },
    "POLAR_ACCESS_TOKEN is set, but POLAR_WEBHOOK_SECRET isn't. Set POLAR_WEBHOOK_SECRET to the secret of the webhook endpoint at Polar.",
  ],
  [
    'a secret alone',
    { POLAR_WEBHOOK_SECRET: 'hunter2hunter2hunter2' },
    "POLAR_WEBHOOK_SECRET is set, but POLAR_ACCESS_TOKEN isn't. Set POLAR_ACCESS_TOKEN to an organization access token for Polar.",
  ],
  [
    'plans without its products',
    { POLAR_ACCESS_TOKEN: 'a', POLAR_WEBHOOK_SECRET: 'hunter2hunter2hunter2' },
    noPolarProduct,
  ],
])('Polar cannot be configured with %s', (_, env: Record<string, string>, message) => {
  expect(problemWith(env)).toBe(message)
})

test.each([
  ['INLAY_GITHUB_APP_CLIENT_SECRET', 'hunter2 hunter2'],
  ['INLAY_GITHUB_APP_PRIVATE_KEY', 'hunter2'],
  ['INLAY_GITHUB_APP_WEBHOOK_SECRET', 'hunter2'],
  ['POLAR_ACCESS_TOKEN', 'hunter2 hunter2'],
  ['POLAR_WEBHOOK_SECRET', 'hunter2 hunter2 hunter2'],
  ['POLAR_WEBHOOK_SECRET', 'hunter2'],
  ['INLAY_SECRET', 'hunter2'],
  ['MODEL_URL', 'https://me:hunter2@models.example.com/v1'],
  ['MODEL_URL', 'https://models.example.com/v1?key=hunter2'],
  ['MODEL_KEY', 'hunter2 hunter2'],
  ['ANTHROPIC_API_KEY', 'hunter2 hunter2'],
  ['OPENAI_API_KEY', 'hunter2 hunter2'],
  ['INLAY_SECRET', `${secret},hunter2`],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'hunter2 hunter2=1'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'https://me:hunter2@collector.example.com'],
  ['DATABASE_URL', 'postgres//u:hunter2@db'],
  ['REDIS_URL', 'http://:hunter2@redis'],
])('an invalid %s does not appear in the message', (name, value) => {
  const message = problemWith({ [name]: value })
  expect(message).toContain(name)
  expect(message).not.toContain('hunter2')
  expect(message).not.toContain(secret)
})

test('an unused data folder is inspected without creating it, and other problems are still found', () => {
  const env = { INLAY_DATA_DIR: join(makeFolder(), 'mistyped') }
  const { config, unused } = inspectConfig(env)
  expect(unused?.message).toContain(`No Inlay server has used the data folder ${env.INLAY_DATA_DIR}`)
  expect(config.secrets).toHaveLength(1)
  expect(inspectConfig(env).config.secrets, 'it is kept nowhere').not.toEqual(config.secrets)
  expect(existsSync(env.INLAY_DATA_DIR)).toBe(false)
  expect(() => inspectConfig({ ...production, ...env, INLAY_SECRET: '' })).toThrow('INLAY_SECRET is missing')
  expect(() => inspectConfig({ ...env, INLAY_SECRET: 'short' })).toThrow('INLAY_SECRET')
  expect(inspectConfig({ ...env, INLAY_SECRET: secret }).config.secrets).toEqual([secret])
})

test('production requires a secret', () => {
  const dataDir = makeFolder()
  expect(problemWith({ ...production, INLAY_DATA_DIR: dataDir, INLAY_SECRET: '' })).toBe(
    'INLAY_SECRET is missing. In production, generate a secret and keep it: INLAY_SECRET="$(openssl rand -base64 32)"',
  )
  expect(() => statSync(join(dataDir, 'secret'))).toThrow('ENOENT')
})

test('production reaches no private network unless configured', () => {
  expect(readConfig(production).allowedPrivateNetworks).toEqual([])
})

test('production only accepts tokens of an https issuer', () => {
  const signIn = { SIGN_IN_ISSUER: 'http://login.example.com', SIGN_IN_AUDIENCE: 'inlay' }
  expect(problemWith({ ...production, ...signIn })).toBe('SIGN_IN_ISSUER must be an https URL in production')
  expect(readConfig({ INLAY_SECRET: secret, ...signIn }).signIn?.issuer).toBe('http://login.example.com')
})

test('development generates a secret once, readable only by its owner', () => {
  const dataDir = join(makeFolder(), 'data')
  const file = join(dataDir, 'secret')
  const { secrets } = readConfig({ INLAY_DATA_DIR: dataDir })
  expect(secrets).toEqual([readFileSync(file, 'utf8').trim()])
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readConfig({ INLAY_DATA_DIR: dataDir }).secrets).toEqual(secrets)
})

test('a configured secret takes precedence over the one in the data folder', () => {
  const dataDir = makeFolder()
  writeFileSync(join(dataDir, 'secret'), otherSecret)
  expect(readConfig({ INLAY_DATA_DIR: dataDir }).secrets).toEqual([otherSecret])
  expect(readConfig({ INLAY_DATA_DIR: dataDir, INLAY_SECRET: secret }).secrets).toEqual([secret])
})

test.each([
  ['INLAY_PUBLC_URL', 'Did you mean INLAY_PUBLIC_URL?'],
  ['INLAY_DATADIR', 'Did you mean INLAY_DATA_DIR?'],
  ['INLAY_DATABASE_URL', 'Did you mean DATABASE_URL?'],
  ['INLAY_PORT', 'Did you mean PORT?'],
  ['SIGN_IN_CLIENTID', 'Did you mean SIGN_IN_CLIENT_ID?'],
  ['MODEL_TIMEOUT', 'docs/configuration.md lists the settings.'],
  ['MODEL_NAMES', 'Did you mean MODEL_NAME?'],
  ['INLAY_FAVOURITE_COLOUR', 'docs/configuration.md lists the settings.'],
])('%s is reported as unknown', (name, advice) => {
  expect(describeUnknownSettings({ ...production, [name]: '9000' })).toEqual([
    `${name} isn't a setting and has no effect. ${advice}`,
  ])
})

test('settings, and variables that Kubernetes sets for a service named inlay, are not reported', () => {
  const names = Object.keys(settings)
  expect(describeUnknownSettings(Object.fromEntries(names.map((name) => [name, '1'])))).toEqual([])
  expect(
    describeUnknownSettings({
      HOME: '/root',
      INLAY_SERVICE_HOST: '10.0.0.1',
      INLAY_SERVICE_PORT_HTTP: '8787',
      INLAY_PORT: 'tcp://10.0.0.1:8787',
      INLAY_PORT_8787_TCP_PROTO: 'tcp',
    }),
  ).toEqual([])
})
