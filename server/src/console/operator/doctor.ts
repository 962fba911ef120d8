import { statfs } from 'node:fs/promises'
import { serverUrlKey } from '../../accounts/access/access-tokens.ts'
import { createModels } from '../../agent/models/create-models.ts'
import { howToConfigure } from '../../agent/models/installation.ts'
import { ModelFailed } from '../../agent/models/models.ts'
import { createPrices, type ModelFacts } from '../../agent/models/prices.ts'
import { createReceiver } from '../../agent/telemetry/receiver.ts'
import { platformAppUrl } from '../../content/code-host/installations.ts'
import { adviseAfter } from '../../content/code-host/pages.ts'
import type { AppDescription } from '../../content/github/github.ts'
import { GithubError } from '../../content/github/github-errors.ts'
import {
  type Config,
  describeUnknownSettings,
  inspectConfig,
  type PlatformApp,
  prepareDataFolder,
} from '../../kernel/config/config.ts'
import { readProgress } from '../../kernel/jobs/progress.ts'
import { systemClock } from '../../kernel/lib/clock.ts'
import { createLog } from '../../kernel/lib/log.ts'
import { createSafeFetch } from '../../kernel/net/safe-fetch.ts'
import { MigrationFailed } from '../../kernel/stores/postgres/migrations.ts'
import { countMonthsAhead } from '../../kernel/stores/postgres/partitions.ts'
import type { Stores } from '../../kernel/stores/stores.ts'
import { BillingFailed } from '../../plans/subscriptions/billing-provider.ts'
import { DiscoveryFailed, discover } from '../../visitors/identity-provider/discovery.ts'
import { CommandFailed } from './command-failed.ts'
import { withStores } from './stores.ts'

type Finding = { name: string; problem?: string; warning?: string; text: string }

const wantedNode = 26
const wantedDiskBytes = 2 * 1024 ** 3
const toleratedSkewSeconds = 5

/** Checks everything the server needs, and suggests a fix for each problem. Changes nothing. */
export async function examine(): Promise<void> {
  const findings: Finding[] = [checkRuntime()]
  let found: ReturnType<typeof inspectConfig> | undefined
  try {
    found = inspectConfig()
  } catch (error) {
    findings.push({ name: 'configuration', text: '', problem: (error as Error).message })
  }
  const { config, unused } = found ?? {}
  if (config) findings.push(describeConfiguration(config))
  findings.push(...describeUnknownSettings().map((warning) => ({ name: 'configuration', text: '', warning })))
  if (unused) {
    const warning = `${unused.message} If this is a new installation, its first start creates everything.`
    findings.push({ name: 'stores', text: '', warning })
  } else if (config) findings.push(...(await examineStored(config)))
  if (config) findings.push(...(await examineServices(config)))
  for (const finding of findings) console.log(describeFinding(finding))
  if (findings.some(({ problem }) => problem)) throw new CommandFailed('Found problems; see above')
}

/** Checks where the server keeps its data. */
export async function examineStored(config: Config): Promise<Finding[]> {
  const findings: Finding[] = []
  if (!config.databaseUrl || !config.redisUrl) findings.push(await checkDisk(config))
  findings.push(...(await checkStores(config)))
  return findings
}

/** Checks the services that the settings name. */
export async function examineServices(config: Config): Promise<Finding[]> {
  const findings: Finding[] = []
  findings.push(await checkSignIn(config))
  findings.push(await checkModel(config))
  if (config.polar) findings.push(await checkBilling(config, config.polar))
  if (config.mail) findings.push(await checkMail(config.mail))
  if (config.github.app) findings.push(await checkGithub(config, config.github.app))
  if (config.telemetry) findings.push(await checkTelemetry(config, config.telemetry))
  return findings
}

export const describeFinding = ({ name, text, problem, warning }: Finding): string =>
  `${problem ? '✗' : warning ? '!' : '✓'} ${name.padEnd(14)} ${problem ?? warning ?? text}`

const describeConfiguration = ({ mode, publicUrl }: Config): Finding => ({
  name: 'configuration',
  text: publicUrl ? `${mode}, ${publicUrl}` : mode,
})

