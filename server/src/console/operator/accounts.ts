import { issueAccessToken, serverUrlKey } from '../../accounts/access/access-tokens.ts'
import { listPasskeys, removeAllPasskeys } from '../../accounts/passkeys/passkeys.ts'
import { createPasswordLink } from '../../accounts/sign-in/password-pages.ts'
import { removeSecondFactor } from '../../accounts/sign-in/second-factor.ts'
import { addLocalUser, EmailTaken, findLocalAccount, findUserByEmail } from '../../accounts/users/local-accounts.ts'
import { recordHappening } from '../../accounts/users/user-trail.ts'
import type { Config } from '../../kernel/config/config.ts'
import { Role } from '../../kernel/foundation/shapes.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { systemClock } from '../../kernel/lib/clock.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { nameProblem } from '../../kernel/lib/names.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation } from '../../kernel/stores/database.ts'
import type { Stores } from '../../kernel/stores/stores.ts'
import { forgetFormerMember } from '../../organizations/organizations/former-members.ts'
import { findVerifiedEmail } from '../../organizations/organizations/invitations.ts'
import { foundOrganization, slugOf } from '../../organizations/organizations/organizations.ts'
import { requireWithinPlan } from '../../plans/plans/plans.ts'
import { createKey as createKeyContract } from '../../visitors/publishable-keys/contract.ts'
import { addKey } from '../../visitors/publishable-keys/keys.ts'
import { CommandFailed } from './command-failed.ts'
import { listAllOrganizations, withStores } from './stores.ts'

const tokenLifetimeSeconds = 12 * 60 * 60

/** Prints only the token, so that it can be used in a command substitution. */
export async function printToken(config: Config, email: string, slug: string | undefined): Promise<void> {
  const token = await withStores(config, async (stores) => {
    const user = await requireUser(stores, email)
    const [organization] = slug ? await listAllOrganizations(stores, slug) : []
    if (organization && !(await isMember(stores, organization.id, user.id))) {
      throw new CommandFailed(
        `${email} isn't a member of "${slug}". Add them with: npx inlay user add --email ${email} --org ${slug}`,
      )
    }
    const publicUrl = await publicUrlOf(config, stores)
    const { api, mcp } = resources(publicUrl)
    await recordToken(stores, user.id, organization?.id)
    return issueAccessToken(
      { kv: stores.kv, clock: systemClock, config: { publicUrl } },
      {
        userId: user.id,
        organizationId: organization?.id,
        audience: [api, mcp],
        lifetimeSeconds: tokenLifetimeSeconds,
      },
    )
  })
  process.stdout.write(`${token}\n`)
}

/** A token without an organization is recorded in all organizations of the user. */
async function recordToken({ database }: Stores, userId: string, organizationId: string | undefined): Promise<void> {
  const [action, data] = ['token.issued', { valid_seconds: tokenLifetimeSeconds }] as const
  if (!organizationId) return recordHappening({ database }, userId, { action, actor: 'operator', data })
  await database.asOrg(organizationId, (sql) =>
    recordAudit(sql, { organizationId, actor: 'operator' }, action, userId, data),
  )
}

/** A development server that picked its own port stores its URL. */
const publicUrlOf = async (config: Config, { kv }: Stores): Promise<string> =>
  config.publicUrl ?? (await kv.get<string>(serverUrlKey)) ?? `http://localhost:${config.port}`

export async function addUser(
  config: Config,
  email: string,
  options: { name: string | undefined; org: string | undefined; role: string | undefined },
): Promise<void> {
  const { name, org, role = 'member' } = options
  if (options.role !== undefined && !org) {
    throw new CommandFailed('--role needs --org, because a user has a role per organization')
  }
  if (!/^\S+@\S+$/.test(email)) throw new CommandFailed(`"${email}" isn't an email address`)
  if (name !== undefined) checkName(name)
  if (!Role.safeParse(role).success) throw new CommandFailed(`--role must be one of ${Role.options.join(', ')}`)
  await withStores(config, async (stores) => {
    const [organization] = org ? await listAllOrganizations(stores, org) : []
    const known = organization && (await findUserByEmail(stores, email))
    if (known && organization) await requireVerifiedAddress(stores, known)
    const user = known ?? (await addAccount(stores, email, name ?? email.replace(/@.*/, '')))
    if (organization) await addMember(config, stores, organization.id, user, role)
    const place = organization ? `, ${role} of ${organization.slug}` : ''
    console.log(
      `${user.email}${place}. To get a token for them: npx inlay token --email ${user.email}${org ? ` --org ${org}` : ''}`,
    )
    if (!known && !config.signInClient) await printPasswordLink(config, stores, email)
  })
}

