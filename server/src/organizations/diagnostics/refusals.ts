import { hash } from 'node:crypto'
import type { ActivityKind } from '../../kernel/foundation/activity.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import { type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type * as contract from './contract.ts'

/** Tells the administrator why a caller was refused. Contains no secrets. */
export interface Refusal {
  surface: 'ticket' | 'id_token' | 'scim' | 'delegated_identity' | 'sign_in'
  step: string
  code: string
  message: string
  expected?: string | undefined
  seen?: string | undefined
  origin?: string | undefined
  publishable_key_id?: string | undefined
  directory_id?: string | undefined
}

const keptRefusals = 200

/** Refusals, by their fingerprint. */
const refusalActivity: ActivityKind<Refusal> = {
  table: 'refusals',
  limit: 50,
  async write(sql, noted) {
    const rows = noted.map(({ key, fact, count, at }) => ({ ...fact, id: newId(), fingerprint: key, count, at }))
    await sql`
      insert into refusals (organization_id, id, fingerprint, surface, step, code, message, expected, seen, origin,
                            publishable_key_id, directory_id, count, first_at, last_at)
      select current_organization(), id, fingerprint, surface, step, code, message, expected, seen, origin,
             publishable_key_id, directory_id, count, at, at
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as r (
        id uuid, fingerprint text, surface text, step text, code text, message text, expected text, seen text, origin text,
        publishable_key_id uuid, directory_id uuid, count bigint, at timestamptz)
      on conflict (organization_id, fingerprint) do update
        set count = refusals.count + excluded.count, last_at = greatest(refusals.last_at, excluded.last_at)`
    await sql`
      delete from refusals where id in (select id from refusals order by last_at desc, id desc offset ${keptRefusals})`
  },
}

/** What a function that refuses callers needs. */
export type RefusalLog = Pick<Service, 'activity' | 'metrics'>

export function recordRefusal({ activity, metrics }: RefusalLog, organizationId: string, refusal: Refusal): void {
  metrics.countRefusal(refusal.surface, refusal.code)
  activity.note(refusalActivity, organizationId, hash('sha256', JSON.stringify(refusal), 'base64url'), refusal)
}

type Refusals = Output<typeof contract.listRefusals>

/** Above the latest refusal. */
const top = ['infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff'] as const

export async function listRefusals(
  { database, activity }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor = top, surface, directory_id }: Input<typeof contract.listRefusals>,
): Promise<Paged<Refusals>> {
  const [at, id] = cursor
  // The caller is usually looking for a refusal that has just happened.
  await activity.flush()
  return database.asOrg(organization.id, async (sql) => {
    const [row] = await sql<{ total: number }>`
      select count(*) as total from refusals
      where surface = coalesce(${surface ?? null}, surface)
        and (${directory_id ?? null}::uuid is null or directory_id = ${directory_id ?? null})`
    const found = await sql<Refusals['refusals'][number]>`
      select id, surface, step, code, message, expected, seen, origin, publishable_key_id, directory_id,
        (select name from directories where directories.id = directory_id) as directory_name, count, first_at, last_at
      from refusals
      where surface = coalesce(${surface ?? null}, surface)
        and (${directory_id ?? null}::uuid is null or directory_id = ${directory_id ?? null})
        and (last_at, id) < (${at}::timestamptz, ${id}::uuid)
      order by last_at desc, id desc limit ${limit + 1} offset ${offset}`
    const { rows: refusals, next_cursor } = takePage(found, limit, ({ last_at, id }) => [last_at, id])
    return { body: { refusals, total: row?.total ?? 0 }, next_cursor }
  })
}
