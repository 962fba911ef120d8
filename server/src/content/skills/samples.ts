import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { type OperationSamples, post, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

/** A SKILL.md with a unique name. */
const skillText = () => `---\nname: sample-${randomUUID()}\ndescription: Use it for samples.\n---\n# Sample\n`
const skill = (app: TestService, slug: Slug) => post(app, slug, '/organization-skills', { content: skillText() })

export const fillTables = skill

export const operationSamples: OperationSamples<typeof contract> = {
  listSkills: {},
  createSkill: { body: () => ({ content: skillText() }) },
  getSkill: { prepare: skill },
  patchSkill: {
    prepare: skill,
    body: () => ({ patch: { version: 1, operations: [{ type: 'replace', before: '# Sample', after: '# New' }] } }),
  },
  archiveSkill: { prepare: skill },
  listSkillVersions: { prepare: skill },
  getSkillVersion: { prepare: async (app, slug) => ({ ...(await skill(app, slug)), version: '1' }) },
  restoreSkill: { prepare: skill, body: () => ({ version: 1 }) },
}
