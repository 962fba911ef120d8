import { z } from 'zod'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Page, Timestamp } from '../../kernel/foundation/shapes.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { InvalidOrigin, parseOrigin } from '../../kernel/net/origins.ts'
import { builtInSkills } from './built-in-skills.ts'

/** The ID of an organization's skill, or the location of a built-in skill. */
const SkillId = z.strictObject({
  id: z
    .string()
    .refine((text) => isId(text) || builtInSkills.has(text))
    .describe('ID of the skill, or the `location` of a built-in skill'),
})

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
  .refine((domains) => domains.length === 1 || !domains.includes('*'), '"*" can’t be combined with hostnames')

const SkillSource = z
  .strictObject({
    repository: z.string().describe('Repository, as `owner/name`'),
    path: z.string().describe('Path of the file in the repository'),
    commit: z
      .string()
      .nullable()
      .describe('Commit that the text was read from; null if it was synced by an older version of Inlay'),
    url: z.string().describe('URL of the file on GitHub'),
    edit_url: z.string().describe('URL where you edit the file on GitHub'),
  })
  .meta({ id: 'SkillSource' })

const Skill = z
  .strictObject({
    id: z.string().describe('ID of the skill, or the `location` of a built-in skill'),
    name: z.string().describe('Name from the frontmatter, NFKC-normalized'),
    description: z.string().describe('When an agent should use the skill, from the frontmatter'),
    body: z.string().describe('Everything after the frontmatter, unchanged'),
    content: z.string().describe('The whole SKILL.md, unchanged'),
    license: z.string().nullable().describe('License from the frontmatter; null if not set'),
    compatibility: z.string().nullable().describe('Runtime requirements from the frontmatter; null if not set'),
    allowed_tools: z
      .string()
      .nullable()
      .describe('Tool names from the frontmatter, separated by spaces; null if not set'),
    metadata: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe(
        'Key-value pairs from the frontmatter; null if not set. Numbers and booleans keep their type, but a number that JSON would write differently, such as `1.10`, becomes a string.',
      ),
    domains: z.array(z.string()).describe('Hostnames where the skill is available; `["*"]` means everywhere'),
    location: z
      .string()
      .nullable()
      .describe('Address of a built-in skill, such as `builtin://skill-creator-webmcp`; null for your own skills'),
    source: SkillSource.nullable().describe(
      'File that the skill is synced from; null for skills that you edit in Inlay. See [Code hosting](#tag/code-hosting).',
    ),
    version: z.int().describe('Version number; starts at 1 and increases by 1 with every change'),
    tokens: z.int().describe('Estimated size of the body in an agent’s context: its bytes divided by four'),
    created_at: Timestamp.describe('When the skill was created'),
    updated_at: Timestamp.describe('When the skill was last changed'),
    archived_at: Timestamp.nullable().describe('When the skill was archived; null while it is active'),
  })
  .meta({ id: 'Skill' })

const SavedSkill = Skill.extend({
  warnings: z
    .array(z.string())
    .optional()
    .describe('Frontmatter fields that Inlay doesn’t recognize but keeps; omitted if there are none'),
}).meta({ id: 'SavedSkill' })

const SkillSummary = z
  .strictObject({
    id: z.string().describe('ID of the skill, or the `location` of a built-in skill'),
    name: z.string().describe('Name from the frontmatter'),
    description: z.string().describe('When an agent should use the skill'),
    source: SkillSource.optional().describe('File that the skill is synced from; omitted for all other skills'),
  })
  .meta({ id: 'SkillSummary' })

const SkillVersion = z
  .strictObject({
    version: z.int().describe('Version number'),
    created_by: z
      .string()
      .describe(
        'Email address of the user who created this version, `service-account:` and the name of a service account, or the repository and commit that it was synced from',
      ),
    created_at: Timestamp.describe('When this version was created'),
  })
  .meta({ id: 'SkillVersion' })

const expected_matches = z.int().min(1).max(10_000).default(1).describe('Exact number of times the text must occur')

