import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueAccessToken } from '../../src/accounts/access/access-tokens.ts'
import { findUserByEmail } from '../../src/accounts/users/local-accounts.ts'
import { shippedPlanFile } from '../../src/kernel/config/plan-file.ts'
import { resources } from '../../src/kernel/http/protected-resources.ts'
import { foundOrganization } from '../../src/organizations/organizations/organizations.ts'
import { startTestService, type TestService } from '../harness.ts'
import { type PolarStandIn, startPolar } from './stand-in.ts'

export interface PolarInstallation {
  app: TestService
  polar: PolarStandIn
  close(): Promise<void>
}

/** A service whose plans are sold by a local stand-in for Polar. */
export async function startPolarInstallation(): Promise<PolarInstallation> {
  const polar = await startPolar()
  const settings = writePolarSettings(polar)
  const app = await startTestService(settings.env)
  return {
    app,
    polar,
    async close() {
      await app.close()
      await polar.close()
      settings.remove()
    },
  }
}

/** Settings for a server that uses the stand-in, with a plan file of its products. */
export function writePolarSettings(polar: PolarStandIn): { env: Record<string, string>; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-polar-'))
  const { team, enterprise, bySeat } = polar.products
  const products: Record<string, string> = { team, enterprise }
  const shipped = JSON.parse(readFileSync(shippedPlanFile, 'utf8')) as { id: string }[]
  const plans = shipped.map((plan) => ({ ...plan, ...(products[plan.id] && { product_id: products[plan.id] }) }))
  const sold = { ...shipped.at(-1), id: 'by-seat', name: 'By seat', product_id: bySeat }
  writeFileSync(join(folder, 'plans.json'), JSON.stringify([...plans, sold]))
  return {
    env: {
      POLAR_URL: polar.url,
      POLAR_ACCESS_TOKEN: polar.accessToken,
      POLAR_WEBHOOK_SECRET: polar.webhookSecret,
      INLAY_PLANS_FILE: join(folder, 'plans.json'),
    },
    remove: () => rmSync(folder, { recursive: true }),
  }
}

export interface PolarCustomer {
  id: string
  request: (method: string, path: string) => ReturnType<TestService['request']>
  /** Sends a webhook of the stand-in to the service. */
  receive(options?: Parameters<PolarStandIn['webhook']>[1]): Promise<{ status: number; outcome: unknown }>
  plan(): Promise<string>
  /** The jobs that are to be done at Polar. Those that only recur, in a day or later, are left out. */
  work(): Promise<{ kind: string; attempts: number; is_due: boolean; is_leased: boolean }[]>
  /** Makes all of them due now, without those that are running. */
  hurry(): Promise<void>
}

/** A separate organization for a test, with one member, and its admin's requests. */
export async function makePolarCustomer({ app, polar }: PolarInstallation): Promise<PolarCustomer> {
  const admin = await findUserByEmail(app.service, 'admin@demo.test')
  if (!admin) throw new Error('The demo lacks its admin')
  const { id } = await foundOrganization(app.service, { name: 'Customer', founder: admin, planId: 'free' })
  const { database } = app.service
  const request = async (method: string, path: string) => {
    const token = await issueAccessToken(app.service, {
      userId: admin.id,
      organizationId: id,
      audience: Object.values(resources(app.service.config.publicUrl)),
      lifetimeSeconds: 3600,
    })
    return app.request(method, path, { token })
  }
  return {
    id,
    request,
    async receive(options) {
      const response = await app.fetch('/billing/webhooks', { method: 'POST', ...polar.webhook(id, options) })
      return { status: response.status, outcome: ((await response.json()) as { status: unknown }).status }
    },
    plan: async () => (await request('GET', '/plan-tiers/current?include=basic')).body.plan.id,
    work: () =>
      database.asOrg(
        id,
        (sql) => sql`
          select kind, attempts, due_at <= now() as is_due, lease is not null as is_leased
          from jobs where kind like 'billing_%' and due_at < now() + interval '2 hours' order by kind`,
      ),
    async hurry() {
      await database.asOrg(id, async (sql) => {
        sql.wakeWorker?.()
        await sql`
          update jobs set due_at = now()
          where kind like 'billing_%' and due_at < now() + interval '2 hours' and lease is null`
      })
    },
  }
}