/** One line for each user: email address, name, and the role in each organization. */
export async function printUsers(config: Config, slug: string | undefined): Promise<void> {
  await withStores(config, async (stores) => {
    const roles = new Map<string, string[]>()
    for (const organization of await listAllOrganizations(stores, slug)) {
      for (const { user_id, role, is_active } of await listMembers(stores, organization.id)) {
        const text = `${role} of ${organization.slug}${is_active ? '' : ' (deactivated)'}`
        roles.set(user_id, [...(roles.get(user_id) ?? []), text])
      }
    }
    const users = await stores.database.asService(
      (sql) => sql<{ id: string; email: string; name: string }>`select id, email, name from users order by email, id`,
    )
    printTable(
      users
        .filter(({ id }) => !slug || roles.has(id))
        .map(({ id, email, name }) => [email, name, roles.get(id)?.join(', ') ?? 'no organization']),
    )
  })
}

/** One line for each organization: slug, name, plan and number of members. */
export async function printOrganizations(config: Config): Promise<void> {
  await withStores(config, async (stores) => {
    const rows: string[][] = []
    for (const { id, slug, name, plan_id } of await listAllOrganizations(stores)) {
      const { length } = await listMembers(stores, id)
      rows.push([slug, name, `plan ${plan_id}`, `${length} ${length === 1 ? 'member' : 'members'}`])
    }
    printTable(rows)
  })
}

export async function printErasures(config: Config, organizationId?: string): Promise<void> {
  await withStores(config, async ({ database }) => {
    const hash = organizationId === undefined ? null : fingerprint(organizationId)
    const receipts = await database.asService(
      (sql) => sql<{
        id: string
        organization_hash: string
        requested_at: string
        finished_at: string | null
        rows: number
      }>`
        select id, organization_hash, requested_at, finished_at,
               (select coalesce(sum(value::bigint), 0)::bigint from jsonb_each_text(counts)) as rows
        from organization_erasures where organization_hash = coalesce(${hash}, organization_hash) order by requested_at`,
    )
    printTable(
      receipts.map(({ id, organization_hash, requested_at, finished_at, rows }) => [
        id,
        organization_hash,
        `deleted ${requested_at}`,
        finished_at ? `erased ${finished_at}` : 'not finished yet',
        `${rows} ${rows === 1 ? 'row' : 'rows'}`,
      ]),
    )
  })
}

const listMembers = ({ database }: Stores, organizationId: string) =>
  database.asOrg(
    organizationId,
    (sql) => sql<{ user_id: string; role: string; is_active: boolean }>`
      select user_id, role, deactivated_at is null as is_active from members`,
  )