function checkRuntime(): Finding {
  const isRight = Number(process.versions.node.split('.')[0]) >= wantedNode
  const text = `Node ${process.version} on ${process.platform}-${process.arch}`
  return {
    name: 'runtime',
    text,
    ...(!isRight && { problem: `${text}; Inlay needs Node ${wantedNode}. Run: node scripts/setup.mjs` }),
  }
}

async function checkDisk({ dataDir }: Config): Promise<Finding> {
  try {
    prepareDataFolder(dataDir)
    const { bavail, bsize } = await statfs(dataDir)
    const free = bavail * bsize
    const text = `${(free / 1024 ** 3).toFixed(1)} GiB free for ${dataDir}`
    return {
      name: 'disk',
      text,
      ...(free < wantedDiskBytes && {
        problem: `${text}; PostgreSQL stops when the disk is full. Free some space, or move INLAY_DATA_DIR.`,
      }),
    }
  } catch (error) {
    return { name: 'disk', text: '', problem: (error as Error).message }
  }
}

async function checkStores(config: Config): Promise<Finding[]> {
  try {
    return await withStores({ ...config, migratesOnStart: false }, async (stores) => [
      await checkDatabase(stores),
      await checkPartitions(config, stores),
      await checkKv(config, stores),
      await checkClock(stores),
      await checkJobs(stores),
      ...(config.publicUrl ? [] : [await checkServer(stores)]),
    ])
  } catch (error) {
    const { message } = error as Error
    if (error instanceof MigrationFailed && config.migratesOnStart)
      return [{ name: 'stores', text: '', warning: `${message} The next start of the server does it too.` }]
    return [{ name: 'stores', text: '', problem: message }]
  }
}

async function checkSignIn({ signIn, signInClient, allowedPrivateNetworks, mode }: Config): Promise<Finding> {
  const name = 'sign-in'
  const issuer = (signInClient ?? signIn)?.issuer
  if (!issuer) {
    return { name, text: `with passwords${mode === 'development' ? '; demo users with one click' : ''}` }
  }
  const fetch = createSafeFetch({ allowedPrivateNetworks })
  try {
    await discover({ fetch }, { issuer, audiences: null })
    return { name, text: signInClient ? `at ${issuer}` : `with passwords, or access tokens from ${issuer}` }
  } catch (error) {
    if (!(error instanceof DiscoveryFailed)) throw error
    const setting = error.step === 'blocked_address' ? 'INLAY_ALLOWED_PRIVATE_NETWORKS' : 'SIGN_IN_ISSUER'
    return { name, text: '', problem: `Can't use ${issuer}: ${error.message}. Check ${setting}.` }
  } finally {
    await fetch.close()
  }
}

/** Calls a real model once, because a wrong key or name would otherwise first appear in a conversation. */
async function checkModel(config: Config): Promise<Finding> {
  const name = 'model'
  const models = await createModels({ config })
  try {
    const { reason } = models.installation()
    const [model] = models.choose([])
    if (!model) return { name, text: '', warning: `${reason} ${howToConfigure}` }
    const text = `${model.name}: ${reason}`
    if (model.source === 'demo') return { name, text: `${text} ${howToConfigure}` }
    const { latency_ms } = await models.test(model)
    const { price } = createPrices(config).describe(model)
    return { name, text: `${text} It responded in ${latency_ms} ms. ${describePrice(price)}` }
  } catch (error) {
    if (!(error instanceof ModelFailed)) throw error
    return { name, text: '', problem: error.message }
  } finally {
    await models.close()
  }
}

/** Reads the product of every plan, because a wrong token or product would otherwise first appear at a checkout. */
async function checkBilling(config: Config, polar: NonNullable<Config['polar']>): Promise<Finding> {
  const name = 'billing'
  const { createPolarBilling } = await import('../../plans/billing/polar-billing.ts')
  const billing = createPolarBilling({ ...config, polar, publicUrl: config.publicUrl ?? '' })
  const sold = config.plans.flatMap(({ id, product_id }) => (product_id ? { id, product_id } : []))
  try {
    const archived: string[] = []
    for (const { id, product_id } of sold) {
      if ((await billing.describeProduct(product_id)).isArchived) archived.push(id)
    }
    const warning = `Polar’s products of these plans are archived, so nobody can buy them: ${archived.join(', ')}`
    const text = `${polar.url} sells ${sold.map(({ id }) => id).join(', ')}`
    return { name, text, ...(archived.length > 0 && { warning }) }
  } catch (error) {
    if (!(error instanceof BillingFailed)) throw error
    return { name, text: '', problem: `${error.message}. ${adviseBilling(error)}` }
  } finally {
    await billing.close()
  }
}

