import { demoUsers } from '../../accounts/users/demo-users.ts'
import { addLocalUser, findUserByEmail } from '../../accounts/users/local-accounts.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { foundOrganization } from '../../organizations/organizations/organizations.ts'

type Seedable = Pick<Service, 'database'>

export const isSeeded = async (service: Seedable): Promise<boolean> =>
  (await findUserByEmail(service, demoUsers[3].email)) !== undefined

/** Creates two organizations that share a user, to try out tenant isolation. Idempotent. */
export async function seedDemo(service: Seedable): Promise<{ demo: string }> {
  const [admin, member, otherAdmin] = await Promise.all(
    demoUsers.slice(0, 3).map((person) => findOrAdd(service, person)),
  )
  if (!admin || !member || !otherAdmin) throw new Error('The demo users are missing')
  const demo = await findOrFound(service, { name: 'Demo', slug: 'demo', planId: 'enterprise', founder: admin })
  const other = await findOrFound(service, { name: 'Other', slug: 'other', planId: 'free', founder: otherAdmin })
  await join(service, demo, member.id, 'member')
  await join(service, other, member.id, 'admin')
  // Added last: `isSeeded` checks for this user.
  await findOrAdd(service, demoUsers[3])
  return { demo }
}

const findOrAdd = async (service: Seedable, { email, name }: { email: string; name: string }) =>
  (await findUserByEmail(service, email)) ?? addLocalUser(service, { email, name })

type Wanted = Parameters<typeof foundOrganization>[1] & { slug: string }

const findOrFound = async (service: Seedable, wanted: Wanted): Promise<string> =>
  (await findOrganization(service, wanted.founder.id, wanted.slug)) ?? (await foundOrganization(service, wanted)).id

export async function findOrganization(
  { database }: Seedable,
  memberId: string,
  slug: string,
): Promise<string | undefined> {
  const [found] = await database.asUser(
    memberId,
    (sql) => sql<{ id: string }>`select id from organizations where slug = ${slug}`,
  )
  return found?.id
}

async function join({ database }: Seedable, organizationId: string, userId: string, role: string): Promise<void> {
  await database.asOrg(
    organizationId,
    (sql) => sql`
      insert into members (organization_id, id, user_id, role) values (${organizationId}, ${newId()}, ${userId}, ${role})
      on conflict (organization_id, user_id) do nothing`,
  )
}