/** Separates columns by tabs when another program reads the output. */
function printTable(rows: readonly string[][]): void {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  const line = (row: string[]) =>
    process.stdout.isTTY
      ? row
          .map((text, column) => text.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()
      : row.join('\t')
  for (const row of rows) console.log(line(row))
}

/** Prints only the key, so that it can be used in a command substitution. */
export async function addPublishableKey(
  config: Config,
  { org, name, origins = '' }: { org: string; name: string; origins: string | undefined },
): Promise<void> {
  const allowed_origins = origins
    .split(',')
    .map((origin) => origin.trim())
    .filter(Boolean)
  const input = createKeyContract.body.safeParse({ name, allowed_origins })
  if (!input.success) {
    const [issue] = input.error.issues
    throw new CommandFailed(`${issue?.path[0] === 'name' ? '--name' : '--origins'} isn't valid: ${issue?.message}`)
  }
  const { key } = await withStores(config, async (stores) => {
    const [organization] = await listAllOrganizations(stores, org)
    const trail = { organizationId: organization?.id ?? '', actor: 'operator' }
    return addKey({ ...stores, config }, trail, input.data).catch((error) => {
      throw error instanceof Failure ? new CommandFailed(error.message, { cause: error }) : error
    })
  })
  process.stdout.write(`${key}\n`)
}

/** For a user who forgot their password, or whose first link expired. */
export async function renewPassword(config: Config, email: string): Promise<void> {
  if (config.signInClient) {
    throw new CommandFailed(`Users sign in at ${config.signInClient.issuer}, so they have no passwords here`)
  }
  await withStores(config, (stores) => printPasswordLink(config, stores, email))
}

/** For a user who lost their authenticator app and their recovery codes, or the devices with their passkeys. */
export async function turnOffSecondFactor(
  config: Config,
  email: string,
  { passkeys }: { passkeys: boolean },
): Promise<void> {
  await withStores(config, async (stores) => {
    const account = await findLocalAccount(stores, email)
    if (!account) throw unknownUser(email)
    const isRemoved = await removeSecondFactor(stores, account.id, 'operator')
    const outcome = isRemoved ? 'signs in with the password alone now' : 'has no second factor'
    console.log(`${account.email} ${outcome}.`)
    const names = passkeys
      ? await removeAllPasskeys(stores, account.id)
      : (await listPasskeys(stores, account.id)).map(({ name }) => name)
    if (passkeys) console.log(names.length > 0 ? `Removed passkeys: ${names.join(', ')}` : 'They have no passkeys.')
    else if (names.length > 0) {
      console.log(`They can still sign in with passkeys: ${names.join(', ')}. To remove these too, add --passkeys.`)
    }
  })
}

async function printPasswordLink(config: Config, stores: Stores, email: string): Promise<void> {
  const account = await findLocalAccount(stores, email)
  if (!account) throw unknownUser(email)
  await recordHappening(stores, account.id, { action: 'user.password_link_issued', actor: 'operator' })
  const link = await createPasswordLink(stores, await publicUrlOf(config, stores), account)
  console.log(`They can set their password with this link. It works once, within one day:\n  ${link}`)
}

export async function addOrganization(
  config: Config,
  { name, admin, slug, plan }: { name: string; admin: string; slug: string | undefined; plan: string | undefined },
): Promise<void> {
  checkName(name)
  const planIds = config.plans.map(({ id }) => id)
  if (plan && !planIds.includes(plan)) throw new CommandFailed(`--plan must be one of ${planIds.join(', ')}`)
  if (slug && slug !== slugOf(slug))
    throw new CommandFailed(`--slug can contain a-z, 0-9 and hyphens, for example "${slugOf(slug)}"`)
  await withStores(config, async (stores) => {
    const founder = await requireUser(stores, admin)
    const organization = await foundOrganization(stores, {
      name,
      founder,
      ...(slug && { slug }),
      ...(plan && { planId: plan }),
    }).catch((error) => {
      throw isUniqueViolation(error) ? new CommandFailed(`The slug "${slug}" is taken`, { cause: error }) : error
    })
    console.log(`${organization.name} (${organization.slug}), admin ${founder.email}`)
  })
}

function checkName(name: string): void {
  const problem = nameProblem(name)
  if (problem) throw new CommandFailed(`The name isn't valid: ${problem}`)
}

async function requireUser(stores: Stores, email: string) {
  const user = await findUserByEmail(stores, email)
  if (!user) throw unknownUser(email)
  return user
}

/** Somebody else may have the account, because an invitation's link doesn't prove the address. */
async function requireVerifiedAddress({ database }: Stores, { id, email }: { id: string; email: string }) {
  if ((await findVerifiedEmail(database, id)) !== undefined) return
  throw new CommandFailed(
    `The account ${email} exists, but its address isn't verified. Send its owner a new link for their password first, which verifies the address: npx inlay user password --email ${email}`,
  )
}

const unknownUser = (email: string) =>
  new CommandFailed(`No user has the email address ${email}. Add them with: npx inlay user add --email ${email}`)

function addAccount(stores: Stores, email: string, name: string) {
  return addLocalUser(stores, { email, name }).catch((error) => {
    throw error instanceof EmailTaken ? new CommandFailed(error.message, { cause: error }) : error
  })
}

export async function addMember(
  { plans }: Pick<Config, 'plans'>,
  { database }: Pick<Stores, 'database'>,
  organizationId: string,
  user: { id: string; email: string },
  role: string,
) {
  const id = newId()
  await database
    .asOrg(organizationId, async (sql) => {
      await sql`
        insert into members (organization_id, id, user_id, role) values (${organizationId}, ${id}, ${user.id}, ${role})`
      await requireWithinPlan(plans, sql, 'seats')
      await forgetFormerMember(sql, { user_id: user.id, email: user.email })
      await recordAudit(sql, { organizationId, actor: 'operator' }, 'member.added', id, { email: user.email, role })
    })
    .catch((error) => {
      if (isUniqueViolation(error)) throw new CommandFailed(`${user.email} is already a member`, { cause: error })
      if (error instanceof Failure) throw new CommandFailed(error.message, { cause: error })
      throw error
    })
}

const isMember = async ({ database }: Stores, organizationId: string, userId: string): Promise<boolean> =>
  (
    await database.asOrg(
      organizationId,
      (sql) => sql`select from members where user_id = ${userId} and deactivated_at is null`,
    )
  ).length > 0