/** What GitHub can tell: not whether the secrets are right. */
function describeGithubProblems(
  { publicUrl }: Config,
  { id, slug, clientId }: PlatformApp,
  { permissions, events, webhookUrl, ...found }: AppDescription,
): string[] {
  const problems: string[] = []
  const wanted = `${publicUrl}/api/org-github-apps/webhook`
  if (found.slug !== slug)
    problems.push(`The app ${id} is called “${found.slug}” on GitHub, not “${slug}”. Check INLAY_GITHUB_APP_SLUG.`)
  if (found.client_id !== undefined && found.client_id !== clientId)
    problems.push(`Its client ID is “${found.client_id}”, not “${clientId}”. Check INLAY_GITHUB_APP_CLIENT_ID.`)
  for (const name of ['contents', 'metadata'])
    if (permissions[name] !== 'read')
      problems.push(`It has the permission “${name}: ${permissions[name] ?? 'no access'}”. Choose read-only on GitHub.`)
  const others = Object.keys(permissions).filter((name) => name !== 'contents' && name !== 'metadata')
  if (others.length > 0)
    problems.push(`It has permissions that Inlay doesn’t need: ${others.join(', ')}. Remove them on GitHub.`)
  if (!events.includes('push')) problems.push('It doesn’t subscribe to the event “Push”. Add it on GitHub.')
  if (publicUrl && webhookUrl !== wanted)
    problems.push(`Its webhook URL is “${webhookUrl ?? 'none'}”, not “${wanted}”. Change it on GitHub.`)
  return problems
}

/** Asks GitHub about the operator's app. */
async function checkGithub(config: Config, app: PlatformApp): Promise<Finding> {
  const name = 'github'
  const { createGithub } = await import('../../content/github/github.ts')
  const service = {
    config: { ...config, publicUrl: config.publicUrl ?? '' },
    clock: systemClock,
    log: createLog('silent'),
  }
  const github = createGithub(service)
  try {
    const found = await github.describeApp({ app_id: app.id, private_key: app.privateKey })
    const problems = describeGithubProblems(config, app, found)
    return {
      name,
      text: `organizations can install ${platformAppUrl(service.config)}`,
      ...(problems.length > 0 && { problem: problems.join(' ') }),
    }
  } catch (error) {
    if (!(error instanceof GithubError)) throw error
    const problem =
      error.status === 401 || error.status === 404
        ? `GitHub doesn't have the app ${app.id} with this private key. Check INLAY_GITHUB_APP_ID and INLAY_GITHUB_APP_PRIVATE_KEY.`
        : adviseAfter(error, 'Check GITHUB_URL.')
    return { name, text: '', problem }
  } finally {
    await github.close()
  }
}

/** Connects and signs in to the SMTP server, and sends nothing. */
async function checkMail(mail: NonNullable<Config['mail']>): Promise<Finding> {
  const { createTransport } = await import('../../organizations/mail/sender.ts')
  const transport = createTransport(mail)
  const { host } = new URL(mail.url)
  try {
    await transport.verify()
    return { name: 'mail', text: `${host} accepts mail from ${mail.from}` }
  } catch (error) {
    const problem = `${host} can't be used: ${(error as Error).message}. Check INLAY_SMTP_URL.`
    return { name: 'mail', text: '', problem }
  } finally {
    transport.close()
  }
}

function adviseBilling({ status }: BillingFailed): string {
  if (status === 401 || status === 403) return 'Check POLAR_ACCESS_TOKEN, its scopes, and POLAR_URL.'
  if (status === 404) return 'Check the product_id of each plan in INLAY_PLANS_FILE, and POLAR_URL.'
  return 'Check POLAR_URL.'
}

/** Sends an empty request, which receivers accept. Without a receiver, everything else works. */
async function checkTelemetry(config: Config, settings: NonNullable<Config['telemetry']>): Promise<Finding> {
  const receiver = createReceiver(settings, config)
  const refusal = await receiver.post('traces', Buffer.alloc(0))
  await receiver.close()
  const contents = settings.areContentsSent ? 'with contents' : 'without contents'
  const text = `to ${settings.url}, ${contents}`
  return { name: 'telemetry', text, ...(refusal && { warning: `${settings.url}: ${refusal.message}` }) }
}

