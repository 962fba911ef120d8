import type { ActivityKind } from '../../kernel/foundation/activity.ts'

/** Use of publishable keys, by their ID. */
export const keyUse: ActivityKind = {
  table: 'publishable_keys',
  write: (sql, noted) => sql`
    update publishable_keys t set last_used_at = greatest(t.last_used_at, n.at)
    from unnest(${noted.map(({ key }) => key)}::uuid[], ${noted.map(({ at }) => at)}::timestamptz[]) as n (id, at)
    where t.id = n.id`,
}

/** Maximum number of unallowed origins per organization, because anyone with a key can send any number of them. */
const keptOrigins = 20

/** Use of keys on origins that no administrator allowed, by key and origin. */
export const unallowedOrigins: ActivityKind<{ keyId: string; origin: string }> = {
  table: 'unallowed_origins',
  limit: keptOrigins,
  async write(sql, noted) {
    await sql`
      insert into unallowed_origins (organization_id, publishable_key_id, origin, count, first_at, last_at)
      select current_organization(), key_id, origin, count, at, at
      from unnest(${noted.map(({ fact }) => fact.keyId)}::uuid[], ${noted.map(({ fact }) => fact.origin)}::text[],
                  ${noted.map(({ count }) => count)}::bigint[], ${noted.map(({ at }) => at)}::timestamptz[])
           as seen (key_id, origin, count, at)
      on conflict (organization_id, publishable_key_id, origin) do update
        set count = unallowed_origins.count + excluded.count, last_at = greatest(unallowed_origins.last_at, excluded.last_at)`
    await sql`
      delete from unallowed_origins where (publishable_key_id, origin) in (
        select publishable_key_id, origin from unallowed_origins
        order by last_at desc, publishable_key_id, origin offset ${keptOrigins})`
  },
}
