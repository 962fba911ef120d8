import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { againAt, type Job, type JobKind } from '../../kernel/jobs/jobs.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { recordRefusal } from '../../organizations/diagnostics/refusals.ts'
import { missingFeature } from '../../plans/plans/plans.ts'
import type * as contract from './contract.ts'
import { announceEnded, checkPlanEverySeconds, endClosedWays, signInPlanCheck } from './ways-in.ts'

export interface DomainRow {
  id: string
  domain: string
  token: string
  verified_at: string | null
  checked_at: string | null
  missing_since: string | null
  problem: string | null
}

export const selectDomains = (sql: Sql) => sql<DomainRow>`
  select id, domain, token, verified_at, checked_at, missing_since, problem from sign_in_domains order by domain`

const recordName = (domain: string) => `_inlay.${domain}`
const recordValue = (token: string) => `inlay-verification=${token}`

export function describeDomain({
  token,
  missing_since,
  ...row
}: DomainRow): Output<typeof contract.verifySignInDomain> {
  const status = row.verified_at === null ? 'pending' : missing_since === null ? 'verified' : 'missing'
  return { ...row, status, record_name: recordName(row.domain), record_value: recordValue(token) }
}

type Check = { is: 'found' } | { is: 'missing' | 'unknown'; problem: string }

/** Looks for the record at both names. `unknown` says nothing about the record: the DNS didn't respond. */
export async function checkDomain(
  { textRecords }: Pick<Service, 'textRecords'>,
  { domain, token }: Pick<DomainRow, 'domain' | 'token'>,
): Promise<Check> {
  const names = [recordName(domain), domain]
  const answers = await Promise.allSettled(names.map(textRecords))
  const records = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (records.includes(recordValue(token))) return { is: 'found' }
  const failed = answers.find((answer) => answer.status === 'rejected')
  if (failed) {
    const code = String((failed.reason as NodeJS.ErrnoException).code ?? 'unknown error')
    const problem = `The DNS servers of ${domain} couldn’t be asked (${code}). Try again in a few minutes.`
    return { is: 'unknown', problem }
  }
  const others = records.some((record) => record.startsWith('inlay-verification='))
  const problem = others
    ? `${recordName(domain)} has another inlay-verification record. Replace it with ${recordValue(token)}.`
    : `Neither ${recordName(domain)} nor ${domain} has the TXT record ${recordValue(token)}. A new record can take an hour to appear.`
  return { is: 'missing', problem }
}

const keptDays = 7

/**
 * Checks a verified domain again. If its record has been missing for a week, the domain is no longer verified, and the
 * sessions of its users end.
 */
async function recheckDomain(service: CheckParts, job: Job, { domain, token }: DomainRow): Promise<void> {
  const { organizationId } = job
  const check = await checkDomain(service, { domain, token })
  const problem = check.is === 'found' ? null : check.problem
  const trail = { organizationId, actor: 'domain check' }
  const ended = await job.transaction(async (sql) => {
    const [saved] = await sql<{ is_lost: boolean }>`
      update sign_in_domains
      set checked_at = now(), problem = ${problem},
          missing_since = case ${check.is} when 'found' then null when 'missing' then coalesce(missing_since, now()) else missing_since end
      where domain = ${domain} and token = ${token} and verified_at is not null
      returning missing_since <= now() - make_interval(days => ${keptDays}) as is_lost`
    if (check.is !== 'missing' || !saved?.is_lost) return undefined
    await sql`update sign_in_domains set verified_at = null, missing_since = null where domain = ${domain}`
    const ended = await endClosedWays(sql, service.config.plans, trail)
    await recordAudit(sql, trail, 'sign_in_domain.lost', domain)
    return ended
  })
  if (ended) spreadLoss(service, { organizationId, domain, token, ended, why: `has been missing for ${keptDays} days` })
}