export const PatchOperation = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('replace').describe('Replaces text'),
      before: z.string().min(1).describe('Text to find'),
      after: z.string().describe('Replacement text; an empty string deletes the match'),
      expected_matches,
    }),
    z.strictObject({
      type: z.literal('insert').describe('Inserts text'),
      anchor: z.string().min(1).describe('Text to find'),
      text: z.string().min(1).describe('Text to insert'),
      position: z.enum(['before', 'after']).default('after').describe('Whether to insert before or after the anchor'),
      expected_matches,
    }),
    z.strictObject({
      type: z.literal('delete').describe('Deletes text'),
      before: z.string().min(1).describe('Text to find and delete'),
      expected_matches,
    }),
  ])
  .meta({ id: 'SkillPatchOperation' })

const version = z
  .int()
  .min(1)
  .max(2 ** 31 - 1)

/** A SKILL.md can be 256 KiB, and clients that escape all non-ASCII characters can triple its size. */
const bodyLimit = 1024 * 1024

const skills = { tag: 'Skills', resource: 'skill', access: 'org' } as const

export const listSkills = operation({
  ...skills,
  id: 'listSkills',
  method: 'post',
  path: '/organization-skills/list',
  summary: 'List skills',
  description:
    'Returns the built-in skills, then the organization’s active skills by name, without their text. A skill is a Markdown document with instructions for agents.',
  body: z.strictObject({
    limit: Page.shape.limit.unwrap().default(100).describe('Maximum number of skills to return'),
    offset: Page.shape.offset.describe('Number of skills to skip from the start of the list'),
    cursor: cursorAt(order.number, order.text),
    query: z
      .string()
      .max(200)
      .default('')
      .describe('Return only skills whose name or description contains this text, ignoring case'),
  }),
  response: z.array(SkillSummary),
  pages: true,
  errors: [],
  example: {
    request: { limit: 100, offset: 0, query: 'refund' },
    response: [
      {
        id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
        name: 'refund-policy',
        description: 'Use when a customer asks for a refund.',
        source: {
          repository: 'acme/skills',
          path: 'text',
          commit: 'text',
          url: 'https://app.example.com/cart',
          edit_url: 'text',
        },
      },
    ],
  },
})

const exampleSavedSkill = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  name: 'refund-policy',
  description: 'Use when a customer asks for a refund.',
  body: '\nRefund orders up to 30 days after delivery.\n',
  content:
    '---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n',
  license: null,
  compatibility: null,
  allowed_tools: null,
  metadata: null,
  domains: ['*'],
  location: null,
  source: null,
  version: 1,
  tokens: 11,
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
  archived_at: null,
} as const

export const createSkill = operation({
  ...skills,
  id: 'createSkill',
  method: 'post',
  path: '/organization-skills',
  creates: true,
  summary: 'Create a skill from a SKILL.md',
  description:
    'The text must start with YAML frontmatter between two `---` lines, with at least a `name` and a `description`. Invalid frontmatter is a `VALIDATION_ERROR` that explains the problem. The response is a 409 if an active skill or a built-in skill already has the name, and `PAYMENT_REQUIRED` if the plan’s skill limit is reached.',
  body: z.strictObject({ content: z.string().describe('The whole SKILL.md, at most 256 KiB') }),
  bodyLimit,
  response: SavedSkill,
  errors: ['DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: {
    request: {
      content:
        '---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n',
    },
    response: exampleSavedSkill,
  },
})

export const getSkill = operation({
  ...skills,
  id: 'getSkill',
  method: 'get',
  path: '/organization-skills/{id}',
  summary: 'Get a skill',
  description:
    'Returns a skill with its full text, even if it’s archived. For a built-in skill, use its `location` as the ID.',
  params: SkillId,
  response: Skill,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { ...exampleSavedSkill, version: 3 } },
})

