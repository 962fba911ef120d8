import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type * as contract from './contract.ts'

type Warning = Output<typeof contract.listWarnings>['warnings'][number]

/** Computes warnings from the current settings, so that a warning disappears as soon as its cause is fixed. */
export async function listWarnings(
  { database, activity }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.listWarnings>> {
  await activity.flush()
  const keys = await database.asOrg(
    organization.id,
    (sql) => sql<Pick<Warning, 'publishable_key_id' | 'origins'> & { name: string; key_prefix: string }>`
      select id as publishable_key_id, name, key_prefix, coalesce((
        select jsonb_agg(jsonb_build_object('origin', origin, 'count', count,
                           'first_at', iso_timestamp(first_at), 'last_at', iso_timestamp(last_at)) order by last_at desc, origin)
        from unallowed_origins where publishable_key_id = publishable_keys.id), '[]') as origins
      from publishable_keys
      where revoked_at is null and allowed_origins = '{}'
        and not exists (select from identity_providers where allowed_domains <> '{}')
      order by id desc limit 100`,
  )
  return {
    warnings: keys.map(({ name, key_prefix, ...key }) => ({
      code: 'KEY_ALLOWS_ANY_ORIGIN',
      message: `The key “${name}” (${key_prefix}…) works on any website. Set its allowed origins, or the organization’s allowed domains.`,
      ...key,
    })),
  }
}
