import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSkillDocument } from './skill-document.ts'

const shippedAt = '2026-11-15T00:00:00.000Z'

/** Skills that every organization has, by location, which is also their ID. */
export const builtInSkills = new Map(
  ['skill-creator-webmcp'].map((name) => {
    const content = readFileSync(join(import.meta.dirname, 'builtin', `${name}.md`), 'utf8')
    const location = `builtin://${name}`
    const skill = {
      id: location,
      ...parseSkillDocument(content).document,
      content,
      domains: ['*'],
      location,
      source: null,
      version: 1,
      created_at: shippedAt,
      updated_at: shippedAt,
      archived_at: null,
    }
    return [location, skill]
  }),
)
