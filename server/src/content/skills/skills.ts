import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { accessDenied, duplicate, failure, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { requireWithinPlan } from '../../plans/plans/plans.ts'
import { builtInSkills } from './built-in-skills.ts'
import type * as contract from './contract.ts'
import { parseSkillDocument, type SkillDocument } from './skill-document.ts'
import { applyOperations } from './skill-patch.ts'

type Skill = Output<typeof contract.getSkill>
type SavedSkill = Output<typeof contract.createSkill>
type SkillSummary = Output<typeof contract.listSkills>[number]
type SkillVersion = Output<typeof contract.getSkillVersion>

/** Built-in skills come first in the list. */
const ranks = { builtIn: 0, own: 1 }
const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1)
const listedBuiltIns = [...builtInSkills.values()].sort(byName)

export async function listSkills(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor: [rank, after] = [ranks.builtIn, ''], query }: Input<typeof contract.listSkills>,
): Promise<Paged<SkillSummary[]>> {
  const wanted = foldCase(query)
  const builtIn = listedBuiltIns
    .filter((skill) => rank === ranks.builtIn && skill.name > after && searchTextOf(skill).includes(wanted))
    .map(({ id, name, description }): SkillSummary => ({ id, name, description }))
  const shown = builtIn.slice(offset, offset + limit)
  const own = await database.asOrg(
    organization.id,
    (sql) => sql<Omit<SkillSummary, 'source'> & StoredSource>`
      select s.id, s.name, s.description,
        r.full_name as repository, r.url as repository_url, r.default_branch, s.source_path, s.source_commit
      from organization_skills s
      left join github_repositories r
        on r.organization_id = s.organization_id and r.repository_id = s.source_repository_id
      where s.archived_at is null and strpos(s.search_text, ${wanted}) > 0
        and s.name collate "C" > ${rank === ranks.own ? after : ''}
      order by s.name collate "C"
      limit ${limit + 1 - shown.length} offset ${Math.max(0, offset - builtIn.length)}`,
  )
  const listed = own.map(({ id, name, description, ...stored }): SkillSummary => {
    const source = toSource(stored)
    return { id, name, description, ...(source && { source }) }
  })
  const { rows: body, next_cursor } = takePage(
    [...builtIn.slice(offset, offset + limit + 1), ...listed],
    limit,
    (skill) => [builtInSkills.has(skill.id) ? ranks.builtIn : ranks.own, skill.name],
  )
  return { body, next_cursor }
}

export async function getSkill(
  { database }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getSkill>,
): Promise<Skill> {
  const builtIn = builtInSkills.get(id)
  if (builtIn) return builtIn
  const rows = await database.asOrg(organization.id, (sql) => selectRows(sql, id))
  return toSkill(rows, id)
}

export async function createSkill(
  service: Service,
  caller: OrgCaller,
  { content }: Input<typeof contract.createSkill>,
): Promise<SavedSkill> {
  const parsed = parseSkillDocument(content)
  return changeSkills(service, caller, async (sql) => {
    const skill = await saveVersion(
      sql,
      caller.actor,
      { id: newId(), version: 1, content, domains: ['*'], source: null },
      parsed,
    )
    await requireWithinPlan(service.config.plans, sql, 'skills')
    await recordAudit(sql, trailOf(caller), 'skill.created', skill.id, { name: skill.name })
    return skill
  })
}

export async function patchSkill(
  service: Service,
  caller: OrgCaller,
  { id, patch, domains, expected_version }: Input<typeof contract.patchSkill>,
): Promise<SavedSkill> {
  requireOwn(id)
  return changeSkills(service, caller, async (sql) => {
    const before = await selectSkill(sql, id)
    if (before.archived_at) throw archived()
    if (patch) await takeFromSource(sql, before)
    if (expected_version !== undefined && expected_version !== before.version) throw staleVersion(before.version)
    const skill = await saveVersion(sql, caller.actor, {
      id,
      version: before.version + 1,
      content: applyOperations(before.content, patch?.operations ?? []),
      domains: domains ?? before.domains,
      source: before.source,
    })
    await recordAudit(sql, trailOf(caller), 'skill.updated', id, { name: skill.name, version: skill.version })
    return skill
  })
}

