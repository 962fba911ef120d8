import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit, type Trail } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { leftInPlan } from '../../plans/plans/plans.ts'
import { builtInSkills } from './built-in-skills.ts'
import { parseSkillDocument } from './skill-document.ts'
import { saveVersion } from './skills.ts'

/** A SKILL.md in a repository. */
export interface SyncedFile {
  path: string
  /** Git's hash of the content. */
  sha: string
  /** The text, unless it is the one of the active skill, or why it can't be read. */
  content: { text: string } | { problem: string } | 'unchanged'
}

export interface SyncOutcome {
  created: number
  updated: number
  archived: number
  unchanged: number
  /** Files that were skipped. A skill that already came from such a file stays as it was. */
  problems: { path: string; problem: string }[]
}

/** The repository of a sync. */
export interface SkillRepository {
  id: number
  full_name: string
  commit: string
}

interface StoredSkill {
  id: string
  name: string
  version: number
  domains: string[]
  path: string
  is_archived: boolean
}

/** A file that becomes a skill: a new one, or the next version of `current`. */
interface Wanted {
  file: SyncedFile
  name: string
  current: StoredSkill | undefined
}

/** The hashes of the files behind the repository's active skills, by path. */
export async function selectSyncedHashes(sql: Sql, repositoryId: number): Promise<Map<string, string>> {
  const rows = await sql<{ path: string; sha: string }>`
    select source_path as path, source_sha as sha from organization_skills
    where source_repository_id = ${repositoryId} and archived_at is null`
  return new Map(rows.map(({ path, sha }) => [path, sha]))
}

/**
 * Makes the skills of a repository those that its files describe. `files` must be complete, because skills whose file
 * is missing are archived. Skills that were written in Inlay are never changed.
 */
export async function applySyncedFiles(
  { config }: Pick<Service, 'config'>,
  sql: Sql,
  organizationId: string,
  repository: SkillRepository,
  files: readonly SyncedFile[],
): Promise<SyncOutcome> {
  await sql`select from organizations where id = current_organization() for no key update`
  const stored = await selectStored(sql, repository.id)
  const { wanted, problems } = chooseFiles(files, stored, await selectTakenNames(sql, repository.id))

  const kept = new Set([...files.map(({ path }) => path), ...wanted.map(({ current }) => current?.path)])
  const gone = stored.filter(({ path, is_archived }) => !is_archived && !kept.has(path))
  const changed = wanted.filter(({ file }) => file.content !== 'unchanged')
  // Names are unique among active skills, so all names that change are released before any is taken.
  const released = [...gone, ...changed.flatMap(({ current }) => current ?? [])].map(({ id }) => id)
  await sql`update organization_skills set archived_at = now() where id = any(${released}) and archived_at is null`

  const outcome = { created: 0, updated: 0, archived: gone.length, unchanged: wanted.length - changed.length, problems }
  const events: [action: string, id: string, data: Record<string, unknown>][] = gone.map(({ id, name }) => [
    'skill.archived',
    id,
    { name },
  ])
  const { left, problem: noneLeft } = await leftInPlan(config.plans, sql, 'skills')
  // Skills that are active already stay, even if the plan has become too small for them.
  const isActive = ({ current }: Wanted) => current !== undefined && !current.is_archived
  const active = changed.filter(isActive)
  const inOrder = [...active, ...changed.filter((each) => !isActive(each))]
  for (const [index, { file, name, current }] of inOrder.entries()) {
    if (index >= Math.max(left, active.length)) {
      problems.push({ path: file.path, problem: noneLeft })
      continue
    }
    const { id, version } = await saveFile(sql, repository, file, current)
    const isNew = !current || current.is_archived
    outcome[isNew ? 'created' : 'updated'] += 1
    const action = current ? (current.is_archived ? 'skill.restored' : 'skill.updated') : 'skill.created'
    events.push([action, id, { name, version }])
  }

  // Skills that were synced by a version of Inlay that didn't store the commit.
  await sql`
    update organization_skills set source_commit = ${repository.commit}
    where source_repository_id = ${repository.id} and source_commit is null and archived_at is null`

  problems.sort(byPathOrder)
  const trail: Trail = { organizationId, actor: `github:${repository.full_name}` }
  const { problems: found, ...counts } = outcome
  const summary = { repository: repository.full_name, commit: repository.commit, ...counts, problems: found.length }
  for (const [action, id, data] of events) await recordAudit(sql, trail, action, id, data)
  if (events.length > 0) await recordAudit(sql, trail, 'github_repository.synced', organizationId, summary)
  return outcome
}

