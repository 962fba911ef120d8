import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing, type Repeated } from '../../kernel/lib/clock.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { missingFeature } from '../../plans/plans/plans.ts'
import type * as contract from './contract.ts'
import { announceEnded, endClosedWays, plansWithSignIn } from './ways-in.ts'

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
async function recheckDomain(
  service: Pick<Service, 'activity' | 'changes' | 'config' | 'database' | 'textRecords'>,
  { organization_id: organizationId, ...row }: Pick<DomainRow, 'domain' | 'token'> & { organization_id: string },
): Promise<void> {
  const { domain, token } = row
  const check = await checkDomain(service, row)
  const problem = check.is === 'found' ? null : check.problem
  const trail = { organizationId, actor: 'domain check' }
  const ended = await service.database.asOrg(organizationId, async (sql) => {
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
  service: Pick<Service, 'activity' | 'changes'>,
  {
    organizationId,
    domain,
    token,
    ended,
    why,
  }: Record<'organizationId' | 'domain' | 'token' | 'why', string> & { ended: string[] },
): void {
  announceEnded(service, ended)
  service.activity.refused(organizationId, {
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
  service: Pick<Service, 'activity' | 'config' | 'changes' | 'database' | 'textRecords'>,
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

const repeatMs = 60_000
const domainsAtOnce = 20

/** Checks every verified domain once a day, and ends the sessions of organizations whose plan no longer includes them. */
export function keepCheckingDomains(
  service: Pick<Service, 'activity' | 'changes' | 'config' | 'database' | 'log' | 'textRecords'>,
  everyMs = repeatMs,
): Repeated {
  const { log } = service
  const run = async () => {
    await checkDueDomains(service).catch((error) => log.warn({ err: error }, 'Could not check email domains; retrying'))
    await endLapsedPlans(service).catch((error) => log.warn({ err: error }, 'Could not end sessions; retrying'))
  }
  return keepDoing(run, everyMs)
}

export async function checkDueDomains(service: Parameters<typeof keepCheckingDomains>[0]): Promise<void> {
  const due = await service.database.asDomainChecker(
    (sql) => sql<Parameters<typeof recheckDomain>[1]>`
      select organization_id, domain, token from sign_in_domains
      where verified_at is not null and checked_at < now() - interval '1 day' order by checked_at limit ${domainsAtOnce}`,
  )
  for (const domain of due) await recheckDomain(service, domain)
}

export async function endLapsedPlans({
  changes,
  config,
  database,
}: Pick<Service, 'changes' | 'config' | 'database'>): Promise<void> {
  const open = await database.asDomainChecker(
    (sql) => sql<{ organization_id: string; plan_id: string }>`
      select p.organization_id, o.plan_id from sign_in_providers p join organizations o on o.id = p.organization_id
      where p.is_open`,
  )
  const including = plansWithSignIn(config)
  for (const { organization_id: organizationId } of open.filter(({ plan_id }) => !including.includes(plan_id))) {
    const ended = await database.asOrg(organizationId, async (sql) => {
      if ((await missingFeature(config.plans, sql, 'sso')) === null) return []
      return endClosedWays(sql, config.plans, { organizationId, actor: 'plan' })
    })
    announceEnded({ changes }, ended)
  }
}