export async function archiveSkill(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.archiveSkill>,
): Promise<Skill> {
  requireOwn(id)
  return changeSkills(service, caller, async (sql) => {
    await takeFromSource(sql, await selectSkill(sql, id))
    const [newly] = await sql<{ name: string }>`
      update organization_skills set archived_at = now() where id = ${id} and archived_at is null returning name`
    if (newly) await recordAudit(sql, trailOf(caller), 'skill.archived', id, { name: newly.name })
    return selectSkill(sql, id)
  })
}

export async function listSkillVersions(
  { database }: Service,
  { organization }: OrgCaller,
  { id, limit, offset, cursor: [before] = [Number.MAX_SAFE_INTEGER] }: Input<typeof contract.listSkillVersions>,
): Promise<Paged<Output<typeof contract.listSkillVersions>>> {
  return database.asOrg(organization.id, async (sql) => {
    const total = await selectVersionNumber(sql, id)
    const found = await sql<Omit<SkillVersion, 'content' | 'domains'>>`
      select version, created_by, created_at from organization_skill_versions
      where skill_id = ${id} and version < ${before}::bigint order by version desc limit ${limit + 1} offset ${offset}`
    const { rows: versions, next_cursor } = takePage(found, limit, ({ version }) => [version])
    return { body: { versions, total }, next_cursor }
  })
}

export async function getSkillVersion(
  { database }: Service,
  { organization }: OrgCaller,
  { id, version }: Input<typeof contract.getSkillVersion>,
): Promise<SkillVersion> {
  return database.asOrg(organization.id, async (sql) => {
    await selectVersionNumber(sql, id)
    return selectVersion(sql, id, version)
  })
}

export async function restoreSkill(
  service: Service,
  caller: OrgCaller,
  { id, version }: Input<typeof contract.restoreSkill>,
): Promise<SavedSkill> {
  requireOwn(id)
  return changeSkills(service, caller, async (sql) => {
    const before = await selectSkill(sql, id)
    await takeFromSource(sql, before)
    const { content, domains } = await selectVersion(sql, id, String(version))
    const skill = await saveVersion(sql, caller.actor, {
      id,
      version: before.version + 1,
      content,
      domains,
      source: null,
    })
    if (before.archived_at) await requireWithinPlan(service.config.plans, sql, 'skills')
    await recordAudit(sql, trailOf(caller), 'skill.restored', id, {
      name: skill.name,
      version: skill.version,
      restored_version: version,
    })
    return skill
  })
}

/**
 * Refuses changes to a skill that is synced. If its repository is no longer connected, the skill becomes the
 * organization's own, so that connecting the repository again doesn't overwrite the change.
 */
async function takeFromSource(sql: Sql, { id, source }: Skill): Promise<void> {
  if (source) throw synced(source)
  await sql`
    update organization_skills set source_repository_id = null, source_path = null, source_sha = null, source_commit = null
    where id = ${id} and source_repository_id is not null`
}

/** Serializes changes to an organization's skills, so that two changes that swap names can't deadlock. */
async function changeSkills<T>({ database }: Service, caller: OrgCaller, work: (sql: Sql) => Promise<T>): Promise<T> {
  try {
    return await database.asOrg(caller.organization.id, async (sql) => {
      await sql`select from organizations where id = current_organization() for no key update`
      return work(sql)
    })
  } catch (error) {
    throw isUniqueViolation(error, 'organization_skills_name') ? duplicate('skill') : error
  }
}

/** Validates a text, stores it as a new version, and makes it the active one. */
export async function saveVersion(
  sql: Sql,
  author: string,
  { id, version, content, domains, source }: Pick<Skill, 'id' | 'version' | 'content' | 'domains' | 'source'>,
  { document, warnings } = parseSkillDocument(content),
): Promise<SavedSkill> {
  const { name, description } = document
  if ([...builtInSkills.values()].some((builtIn) => builtIn.name === name)) throw duplicate('skill')
  const [stored] = await sql<Pick<Skill, 'created_at' | 'updated_at' | 'archived_at'>>`
    insert into organization_skills (organization_id, id, name, description, search_text, version)
    values (current_organization(), ${id}, ${name}, ${description}, ${searchTextOf(document)}, ${version})
    on conflict (organization_id, id) do update
      set name = excluded.name, description = excluded.description, search_text = excluded.search_text,
          version = excluded.version, updated_at = now(), archived_at = null
    returning created_at, updated_at, archived_at`
  await sql`
    insert into organization_skill_versions (organization_id, skill_id, version, content, domains, created_by)
    values (current_organization(), ${id}, ${version}, ${content}, ${domains}, ${author})`
  const saved = { id, ...document, content, domains, location: null, source, version, ...stored } as Skill
  return warnings.length > 0 ? { ...saved, warnings } : saved
}

