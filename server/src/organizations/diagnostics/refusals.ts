import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type * as contract from './contract.ts'

type Refusals = Output<typeof contract.listRefusals>

export async function listRefusals(
  { database, activity }: Service,
  { organization }: OrgCaller,
  { limit, offset, surface, directory_id }: Input<typeof contract.listRefusals>,
): Promise<Refusals> {
  // The caller is usually looking for a refusal that has just happened.
  await activity.flush()
  return database.asOrg(organization.id, async (sql) => {
    const [row] = await sql<{ total: number }>`
      select count(*) as total from refusals
      where surface = coalesce(${surface ?? null}, surface)
        and (${directory_id ?? null}::uuid is null or directory_id = ${directory_id ?? null})`
    const refusals = await sql<Refusals['refusals'][number]>`
      select id, surface, step, code, message, expected, seen, origin, publishable_key_id, directory_id,
        (select name from directories where directories.id = directory_id) as directory_name, count, first_at, last_at
      from refusals
      where surface = coalesce(${surface ?? null}, surface)
        and (${directory_id ?? null}::uuid is null or directory_id = ${directory_id ?? null})
      order by last_at desc, id desc limit ${limit} offset ${offset}`
    return { refusals, total: row?.total ?? 0 }
  })
}
