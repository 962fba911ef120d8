import { z } from 'zod'
import { isId } from '../lib/ids.ts'
import { InvalidOrigin, parseOrigin } from '../lib/origins.ts'
import { operation } from '../operation.ts'
import { Id, Page, Timestamp } from '../shapes.ts'
import { builtInSkills } from './built-in-skills.ts'

/** The id of an organization's skill, or the location of a built-in one. */
const SkillId = z.strictObject({ id: z.string().refine((text) => isId(text) || builtInSkills.has(text)) })

const Domain = z
  .string()
  .max(253)
  .transform((text, context) => {
    if (text === '*') return text
    try {
      if (!text.includes(':')) return new URL(parseOrigin(`https://${text}`)).hostname
    } catch (error) {
      if (!(error instanceof InvalidOrigin)) throw error
    }
    context.addIssue({ code: 'custom', message: 'Must be a hostname such as app.example.com, or "*"' })
    return z.NEVER
  })

const Domains = z
  .array(Domain)
  .min(1)
  .max(100)
  .transform((domains) => [...new Set(domains)])
  .refine((domains) => domains.length === 1 || !domains.includes('*'), '"*" stands alone')

export const Skill = z
  .strictObject({
    id: z.string(),
    name: z.string().describe('As in the frontmatter, NFKC-normalized'),
    description: z.string().describe('When the skill should be used'),
    body: z.string().describe('Everything after the frontmatter, byte for byte'),
    content: z.string().describe('The whole SKILL.md'),
    license: z.string().nullable(),
    compatibility: z.string().nullable(),
    allowed_tools: z.string().nullable().describe('Tool names with spaces between them'),
    metadata: z.record(z.string(), z.unknown()).nullable().describe('Scalars are text, as they are written'),
    domains: z.array(z.string()).describe('Hostnames where the skill is offered; `["*"]` means everywhere'),
    location: z.string().nullable().describe('Only of a built-in skill'),
    version: z.int().describe('1 and upwards, one more with every change'),
    tokens: z.int().describe('An estimate of the body’s size in an agent’s context: its bytes divided by four'),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .meta({ id: 'Skill' })

const SavedSkill = Skill.extend({
  warnings: z
    .array(z.string())
    .optional()
    .describe('Only when there are any: what the frontmatter holds that Inlay does not know and keeps'),
}).meta({ id: 'SavedSkill' })

const SkillSummary = z
  .strictObject({ id: z.string(), name: z.string(), description: z.string() })
  .meta({ id: 'SkillSummary' })

const SkillVersion = z
  .strictObject({
    version: z.int(),
    created_by: z.string().describe('Address of the person who made it'),
    created_at: Timestamp,
  })
  .meta({ id: 'SkillVersion' })

const expected_matches = z
  .int()
  .min(1)
  .max(10_000)
  .default(1)
  .describe('How often the text must occur, neither more nor less')

export const PatchOperation = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('replace'), before: z.string().min(1), after: z.string(), expected_matches }),
    z.strictObject({
      type: z.literal('insert'),
      anchor: z.string().min(1),
      text: z.string().min(1),
      position: z.enum(['before', 'after']).default('after'),
      expected_matches,
    }),
    z.strictObject({ type: z.literal('delete'), before: z.string().min(1), expected_matches }),
  ])
  .meta({ id: 'SkillPatchOperation' })

const version = z
  .int()
  .min(1)
  .max(2 ** 31 - 1)

/** A SKILL.md has up to 256 KiB. Some clients escape everything but ASCII, which can triple that. */
const bodyLimit = 1024 * 1024

const skills = { tag: 'Skills', resource: 'skill', access: 'org' } as const

export const listSkills = operation({
  ...skills,
  id: 'listSkills',
  method: 'post',
  path: '/organization-skills/list',
  summary: 'The built-in skills, then the organization’s active ones by name',
  body: z.strictObject({
    limit: Page.shape.limit.unwrap().default(100),
    offset: Page.shape.offset,
    query: z.string().max(200).default('').describe('A part of the name or the description, in any case of letters'),
  }),
  response: z.array(SkillSummary),
  errors: [],
})

export const createSkill = operation({
  ...skills,
  id: 'createSkill',
  method: 'post',
  path: '/organization-skills',
  creates: true,
  summary: 'Create a skill from a SKILL.md',
  body: z.strictObject({ content: z.string() }),
  bodyLimit,
  response: SavedSkill,
  errors: ['DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})

export const getSkill = operation({
  ...skills,
  id: 'getSkill',
  method: 'get',
  path: '/organization-skills/{id}',
  summary: 'A skill with its body; archived ones too, and built-in ones by their location',
  params: SkillId,
  response: Skill,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const patchSkill = operation({
  ...skills,
  id: 'patchSkill',
  method: 'patch',
  path: '/organization-skills/{id}',
  summary: 'Edit a skill’s text in place, or change where it is offered',
  description:
    'Operations work on the whole SKILL.md, each on what the ones before it made; one that does not fit refuses them all.',
  params: SkillId,
  body: z
    .strictObject({
      patch: z.strictObject({ version: z.literal(1), operations: z.array(PatchOperation).min(1).max(50) }).optional(),
      domains: Domains.optional(),
      expected_version: version.optional().describe('Refuse with 409 when the skill is no longer at this version'),
    })
    .refine(({ patch, domains }) => patch ?? domains, { path: ['patch'], error: 'Give a patch, or domains' }),
  bodyLimit,
  response: SavedSkill,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
})

export const archiveSkill = operation({
  ...skills,
  id: 'archiveSkill',
  method: 'delete',
  path: '/organization-skills/{id}',
  summary: 'Archive a skill; its name is free again, and doing it twice changes nothing',
  params: SkillId,
  response: Skill,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listSkillVersions = operation({
  ...skills,
  id: 'listSkillVersions',
  method: 'get',
  path: '/organization-skills/{id}/versions',
  summary: 'Every version of a skill, the newest first',
  params: Id,
  query: Page,
  response: z.strictObject({ versions: z.array(SkillVersion), total: z.int() }),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const getSkillVersion = operation({
  ...skills,
  id: 'getSkillVersion',
  method: 'get',
  path: '/organization-skills/{id}/versions/{version}',
  summary: 'A skill’s text and domains as they once were',
  params: Id.extend({ version: z.string() }),
  response: SkillVersion.extend({ content: z.string(), domains: z.array(z.string()) }).meta({ id: 'FullSkillVersion' }),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const restoreSkill = operation({
  ...skills,
  id: 'restoreSkill',
  method: 'post',
  path: '/organization-skills/{id}/restore',
  creates: true,
  summary: 'Make an old version the newest; an archived skill becomes active again',
  params: SkillId,
  body: z.strictObject({ version }),
  response: SavedSkill,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})