type StoredSkill = Omit<Skill, keyof SkillDocument | 'location' | 'source'> & StoredSource

interface StoredSource {
  /** Null unless the skill's repository is connected. */
  repository: string | null
  repository_url: string
  default_branch: string
  source_path: string
  source_commit: string | null
}

const selectSkill = async (sql: Sql, id: string): Promise<Skill> => toSkill(await selectRows(sql, id), id)

const selectRows = (sql: Sql, id: string) => sql<StoredSkill>`
  select s.id, v.content, v.domains, s.version, s.created_at, s.updated_at, s.archived_at,
    r.full_name as repository, r.url as repository_url, r.default_branch, s.source_path, s.source_commit
  from organization_skills s
  join organization_skill_versions v
    on v.organization_id = s.organization_id and v.skill_id = s.id and v.version = s.version
  left join github_repositories r
    on r.organization_id = s.organization_id and r.repository_id = s.source_repository_id
  where s.id = ${id}`

/** Frontmatter fields are parsed from the stored text, which is the single source of truth. */
function toSkill([row]: StoredSkill[], id: string): Skill {
  if (!row) throw notFound('skill', id)
  const { repository, repository_url, default_branch, source_path, source_commit, ...skill } = row
  const source = toSource({ repository, repository_url, default_branch, source_path, source_commit })
  return { ...skill, ...parseSkillDocument(row.content).document, location: null, source }
}

function toSource(stored: StoredSource): Skill['source'] {
  const { repository, repository_url, default_branch, source_path: path, source_commit: commit } = stored
  if (repository === null) return null
  const address = `${default_branch}/${path}`.split('/').map(encodeURIComponent).join('/')
  const [url, edit_url] = ['blob', 'edit'].map((view) => `${repository_url}/${view}/${address}`) as [string, string]
  return { repository, path, commit, url, edit_url }
}

async function selectVersionNumber(sql: Sql, id: string): Promise<number> {
  const [skill] = await sql<{ version: number }>`select version from organization_skills where id = ${id}`
  if (!skill) throw notFound('skill', id)
  return skill.version
}

/** Accepts any text as the version, because it can come from a URL path. */
async function selectVersion(sql: Sql, id: string, version: string): Promise<SkillVersion> {
  const isNumber = /^[1-9]\d{0,8}$/.test(version)
  const [row] = isNumber
    ? await sql<SkillVersion>`
        select version, content, domains, created_by, created_at from organization_skill_versions
        where skill_id = ${id} and version = ${version}`
    : []
  if (!row) throw notFound('skill_version', version)
  return row
}

function requireOwn(id: string): void {
  if (builtInSkills.has(id)) throw accessDenied('Built-in skills can’t be changed')
}

/** Uses Unicode's rules, independent of the database's locale. */
const foldCase = (text: string): string => text.normalize('NFKC').toLowerCase()

const searchTextOf = ({ name, description }: Pick<Skill, 'name' | 'description'>): string =>
  foldCase(`${name}\n${description}`)

const archived = () =>
  failure(409, 'CONFLICT', 'The skill is archived. Restore a version to edit it.', { data: { code: 'SKILL_ARCHIVED' } })

const synced = ({ repository, path, url, edit_url }: NonNullable<Skill['source']>) =>
  failure(409, 'CONFLICT', `The skill is synced from ${repository}. Edit ${path} there: ${edit_url}`, {
    data: { code: 'SKILL_SYNCED', url, edit_url },
  })

const staleVersion = (current: number) =>
  failure(
    409,
    'CONFLICT',
    `The skill has changed and is now at version ${current}. Get it and apply your edit again.`,
    {
      data: { code: 'STALE_VERSION', version: current },
    },
  )
