import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { eras, makeMessage, post, type Version } from '../../../test/mcp-messages.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('member@demo.test', 'demo')
})
afterAll(() => app.close())

const ask = async (method: string, params: object = {}, { version = '2026-07-28' as Version, as = token } = {}) => {
  const { body } = await post(app, as, makeMessage(version, method, params as Record<string, unknown>))
  return body.result ?? body.error
}

const create = async (content: string) =>
  (await app.request('POST', '/organization-skills', { token, body: { content } })).body

const skillText = (name: string, more = '') =>
  `---\nname: ${name}\ndescription: Use it for ${name}.\n${more}---\n# Steps\n\n1. Go\n`

const builtIn = 'skill://builtin/skill-creator-webmcp/SKILL.md'
const archive = (id: string) => app.request('DELETE', `/organization-skills/${id}`, { token })

describe.each(eras)('skills in %s', (version) => {
  const options = { version }

  test('are resources with their description and verbatim text', async () => {
    const content = skillText('refund-order')
    const { id } = await create(content)
    const uri = `skill://${id}/refund-order/SKILL.md`
    const { resources } = await ask('resources/list', {}, options)
    expect(resources.map((resource: { uri: string }) => resource.uri)).toEqual([builtIn, uri])
    expect(resources[1]).toEqual({
      uri,
      name: 'refund-order',
      description: 'Use it for refund-order.',
      mimeType: 'text/markdown',
    })
    expect((await ask('resources/read', { uri }, options)).contents).toEqual([
      { uri, mimeType: 'text/markdown', text: content },
    ])
    await archive(id)
    expect(await ask('resources/read', { uri }, options)).toMatchObject({ code: -32602, data: { uri } })
    expect((await ask('resources/list', {}, options)).resources).toHaveLength(1)
  })

  test('are entries of the skills extension with typed frontmatter and a digest', async () => {
    const content = skillText('typed', 'version: 1.5\nbeta: true\nmetadata:\n  owner: shop\n')
    const { id } = await create(content)
    const uri = `skill://${id}/typed/SKILL.md`
    const entry = {
      uri,
      frontmatter: {
        name: 'typed',
        description: 'Use it for typed.',
        version: 1.5,
        beta: true,
        metadata: { owner: 'shop' },
      },
      resources: [{ uri, digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/), size: Buffer.byteLength(content) }],
    }
    expect((await ask('skills/list', {}, options)).skills[1]).toEqual(entry)
    expect((await ask('skills/get', { uri }, options)).skill).toEqual(entry)
    await archive(id)
    expect(await ask('skills/get', { uri }, options)).toMatchObject({ code: -32602 })
  })

  test('that the extension can’t represent are still resources', async () => {
    const ids = [
      (await create(skillText('技能'))).id,
      (await create(skillText('nested', 'metadata:\n  deep:\n    er: x\n'))).id,
    ]
    const { resources } = await ask('resources/list', {}, options)
    const [, ...own] = resources.map((resource: { uri: string }) => resource.uri)
    expect(own).toEqual([`skill://${ids[1]}/nested/SKILL.md`, `skill://${ids[0]}/%E6%8A%80%E8%83%BD/SKILL.md`])
    for (const uri of own) expect((await ask('resources/read', { uri }, options)).contents).toHaveLength(1)
    expect((await ask('skills/list', {}, options)).skills).toHaveLength(1)
    await Promise.all(ids.map(archive))
  })
})

// The stored frontmatter is parsed with string keys; core YAML reads 1 and 0x1 as the same number key.
test('a skill whose frontmatter differs as core YAML doesn’t break the list', async () => {
  const { id } = await create(skillText('odd', '1: a\n0x1: b\nwhen: ~\nhow: .inf\n'))
  expect((await ask('skills/list')).skills.map(({ uri }: { uri: string }) => uri)).toContain(
    `skill://${id}/odd/SKILL.md`,
  )
  await archive(id)
})

test('callers without an organization get the built-in skills', async () => {
  const as = await app.tokenFor('nobody@demo.test')
  expect((await ask('resources/list', {}, { as })).resources).toHaveLength(1)
  expect((await ask('skills/list', {}, { as })).skills).toHaveLength(1)
  expect((await ask('resources/read', { uri: builtIn }, { as })).contents).toHaveLength(1)
})

test('another organization’s skill gets the same response as one that doesn’t exist', async () => {
  const { id } = await create(skillText('secret-plan'))
  const as = await app.tokenFor('admin@other.test', 'other')
  const unknown = '01890000-0000-7000-8000-000000000000'
  for (const method of ['resources/read', 'skills/get']) {
    const foreign = await ask(method, { uri: `skill://${id}/secret-plan/SKILL.md` }, { as })
    const random = await ask(method, { uri: `skill://${unknown}/secret-plan/SKILL.md` }, { as })
    expect(foreign.code).toBe(-32602)
    expect(JSON.stringify(foreign).replaceAll(id, unknown)).toBe(JSON.stringify(random))
  }
  expect(JSON.stringify(await ask('resources/list', {}, { as }))).not.toContain('secret-plan')
  await archive(id)
})

test.each([
  'skill://x/y/SKILL.md',
  'skill://builtin/skill-creator-webmcp/other.md',
  'skill://builtin/%/SKILL.md',
  'skill://builtin/../SKILL.md',
  'file:///etc/passwd',
  '',
  "skill://' or 1=1/x/SKILL.md",
])('the URI %s is not found', async (uri) => {
  expect(await ask('resources/read', { uri })).toMatchObject({ code: -32602, message: 'Resource not found' })
  expect(await ask('skills/get', { uri })).toMatchObject({ code: -32602 })
})

test.each([[{}], [{ uri: 1 }]])('rejects a missing or invalid URI: %j', async (params) => {
  expect(await ask('resources/read', params)).toMatchObject({ code: -32602 })
})

test('lists are paginated, and invalid cursors are rejected', async () => {
  const admin = await app.tokenFor('admin@other.test', 'other')
  await app.service.database.asOrg(await app.organization('other'), async (sql) => {
    await sql`update organizations set plan_id = 'enterprise'`
  })
  for (let index = 0; index < 30; index++) {
    const body = { content: skillText(`page-${String(index).padStart(2, '0')}`) }
    await app.request('POST', '/organization-skills', { token: admin, body })
  }
  const first = await ask('skills/list', {}, { as: admin })
  expect(first.skills).toHaveLength(25)
  const second = await ask('skills/list', { cursor: first.nextCursor }, { as: admin })
  expect(second.skills).toHaveLength(6)
  expect(second.nextCursor).toBeUndefined()
  const uris = [...first.skills, ...second.skills].map((skill: { uri: string }) => skill.uri)
  expect(new Set(uris).size).toBe(31)
  for (const cursor of ['x', '-1', '1e3', '99999999999', 5]) {
    expect(await ask('skills/list', { cursor })).toMatchObject({ code: -32602 })
    expect(await ask('resources/list', { cursor })).toMatchObject({ code: -32602 })
  }
})

test('the template describes the URIs', async () => {
  const { resourceTemplates } = await ask('resources/templates/list')
  expect(resourceTemplates).toMatchObject([{ uriTemplate: 'skill://{id}/{name}/SKILL.md', mimeType: 'text/markdown' }])
})
