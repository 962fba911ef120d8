import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { queryEmbedded, type StartedServer, startProcess } from '../kills.ts'
import { writePolarSettings } from './installation.ts'
import { startPolar } from './stand-in.ts'

/** When the server is killed: as a webhook arrives, or during a request to Polar, before or after it was processed. */
type Moment = { request: string; when: 'before' | 'after' } | 'webhook'

const sync = 'GET /v1/subscriptions/'
const seats = 'PATCH /v1/subscriptions/{id}'
const usage = 'POST /v1/events/ingest'

export const moments: Moment[] = [
  'webhook',
  ...[sync, seats, usage].flatMap((request): Moment[] => [
    { request, when: 'before' },
    { request, when: 'after' },
  ]),
]

export interface BillingKillReport {
  kills: number
  /** Usage events that Polar doesn't have, and events that it has without any usage. */
  missing: string[]
  invented: string[]
  /** What the server stored, and what Polar has. */
  stored: { plan_id: string; seats: number; current_period_end: string }
  expected: { plan_id: string; seats: number; current_period_end: string }
  /** Violations of Polar's schemas. */
  problems: string[]
  audit: string
}

const program = join(import.meta.dirname, '../../bin/inlay.mjs')
const eventsPerKill = 700
const patienceMs = 120_000

/** Kills a server with SIGKILL while it receives webhooks and talks to Polar, and compares both sides afterwards. */
export async function killDuringBilling(dataDir: string, rounds = 1): Promise<BillingKillReport> {
  const polar = await startPolar()
  const settings = writePolarSettings(polar)
  const env = {
    PATH: process.env.PATH ?? '',
    PORT: '0',
    INLAY_DATA_DIR: dataDir,
    INLAY_LOG_LEVEL: 'silent',
    // Keeps the address although every start uses another port.
    INLAY_PUBLIC_URL: 'http://localhost:1',
    ...settings.env,
  }
  const launch = (...args: string[]) =>
    spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const query = <Row>(text: string) => queryEmbedded<Row>(dataDir, text)
  const kill = async (child: ChildProcess) => {
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  const until = async (what: string, isTrue: () => Promise<boolean> | boolean) => {
    for (const deadline = Date.now() + patienceMs; !(await isTrue()); await delay(20)) {
      if (Date.now() > deadline) throw new Error(`This didn't happen within two minutes: ${what}`)
    }
  }

  const deliveries: Promise<void>[] = []
  const recorded: string[] = []
  let server: StartedServer | undefined
  let isOver = false
  /** Like Polar, repeats a webhook until it is accepted. */
  const deliver = async (organizationId: string) => {
    const id = randomUUID()
    while (!isOver) {
      const { headers, body } = polar.webhook(organizationId, { id })
      const response = await fetch(`${server?.url}/billing/webhooks`, { method: 'POST', headers, body }).catch(
        () => null,
      )
      if (response?.status === 202) return
      await delay(20)
    }
  }

  try {
    server = await startProcess(launch)
    const [organization] = await query<{ id: string }>(`select id from organizations where slug = 'demo'`)
    const organizationId = organization?.id ?? ''
    const subscription = polar.subscribe(organizationId, { product_id: polar.products.bySeat, seats: 1 })
    await deliver(organizationId)
    await until('the first sync', async () => (await query('select from subscriptions')).length > 0)
    await kill(server.child)

    const plan = Array.from({ length: rounds }, () => moments).flat()
    for (const [round, moment] of plan.entries()) {
      await query(prepareRound(organizationId, round, recorded))
      polar.change(subscription.id, { current_period_end: new Date(Date.UTC(2030, 0, 1 + round)).toISOString() })
      const starting = startProcess(launch)
      const killed = new Promise<void>((resolve) => {
        polar.trouble = async (name) => {
          if (moment === 'webhook' || name !== moment.request) return undefined
          polar.trouble = undefined
          await kill((await starting).child)
          resolve()
          return moment.when === 'before' ? 'hang up' : 'hang up late'
        }
      })
      server = await starting
      deliveries.push(deliver(organizationId))
      await (moment === 'webhook' ? kill(server.child) : killed)
      // Waiting for the lease of each killed server would make the test slow.
      await query(
        "update jobs set lease = null, due_at = now() where kind like 'billing_%' and due_at < now() + interval '30 minutes'",
      )
    }

    server = await startProcess(launch)
    await Promise.all(deliveries)
    await until('nothing is left to do', async () => {
      const left = await query(`
        select organization_id from jobs where kind like 'billing_%' and due_at < now() + interval '30 minutes'
        union all select organization_id from unreported_usage`)
      return left.length === 0
    })
    const [stored] = await query<BillingKillReport['stored']>(`
      select plan_id, seats, to_char(current_period_end at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as current_period_end
      from subscriptions`)
    const [used] = await query<{ seats: number }>(`
      select ((select count(*) from members where organization_id = '${organizationId}' and deactivated_at is null)
            + (select count(*) from invitations where organization_id = '${organizationId}'))::int as seats`)
    const verification = launch('audit', 'verify', '--org', 'demo')
    const audit = (await verification.stdout.setEncoding('utf8').toArray()).join('')
    return {
      kills: plan.length + 1,
      missing: recorded.filter((id) => !polar.events.has(id)),
      invented: [...polar.events.keys()].filter((id) => !recorded.includes(id)),
      stored: stored as BillingKillReport['stored'],
      expected: {
        plan_id: 'by-seat',
        seats: used?.seats ?? 0,
        current_period_end: subscription.current_period_end,
      },
      problems: polar.problems,
      audit,
    }
  } finally {
    isOver = true
    await Promise.allSettled(deliveries)
    const { child } = server ?? {}
    if (child && child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    }
    await polar.close()
    settings.remove()
  }
}

/** New usage and one more invitation, written while no server runs. */
function prepareRound(organizationId: string, round: number, recorded: string[]): string {
  const ids = Array.from({ length: eventsPerKill }, () => randomUUID())
  recorded.push(...ids)
  const events = ids.map((id) => `('${organizationId}'::uuid, '${id}'::uuid)`).join(', ')
  return `
    with given (organization_id, id) as (values ${events}), added as (
      insert into usage_events (organization_id, id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
      select organization_id, id, 1, 1, 'm', 'stop', now() from given
    ), invited as (
      insert into invitations (organization_id, id, email, role, invited_by)
      values ('${organizationId}', gen_random_uuid(), 'round-${round}@customer.example', 'member', 'admin')
    ), reported as (
      insert into unreported_usage (organization_id, id, created_at) select organization_id, id, now() from given
    )
    select request_jobs('${organizationId}', 'billing_usage', '{""}', now())`
}
