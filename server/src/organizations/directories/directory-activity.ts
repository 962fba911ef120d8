import type { ActivityKind } from '../../kernel/foundation/activity.ts'

/** Accepted requests of directories, by the ID of the directory. */
export const directorySyncs: ActivityKind = {
  table: 'directories',
  write: (sql, noted) => sql`
    update directories t set last_synced_at = greatest(t.last_synced_at, n.at)
    from unnest(${noted.map(({ key }) => key)}::uuid[], ${noted.map(({ at }) => at)}::timestamptz[]) as n (id, at)
    where t.id = n.id`,
}

/** Use of the tokens of directories, by their ID. */
export const directoryTokenUse: ActivityKind = {
  table: 'directory_tokens',
  write: (sql, noted) => sql`
    update directory_tokens t set last_used_at = greatest(t.last_used_at, n.at)
    from unnest(${noted.map(({ key }) => key)}::uuid[], ${noted.map(({ at }) => at)}::timestamptz[]) as n (id, at)
    where t.id = n.id`,
}