function spreadLoss(
  service: Pick<Service, 'activity' | 'metrics' | 'changes'>,
  {
    organizationId,
    domain,
    token,
    ended,
    why,
  }: Record<'organizationId' | 'domain' | 'token' | 'why', string> & { ended: string[] },
): void {
  announceEnded(service, ended)
  recordRefusal(service, organizationId, {
    surface: 'sign_in',
    step: 'domain',
    code: 'DOMAIN_NOT_VERIFIED',
    message: `The DNS record that proves ${domain} ${why}, so users with an address in it can’t sign in at your provider. Create the record again and verify the domain.`,
    expected: recordValue(token),
    seen: 'no such TXT record',
  })
}

/**
 * Takes a domain from the organization that has verified it if its record is gone, at the moment when another organization
 * has proven it. Without an answer from the DNS, nothing changes.
 */
export async function releaseLostDomain(
  service: Pick<Service, 'activity' | 'metrics' | 'config' | 'changes' | 'database' | 'textRecords'>,
  domain: string,
  provenBy: string,
): Promise<void> {
  const { config, database } = service
  const [holder] = await database.asEmailDomain(
    domain,
    (sql) => sql<{ organization_id: string; token: string }>`
      select organization_id, token from sign_in_domains where domain = ${domain}`,
  )
  if (!holder || holder.organization_id === provenBy) return
  const { organization_id: organizationId, token } = holder
  if ((await checkDomain(service, { domain, token })).is !== 'missing') return
  const trail = { organizationId, actor: 'domain check' }
  const ended = await database.asOrg(organizationId, async (sql) => {
    const [lost] = await sql`
      update sign_in_domains set verified_at = null, missing_since = null, checked_at = now()
      where domain = ${domain} and token = ${token} and verified_at is not null returning id`
    if (!lost) return undefined
    const ended = await endClosedWays(sql, config.plans, trail)
    await recordAudit(sql, trail, 'sign_in_domain.lost', domain)
    return ended
  })
  if (ended)
    spreadLoss(service, {
      organizationId,
      domain,
      token,
      ended,
      why: 'is gone, and another organization has proven the domain',
    })
}

export const domainCheck = 'domain_check'
const checkEverySeconds = 24 * 60 * 60

/** Has a domain checked once a day, from the transaction that verifies it. */
export const requestCheck = (sql: Sql, id: string) =>
  requestJob(sql, domainCheck, { key: id, due: { inSeconds: checkEverySeconds } })

type CheckParts = Pick<Service, 'activity' | 'metrics' | 'changes' | 'config' | 'database' | 'textRecords'>

/** Checks a verified domain once a day. */
export const checkingDomains = (service: CheckParts): JobKind => ({
  name: domainCheck,
  atOnce: 4,
  longestMs: 5 * 60_000,
  async run(job) {
    const row = await job.transaction((sql) => readVerified(sql, job.key))
    if (row?.is_due) await recheckDomain(service, job, row)
    return job.settle(async (sql) => againAt((await readVerified(sql, job.key))?.next_at))
  },
})

async function readVerified(sql: Sql, id: string) {
  const [row] = await sql<DomainRow & { is_due: boolean; next_at: string }>`
    select id, domain, token, verified_at, checked_at, missing_since, problem, next_at, next_at <= now() as is_due
    from sign_in_domains, make_interval(secs => ${checkEverySeconds}) as every,
         lateral (select coalesce(checked_at, verified_at) + every as next_at) as next
    where id = ${id} and verified_at is not null`
  return row
}

/** Ends the sessions of an organization's users when its plan no longer includes signing in at its own provider. */
export const checkingPlans = ({ changes, config }: Pick<Service, 'changes' | 'config'>): JobKind => ({
  name: signInPlanCheck,
  atOnce: 2,
  async run(job) {
    const { organizationId } = job
    let ended: string[] = []
    const outcome = await job.settle(async (sql) => {
      const [open] = await sql`select from sign_in_providers where is_open`
      if (!open) return 'done'
      if ((await missingFeature(config.plans, sql, 'sso')) === null)
        return { again: { inSeconds: checkPlanEverySeconds } }
      ended = await endClosedWays(sql, config.plans, { organizationId, actor: 'plan' })
      return 'done'
    })
    announceEnded({ changes }, ended)
    return outcome
  },
})
