import { createHash } from 'node:crypto'
import { builtInSkills } from '../../content/skills/built-in-skills.ts'
import type * as contract from '../../content/skills/contract.ts'
import { typedFrontmatter } from '../../content/skills/skill-document.ts'
import * as skills from '../../content/skills/skills.ts'
import type { Caller, OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import type { Method, Params } from './dispatcher.ts'
import { codes, Fault } from './messages.ts'

type Skill = Output<typeof contract.getSkill>
type Summary = Pick<Skill, 'id' | 'name' | 'description'>

export const skillsExtension = 'io.modelcontextprotocol/skills'

/** Pages of resources are larger, because only entries of the extension require reading each skill. */
const resourcePage = 100
const entryPage = 25

/** Skills as resources, which a model selects by their descriptions, and through the skills extension (SEP-2640). */
export const skillMethods: Record<string, Method> = {
  'resources/list': {
    ttlMs: 0,
    async handler(service, caller, params) {
      const { page, ...next } = await listPage(service, caller, params, resourcePage)
      return { resources: page.map(describeResource), ...next }
    },
  },
  'resources/templates/list': {
    ttlMs: 0,
    handler: async () => ({
      resourceTemplates: [
        {
          uriTemplate: 'skill://{id}/{name}/SKILL.md',
          name: 'skill',
          title: 'Skill',
          description: 'A skill of the organization, or one built into Inlay (id "builtin")',
          mimeType: 'text/markdown',
        },
      ],
    }),
  },
  'resources/read': {
    ttlMs: 0,
    async handler(service, caller, params) {
      const { uri, skill } = await findSkill(service, caller, params)
      if (!skill) throw new Fault(codes.invalidParams, 'Resource not found', { data: { uri } })
      return { contents: [{ uri, mimeType: 'text/markdown', text: skill.content }] }
    },
  },
  'skills/list': {
    ttlMs: 0,
    async handler(service, caller, params) {
      const { page, ...next } = await listPage(service, caller, params, entryPage)
      const found = await Promise.all(page.map(({ id }) => readSkill(service, caller, id)))
      return { skills: found.flatMap((skill) => (skill ? describeEntry(skill) : [])), ...next }
    },
  },
  'skills/get': {
    ttlMs: 0,
    async handler(service, caller, params) {
      const { uri, skill } = await findSkill(service, caller, params)
      const [entry] = skill ? describeEntry(skill) : []
      if (!entry) throw new Fault(codes.invalidParams, `No skill is served at ${uri}`)
      return { skill: entry }
    },
  },
}

/** Contains the ID, because names can change, and the name as the last folder, which the extension requires. */
const uriOf = ({ id, name }: Summary): string =>
  `skill://${id.startsWith('builtin://') ? 'builtin' : id}/${encodeURIComponent(name)}/SKILL.md`

const describeResource = (skill: Summary) => ({
  uri: uriOf(skill),
  name: skill.name,
  description: skill.description,
  mimeType: 'text/markdown',
})

/** Callers without an organization get only the built-in skills. */
async function listPage(service: Service, caller: Caller, { cursor }: Params, limit: number) {
  const offset = readCursor(cursor)
  const wanted = { limit: limit + 1, offset, query: '' }
  const found: Summary[] = caller.organization
    ? (await skills.listSkills(service, caller as OrgCaller, wanted)).body
    : [...builtInSkills.values()].slice(offset)
  const hasMore = found.length > limit
  return { page: found.slice(0, limit), ...(hasMore && { nextCursor: String(offset + limit) }) }
}

function readCursor(cursor: unknown): number {
  if (cursor === undefined) return 0
  if (typeof cursor !== 'string' || !/^\d{1,9}$/.test(cursor)) throw new Fault(codes.invalidParams, 'Invalid cursor')
  return Number(cursor)
}

async function findSkill(service: Service, caller: Caller, { uri }: Params) {
  if (typeof uri !== 'string') throw new Fault(codes.invalidParams, 'Invalid params: uri must be a string')
  const [, place = '', name = ''] = /^skill:\/\/([\w-]+)\/([^/]+)\/SKILL\.md$/.exec(uri) ?? []
  const skill = name && (await readSkill(service, caller, place === 'builtin' ? `builtin://${name}` : place))
  return { uri, skill: skill && uriOf(skill) === uri ? skill : undefined }
}

async function readSkill(service: Service, caller: Caller, id: string): Promise<Skill | undefined> {
  if (!caller.organization || !isId(id)) return builtInSkills.get(id)
  const skill = await skills.getSkill(service, caller as OrgCaller, { id }).catch((error) => {
    if (error instanceof Failure && error.envelope.status === 404) return undefined
    throw error
  })
  return skill?.archived_at === null ? skill : undefined
}

/** Empty for a skill that the extension can't represent: it allows only ASCII names and flat metadata. */
function describeEntry(skill: Skill) {
  const frontmatter = typedFrontmatter(skill.content)
  const { name, description, compatibility = '-', metadata = {} } = frontmatter
  const isPlain = typeof name === 'string' && /^[a-z0-9]+(-[a-z0-9]+)*$/.test(name) && name === skill.name
  const isText = typeof description === 'string' && typeof compatibility === 'string' && compatibility !== ''
  const isFlat = metadata !== null && Object.values(metadata as object).every((value) => typeof value === 'string')
  if (!isPlain || !isText || !isFlat) return []
  const uri = uriOf(skill)
  const digest = `sha256:${createHash('sha256').update(skill.content).digest('hex')}`
  return [{ uri, frontmatter, resources: [{ uri, digest, size: Buffer.byteLength(skill.content) }] }]
}