async function saveFile(sql: Sql, repository: SkillRepository, file: SyncedFile, current: StoredSkill | undefined) {
  const author = `${repository.full_name}@${repository.commit.slice(0, 7)}`
  const skill = await saveVersion(sql, author, {
    id: current?.id ?? newId(),
    version: (current?.version ?? 0) + 1,
    content: (file.content as { text: string }).text,
    domains: current?.domains ?? ['*'],
    source: null,
  })
  await sql`
    update organization_skills
    set source_repository_id = ${repository.id}, source_path = ${file.path}, source_sha = ${file.sha},
      source_commit = ${repository.commit}
    where id = ${skill.id}`
  return skill
}

/**
 * Decides which files become skills. A file is skipped if it's invalid, or if its name is taken. Then its former skill
 * keeps its name, which can make the name of another file taken, so this repeats until nothing changes.
 */
function chooseFiles(
  files: readonly SyncedFile[],
  stored: readonly StoredSkill[],
  taken: ReadonlySet<string>,
): { wanted: Wanted[]; problems: SyncOutcome['problems'] } {
  const byPath = new Map(stored.map((skill) => [skill.path, skill]))
  const rejected = new Map<string, string>()
  const names = new Map<string, string>()
  for (const file of files) {
    const { name, problem } = readName(file, byPath.get(file.path))
    if (name === undefined) rejected.set(file.path, problem)
    else names.set(file.path, name)
  }
  // A skill that has its name already doesn't lose it to a new file.
  const keepsName = ([path, name]: readonly [string, string]) =>
    byPath.get(path)?.name === name && !byPath.get(path)?.is_archived
  const inOrder = [...names].sort((one, other) => Number(keepsName(other)) - Number(keepsName(one)))
  for (let before = -1; before !== rejected.size; ) {
    before = rejected.size
    const owners = new Map<string, string>()
    for (const path of rejected.keys()) {
      const current = byPath.get(path)
      if (current && !current.is_archived) owners.set(current.name, path)
    }
    for (const [path, name] of inOrder) {
      if (rejected.has(path)) continue
      const owner = owners.get(name)
      if (taken.has(name)) rejected.set(path, `Another skill that isn’t from this repository is named ${name}`)
      else if (owner !== undefined) rejected.set(path, `${owner} has the same name, ${name}`)
      else owners.set(name, path)
    }
  }
  const paths = new Set(files.map(({ path }) => path))
  const moved = new Map(stored.filter(({ path }) => !paths.has(path)).map((skill) => [skill.name, skill]))
  const wanted = files
    .filter(({ path }) => !rejected.has(path))
    .map((file): Wanted => {
      const name = names.get(file.path) ?? ''
      return { file, name, current: byPath.get(file.path) ?? moved.get(name) }
    })
  return { wanted, problems: [...rejected].map(([path, problem]) => ({ path, problem })) }
}

const byPathOrder = (one: { path: string }, other: { path: string }) => (one.path < other.path ? -1 : 1)

type NameResult = { name: string; problem?: never } | { name?: never; problem: string }

function readName({ content }: SyncedFile, current: StoredSkill | undefined): NameResult {
  if (content === 'unchanged')
    return current ? { name: current.name } : { problem: 'The skill changed during the sync' }
  if ('problem' in content) return content
  try {
    return { name: parseSkillDocument(content.text).document.name }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return { problem: String(error.envelope.data?.details ?? error.message) }
  }
}

const selectStored = (sql: Sql, repositoryId: number) => sql<StoredSkill>`
  select s.id, s.name, s.version, v.domains, s.source_path as path, s.archived_at is not null as is_archived
  from organization_skills s
  join organization_skill_versions v
    on v.organization_id = s.organization_id and v.skill_id = s.id and v.version = s.version
  where s.source_repository_id = ${repositoryId}
  order by s.archived_at nulls last`

async function selectTakenNames(sql: Sql, repositoryId: number): Promise<Set<string>> {
  const rows = await sql<{ name: string }>`
    select name from organization_skills
    where archived_at is null and source_repository_id is distinct from ${repositoryId}`
  return new Set([...rows, ...builtInSkills.values()].map(({ name }) => name))
}
