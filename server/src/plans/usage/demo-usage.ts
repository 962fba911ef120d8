import { hash } from 'node:crypto'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { recordUsage, type UsageRecord } from './record.ts'

const dayMs = 24 * 60 * 60 * 1000
const days = 90

const sites = [
  { origin: 'https://shop.demo.test', name: 'Shop' },
  { origin: 'https://help.demo.test', name: 'Help center' },
  { origin: 'https://app.demo.test', name: 'Customer portal' },
]
const endUsers = Array.from({ length: 40 }, (_, n) => `customer-${String(n + 1).padStart(2, '0')}@customers.demo.test`)
const siteOdds = [5, 3, 2]
/** Micro-USD per prompt token; a completion token costs four times as much. */
const models = { prices: { 'demo-small': 1, 'demo-large': 3, 'demo-vision': 5 }, odds: [6, 3, 1] }
const finishReasons = { names: ['stop', 'tool_calls', 'length'], odds: [15, 4, 1] }
/** A few end users write a lot and most write little. The first entry is for anonymous visitors. */
const endUserOdds = [12, ...endUsers.map((_, rank) => 20 / (rank + 2))]

/**
 * Adds 90 days of traffic, typical of a small company. Everything is derived from the time the first site was added, so
 * running it again only adds events that an interrupted run missed. Returns how many events were new.
 */
export async function seedDemoUsage(
  { database, clock }: Pick<Service, 'database' | 'clock'>,
  organizationId: string,
): Promise<number> {
  const start = clock() - days * dayMs
  const known = await database.asOrg(organizationId, async (sql) => ({
    sites: await Promise.all(
      sites.map((site) => findOrAddSite(sql, site, demoId(organizationId, site.origin, start), start)),
    ),
    endUsers: await Promise.all(
      endUsers.map((email) => findOrAddEndUser(sql, email, demoId(organizationId, email, start), start)),
    ),
  }))
  const begun = Date.parse(known.sites[0]?.created_at ?? '')
  const siteIds = known.sites.map(({ id }) => id)
  const events = [...inventEvents(organizationId, begun, siteIds, [null, ...known.endUsers])]
  let added = 0
  for (let from = 0; from < events.length; from += 1000) {
    added += await recordUsage({ database }, events.slice(from, from + 1000))
  }
  return added
}

async function findOrAddSite(sql: Sql, { origin, name }: { origin: string; name: string }, id: string, start: number) {
  const [site] = await sql<{ id: string; created_at: string }>`
    insert into sites (organization_id, id, origin, name, created_at, last_seen_at)
    values (current_organization(), ${id}, ${origin}, ${name}, ${new Date(start).toISOString()}, now())
    on conflict (organization_id, origin) do update set last_seen_at = excluded.last_seen_at
    returning id, created_at`
  return site as { id: string; created_at: string }
}

async function findOrAddEndUser(sql: Sql, email: string, id: string, start: number): Promise<string> {
  const [endUser] = await sql<{ id: string }>`
    insert into end_users (organization_id, id, external_id, email, created_at)
    values (current_organization(), ${id}, ${email}, ${email}, ${new Date(start).toISOString()})
    on conflict (organization_id, issuer, external_id) do update set email = excluded.email
    returning id`
  return endUser?.id as string
}

function* inventEvents(
  organizationId: string,
  start: number,
  siteIds: readonly string[],
  endUserIds: readonly (string | null)[],
): Generator<UsageRecord> {
  const random = createRandom(20_260_315)
  const midnight = Math.floor(start / dayMs) * dayMs
  for (let day = 0; day <= days; day += 1) {
    const weekday = new Date(midnight + day * dayMs).getUTCDay()
    const rhythm = weekday === 0 || weekday === 6 ? 0.35 : 1
    const growth = 1 + day / days
    const requests = Math.round(60 * growth * rhythm * (0.85 + 0.3 * random()))
    for (let number = 0; number < requests; number += 1) {
      const hour = 13 + 3 * normal(random)
      const at = Math.round(midnight + day * dayMs + Math.min(Math.max(hour, 0), 23.99) * (dayMs / 24))
      const traits = {
        end_user_id: pick(random, endUserIds, endUserOdds),
        site_id: pick(random, siteIds, siteOdds),
        prompt_tokens: logNormal(random, 900, 0.8),
        completion_tokens: logNormal(random, 220, 0.7),
      }
      const [model, price] = pick(random, Object.entries(models.prices), models.odds)
      const event: UsageRecord = {
        id: demoId(organizationId, `${day} ${number}`, at),
        organization_id: organizationId,
        thread_id: null,
        ...traits,
        is_estimated: false,
        cost_micro_usd: price * (traits.prompt_tokens + 4 * traits.completion_tokens),
        model,
        finish_reason: pick(random, finishReasons.names, finishReasons.odds),
        created_at: new Date(at).toISOString(),
      }
      if (at >= start && at < start + days * dayMs) yield event
    }
  }
}

/** A deterministic ID that sorts by time, like every other ID. */
function demoId(organizationId: string, name: string, at: number): string {
  const time = at.toString(16).padStart(12, '0')
  const rest = hash('sha256', `${organizationId} ${name}`, 'hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(0, 3)}-a${rest.slice(3, 6)}-${rest.slice(6, 18)}`
}

type Random = () => number

/** A deterministic sequence of numbers from 0 to 1 (a Weyl sequence through an integer mix). */
function createRandom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
}

const normal = (random: Random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

const logNormal = (random: Random, median: number, spread: number) =>
  Math.round(median * Math.exp(spread * normal(random)))

function pick<T>(random: Random, items: readonly T[], odds: readonly number[]): T {
  let rest = random() * odds.reduce((total, share) => total + share)
  for (const [index, share] of odds.entries()) {
    rest -= share
    if (rest < 0) return items[index] as T
  }
  return items[0] as T
}