function describePrice(price: ModelFacts['price']): string {
  if (!price) return 'Its price is unknown; to use budgets in money, set INLAY_MODEL_PRICES.'
  const [prompt, completion] = [price.prompt, price.completion].map((microUsd) => (microUsd / 1_000_000).toFixed(2))
  return `It costs ${prompt} USD for a million prompt tokens, and ${completion} USD for a million completion tokens.`
}

/** A server without a public URL stores the URL that it starts on, because its port may vary. */
async function checkServer({ kv }: Stores): Promise<Finding> {
  const url = await kv.get<string>(serverUrlKey)
  const isRunning = url && (await fetch(url, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined))
  return { name: 'server', text: isRunning ? `running at ${url}` : 'not running' }
}

async function checkDatabase({ database }: Stores): Promise<Finding> {
  const [row] = await database.asService(
    (sql) => sql<{ version: string; major: number }>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int / 10000 as major`,
  )
  const text = `PostgreSQL ${row?.version}, schema up to date`
  return {
    name: 'database',
    text,
    ...((row?.major ?? 0) < 15 && { problem: `PostgreSQL ${row?.version}; Inlay needs 15 or newer` }),
  }
}

/** Background work that is late or keeps failing. */
async function checkJobs({ database }: Stores): Promise<Finding> {
  const kinds = await readProgress(database)
  const due = kinds.reduce((sum, kind) => sum + kind.due, 0)
  const oldest = Math.max(0, ...kinds.map((kind) => kind.oldest_seconds))
  const age = due > 0 ? `, the oldest for ${Math.round(oldest)} s` : ''
  const text = `${due} due${age}`
  const failing = kinds.filter((kind) => kind.failing > 0)
  const failures = failing.map(({ kind, failing, given_up, last_error }) => {
    const forGood = given_up > 0 ? `, ${given_up} of them for good` : ''
    return `${failing} of ${kind}${forGood} (${last_error})`
  })
  return {
    name: 'jobs',
    text,
    ...(failing.length > 0 && { warning: `${text}. These keep failing: ${failures.join('; ')}` }),
  }
}

/** The server makes partitions for more than a year ahead. */
async function checkPartitions({ keptMonths }: Config, { database }: Stores): Promise<Finding> {
  const months = await countMonthsAhead(database, Date.now())
  const text = `partitions for ${months} months ahead`
  const kept = Object.entries(keptMonths)
    .filter(([, count]) => count !== undefined)
    .map(([table, count]) => `${table.replaceAll('_', ' ')} for ${count} months`)
  return {
    name: 'partitions',
    text: kept.length > 0 ? `${text}; keeps ${kept.join(', ')}` : text,
    ...(months < 2 && {
      warning: `There are ${text}, and nothing can be written when they end. A running server makes them: see its log for “Could not make the partitions”.`,
    }),
  }
}

async function checkKv({ redisUrl, dataDir }: Config, { kv }: Stores): Promise<Finding> {
  const [store, setting] = redisUrl ? ['Redis', 'REDIS_URL'] : ['the file store', `the data folder ${dataDir}`]
  const text = `${redisUrl ? store : 'file store'} is available`
  return kv.ping().then(
    () => ({ name: 'key-value', text }),
    (error) => ({ name: 'key-value', text, problem: `Can't reach ${store} (${error.message}). Check ${setting}.` }),
  )
}

/** Tokens and tickets expire by the clock, so this machine and the database must agree on the time. */
async function checkClock({ database }: Stores): Promise<Finding> {
  const before = Date.now()
  const [row] = await database.asService(
    (sql) => sql<{ now: number }>`select extract(epoch from clock_timestamp()) as now`,
  )
  const skew = Math.abs((row?.now ?? 0) - (before + Date.now()) / 2000)
  const text = `within ${skew.toFixed(3)} s of the database`
  return {
    name: 'clock',
    text,
    ...(skew > toleratedSkewSeconds && { problem: `${text}; synchronize both clocks with NTP` }),
  }
}