export const patchSkill = operation({
  ...skills,
  id: 'patchSkill',
  method: 'patch',
  path: '/organization-skills/{id}',
  summary: 'Edit a skill',
  description:
    'Changes the text, the domains, or both; send at least one. Operations apply in order to the whole SKILL.md, each to the result of the previous one. If an operation doesn’t match, or the result isn’t a valid skill, nothing changes. Every version is kept. Built-in skills can’t be changed, and the text of a skill with a `source` is changed there: the response is a 409 with its URL.',
  params: SkillId,
  body: z
    .strictObject({
      patch: z
        .strictObject({
          version: z.literal(1).describe('Version of the patch format'),
          operations: z.array(PatchOperation).min(1).max(50).describe('Changes in the order to apply them, 1 to 50'),
        })
        .optional()
        .describe('Changes to the text'),
      domains: Domains.optional().describe(
        'New list of hostnames where the skill is available; `["*"]` means everywhere',
      ),
      expected_version: version
        .optional()
        .describe(
          'Version that your edit is based on; if the skill has changed since, the response is a 409 and nothing changes',
        ),
    })
    .refine(({ patch, domains }) => patch ?? domains, { path: ['patch'], error: 'Provide patch, domains, or both' }),
  bodyLimit,
  response: SavedSkill,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
  example: {
    request: {
      patch: { version: 1, operations: [{ type: 'replace', before: '30 days', after: '60 days' }] },
      expected_version: 3,
    },
    response: {
      ...exampleSavedSkill,
      body: '\nRefund orders up to 60 days after delivery.\n',
      content:
        '---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 60 days after delivery.\n',
      version: 4,
    },
  },
})

export const archiveSkill = operation({
  ...skills,
  id: 'archiveSkill',
  method: 'delete',
  path: '/organization-skills/{id}',
  summary: 'Archive a skill',
  description:
    'Agents no longer see the skill, and another skill can use its name. All versions are kept: restore one to make the skill active again. Archiving an archived skill has no effect. A skill with a `source` is archived by deleting its file there: the response is a 409 with its URL.',
  params: SkillId,
  response: Skill,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { ...exampleSavedSkill, version: 3, archived_at: '2026-11-14T16:05:12.480Z' } },
})

export const listSkillVersions = operation({
  ...skills,
  id: 'listSkillVersions',
  method: 'get',
  path: '/organization-skills/{id}/versions',
  summary: 'List the versions of a skill',
  description: 'Returns all versions, newest first, without their text.',
  params: Id,
  query: Page.extend({ cursor: cursorAt(order.number) }),
  response: z.strictObject({
    versions: z.array(SkillVersion).describe('Versions on this page of the list'),
    total: z.int().describe('Total number of versions'),
  }),
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      versions: [{ version: 3, created_by: 'ada@example.com', created_at: '2026-11-02T09:30:00.000Z' }],
      total: 1,
    },
  },
})

export const getSkillVersion = operation({
  ...skills,
  id: 'getSkillVersion',
  method: 'get',
  path: '/organization-skills/{id}/versions/{version}',
  summary: 'Get a version of a skill',
  description: 'Returns the text and domains of this version.',
  params: Id.extend({ version: z.string().describe('Version number') }),
  response: SkillVersion.extend({
    content: z.string().describe('The whole SKILL.md of this version'),
    domains: z.array(z.string()).describe('Hostnames where this version was available'),
  }).meta({ id: 'FullSkillVersion' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      version: 3,
      created_by: 'ada@example.com',
      created_at: '2026-11-02T09:30:00.000Z',
      content:
        '---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n',
      domains: ['*'],
    },
  },
})

export const restoreSkill = operation({
  ...skills,
  id: 'restoreSkill',
  method: 'post',
  path: '/organization-skills/{id}/restore',
  creates: true,
  summary: 'Restore an earlier version of a skill',
  description:
    'Saves an earlier version as a new one, so no version is lost. An archived skill becomes active again: the response is a 409 if another skill now has its name, and `PAYMENT_REQUIRED` if the plan’s skill limit is reached. The response is also a 409 if the skill has a `source`, where you restore it.',
  params: SkillId,
  body: z.strictObject({ version: version.describe('Version to restore') }),
  response: SavedSkill,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: { request: { version: 2 }, response: { ...exampleSavedSkill, version: 4 } },
})
