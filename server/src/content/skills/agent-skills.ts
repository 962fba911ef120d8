import type { Sql } from '../../kernel/stores/database.ts'
import { builtInSkills } from './built-in-skills.ts'
import { parseSkillDocument } from './skill-document.ts'

/** A skill as the agent's model chooses it. */
export interface ActiveSkill {
  name: string
  description: string
}

/** The skills for pages on a host, sorted by name: the organization's that aren't archived, and the built-in ones. */
export async function selectActiveSkills(sql: Sql, host: string): Promise<ActiveSkill[]> {
  const own = await sql<ActiveSkill>`
    select s.name, s.description from organization_skills s
    join organization_skill_versions v
      on v.organization_id = s.organization_id and v.skill_id = s.id and v.version = s.version
    where s.archived_at is null and v.domains && ${['*', host]}::text[]`
  const builtIn = [...builtInSkills.values()].map(({ name, description }) => ({ name, description }))
  return [...builtIn, ...own].sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** The body of one of these skills; undefined if none has the name. */
export async function selectSkillBody(sql: Sql, host: string, name: string): Promise<string | undefined> {
  const builtIn = [...builtInSkills.values()].find((skill) => skill.name === name)
  if (builtIn) return builtIn.body
  const [own] = await sql<{ content: string }>`
    select v.content from organization_skills s
    join organization_skill_versions v
      on v.organization_id = s.organization_id and v.skill_id = s.id and v.version = s.version
    where s.archived_at is null and v.domains && ${['*', host]}::text[] and s.name = ${name}`
  return own && parseSkillDocument(own.content).document.body
}
