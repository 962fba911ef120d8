import type { OrgCaller } from '../access.ts'
import { notFound } from '../errors.ts'
import type { Input, Output } from '../operation.ts'
import type { Service } from '../service.ts'
import type * as contract from './contract.ts'

type EndUser = Output<typeof contract.getEndUser>

export async function listEndUsers(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset }: Input<typeof contract.listEndUsers>,
): Promise<Output<typeof contract.listEndUsers>> {
  return database.asOrg(organization.id, async (sql) => {
    const [row] = await sql<{ total: number }>`select count(*) as total from end_users`
    const users = await sql<EndUser>`
      select id, organization_id, external_id, email, metadata, last_activity_at, created_at, updated_at
      from end_users order by created_at, id limit ${limit} offset ${offset}`
    return { users, total: row?.total ?? 0 }
  })
}

export async function getEndUser(
  { database }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getEndUser>,
): Promise<EndUser> {
  const [user] = await database.asOrg(
    organization.id,
    (sql) => sql<EndUser>`
      select id, organization_id, external_id, email, metadata, last_activity_at, created_at, updated_at
      from end_users where id = ${id}`,
  )
  if (!user) throw notFound('end_user', id)
  return user
}
