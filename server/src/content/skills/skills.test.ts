import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const builtInId = 'builtin://skill-creator-webmcp'
const builtInPath = `/organization-skills/${encodeURIComponent(builtInId)}`

let count = 0
const newName = () => `skill-${++count}`
const text = (name: string, body = '# Title\n', description = 'Use it.') =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}`

const create = (content: unknown) => app.request('POST', '/organization-skills', { token, body: { content } })
const makeSkill = async (name = newName(), body?: string) => (await create(text(name, body))).body
const get = (id: string) => app.request('GET', `/organization-skills/${id}`, { token })
const patch = (id: string, body: unknown) => app.request('PATCH', `/organization-skills/${id}`, { token, body })
const archive = (id: string) => app.request('DELETE', `/organization-skills/${id}`, { token })
const restore = (id: string, version: unknown) =>
  app.request('POST', `/organization-skills/${id}/restore`, { token, body: { version } })
const versions = (id: string, query = '') =>
  app.request('GET', `/organization-skills/${id}/versions${query}`, { token })
const list = async (body: unknown = {}) =>
  (await app.request('POST', '/organization-skills/list', { token, body })).body
const replace = (before: string, after: string, more = {}) => ({
  patch: { version: 1, operations: [{ type: 'replace', before, after }] },
  ...more,
})

const taken = {
  defined: true,
  code: 'CONFLICT',
  status: 409,
  message: 'Resource already exists',
  data: { code: 'DUPLICATE_RESOURCE', resource: 'skill' },
}
const unknown = (resource: string, resourceId: string) => ({
  defined: true,
  code: 'NOT_FOUND',
  status: 404,
  message: 'Resource not found',
  data: { code: 'RESOURCE_NOT_FOUND', resource, resourceId },
})
const validation = (field: string, details: unknown, message: unknown = 'Invalid request data') => ({
  defined: true,
  code: 'BAD_REQUEST',
  status: 400,
  message,
  data: { code: 'VALIDATION_ERROR', field, details },
})
const denied = {
  defined: true,
  code: 'FORBIDDEN',
  status: 403,
  message: 'Access denied',
  data: { code: 'ACCESS_DENIED', reason: 'Built-in skills can’t be changed' },
}

describe('creating', () => {
  test('returns the whole record, as reading it does', async () => {
    const frontmatter = [
      'name: ｒefund',
      'description: Refund an order.',
      'license: MIT',
      'compatibility: Shop',
      'allowed-tools: a b',
      'metadata:',
      '  x: 1',
    ]
    const content = ['---', ...frontmatter, '---', '', '# Body', ''].join('\r\n')
    const { body } = await create(content)
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'refund',
      description: 'Refund an order.',
      body: '\r\n# Body\r\n',
      content,
      license: 'MIT',
      compatibility: 'Shop',
      allowed_tools: 'a b',
      metadata: { x: 1 },
      domains: ['*'],
      location: null,
      source: null,
      version: 1,
      tokens: 3,
      created_at: timestamp,
      updated_at: body.created_at,
      archived_at: null,
    })
    expect((await get(body.id)).body).toEqual(body)
  })

  test('keeps unknown fields, and returns warnings about them', async () => {
    const { warnings, ...skill } = (await create('---\nname: odd\ndescription: x\npriority: 1\nb: 2\n---\n')).body
    expect(warnings).toEqual(['unknown frontmatter field "priority"', 'unknown frontmatter field "b"'])
    expect((await get(skill.id)).body).toEqual(skill)
    expect((await patch(skill.id, replace('b: 2\n', ''))).body.warnings).toEqual(warnings.slice(0, 1))
  })

  test.each([
    ['name is required', 'name', '---\ndescription: x\n---\n'],
    ['name must be lowercase', 'name', text('MySkill')],
    ['invalid name format', 'name', text('my--skill')],
    ['name exceeds 64 characters', 'name', text('a'.repeat(65))],
    ['description is required', 'description', '---\nname: a\n---\n'],
    ['description exceeds 1024 characters', 'description', text('a', '', 'x'.repeat(1025))],
    ['compatibility exceeds 500 characters', 'compatibility', text('a', '', `x\ncompatibility: ${'x'.repeat(501)}`)],
    ['frontmatter is missing', 'content', '# Title'],
    ['frontmatter is not valid YAML', 'content', text('[')],
    ['content exceeds 256 KiB', 'content', text('a', 'x'.repeat(256 * 1024))],
  ])('is rejected: %s', async (message, field, content) => {
    const before = await list()
    expect((await create(content)).body).toEqual(validation(field, message, message))
    expect(await list()).toEqual(before)
  })

  test.each([
    ['no content', {}, 'content'],
    ['content of another type', { content: 1 }, 'content'],
    ['an unknown field', { content: text('a'), domains: ['*'] }, 'domains'],
    ['an organization ID', { content: text('a'), organization_id: 'x' }, 'organization_id'],
  ])('is rejected with %s', async (_, body, field) => {
    const answer = await app.request('POST', '/organization-skills', { token, body })
    expect(answer.body).toEqual(validation(field, expect.stringMatching(/\S/)))
  })

  test.each([
    ['an active skill', 'taken', 'taken'],
    ['an active skill after normalization', 'taken-too', 'ｔaken-too'],
    ['a built-in skill', newName(), 'skill-creator-webmcp'],
  ])('is rejected with the name of %s', async (_, first, second) => {
    await makeSkill(first)
    expect((await create(text(second))).body).toEqual(taken)
  })

  test('succeeds once for concurrent requests with the same name', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => create(text('only-once'))))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)])
  })

  test('accepts a name that another organization uses', async () => {
    const { name } = await makeSkill()
    const other = await app.tokenFor('admin@other.test', 'other')
    const answer = await app.request('POST', '/organization-skills', { token: other, body: { content: text(name) } })
    expect(answer.status).toBe(200)
  })

  // The free plan has ten skills.
  test('stops exactly at the plan’s limit, and archived skills do not count', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@other.test', 'other')
    const post = (name: string) => app.request('POST', '/organization-skills', { token, body: { content: text(name) } })
    const answers = await Promise.all(Array.from({ length: 15 }, (_, n) => post(`s${n}`)))
    const made = answers.filter(({ status }) => status === 200)
    expect(made).toHaveLength(10)
    const full = {
      defined: true,
      code: 'PAYMENT_REQUIRED',
      status: 403,
      message: 'Your plan includes 10 skills, and all are in use',
      data: { code: 'PAYMENT_REQUIRED' },
    }
    expect(answers.find(({ status }) => status !== 200)?.body).toEqual(full)

    const { id } = made[0]?.body ?? {}
    await app.request('DELETE', `/organization-skills/${id}`, { token })
    expect((await post('another')).status).toBe(200)
    const back = await app.request('POST', `/organization-skills/${id}/restore`, { token, body: { version: 1 } })
    expect(back.body).toEqual(full)
  })
})

describe('listing', () => {
  let listed: TestService
  const inList = async (body?: unknown) => {
    const token = await listed.tokenFor('member@demo.test', 'demo')
    return listed.request('POST', '/organization-skills/list', { token, ...(body !== undefined && { body }) })
  }
  const names = async (body?: unknown) => (await inList(body)).body.map(({ name }: { name: string }) => name)

  beforeAll(async () => {
    listed = await startTestService()
    const token = await listed.tokenFor('admin@demo.test', 'demo')
    const post = (content: string) => listed.request('POST', '/organization-skills', { token, body: { content } })
    await post(text('zebra', '', 'Stripes and 100%_sure'))
    await post(text('навык', '', 'ОПИСАНИЕ НА РУССКОМ'))
    await post(text('ant', '', 'Small'))
    const gone = await post(text('gone', '', 'Small'))
    await listed.request('DELETE', `/organization-skills/${gone.body.id}`, { token })
    const other = await listed.tokenFor('admin@other.test', 'other')
    await listed.request('POST', '/organization-skills', { token: other, body: { content: text('theirs') } })
  })
  afterAll(() => listed.close())

  test('returns ID, name and description, built-in skills first', async () => {
    const id = expect.stringMatching(/^[0-9a-f-]{36}$/)
    expect((await inList({})).body).toEqual([
      { id: builtInId, name: 'skill-creator-webmcp', description: expect.stringMatching(/^Write or improve a skill/) },
      { id, name: 'ant', description: 'Small' },
      { id, name: 'zebra', description: 'Stripes and 100%_sure' },
      { id, name: 'навык', description: 'ОПИСАНИЕ НА РУССКОМ' },
    ])
  })

  test('works without a body', async () => expect((await inList()).body).toEqual((await inList({})).body))

  const all = ['skill-creator-webmcp', 'ant', 'zebra', 'навык']
  test.each<[unknown, string[]]>([
    [{ limit: 1 }, all.slice(0, 1)],
    [{ limit: 2 }, all.slice(0, 2)],
    [{ limit: 100 }, all],
    [{ limit: 2, offset: 1 }, all.slice(1, 3)],
    [{ offset: 3 }, all.slice(3)],
    [{ offset: 4 }, []],
    [{ offset: Number.MAX_SAFE_INTEGER }, []],
    [{ query: '' }, all],
    [{ query: 'ZEB' }, ['zebra']],
    [{ query: 'small' }, ['ant']],
    [{ query: 'ｓｍａｌｌ' }, ['ant']],
    [{ query: 'описание' }, ['навык']],
    [{ query: 'НАВЫК' }, ['навык']],
    [{ query: '%' }, ['zebra']],
    [{ query: '_' }, ['zebra']],
    [{ query: 'webmcp' }, ['skill-creator-webmcp']],
    [{ query: 'webmcp', offset: 1 }, []],
    [{ query: 'a', limit: 2, offset: 1 }, ['ant', 'zebra']],
    [{ query: 'gone' }, []],
    [{ query: 'theirs' }, []],
    [{ query: "' or 1=1" }, []],
    [{ query: 'x'.repeat(200) }, []],
  ])('supports %j', async (body, expected) => expect(await names(body)).toEqual(expected))

  test.each([
    [{ limit: 0 }, 'limit'],
    [{ limit: 101 }, 'limit'],
    [{ limit: 1.5 }, 'limit'],
    [{ limit: '1' }, 'limit'],
    [{ limit: null }, 'limit'],
    [{ offset: -1 }, 'offset'],
    [{ offset: 2 ** 53 }, 'offset'],
    [{ query: 1 }, 'query'],
    [{ query: 'x'.repeat(201) }, 'query'],
    [{ query: '\0' }, ''],
    [{ archived: true }, 'archived'],
  ])('rejects %j', async (body, field) => {
    expect((await inList(body)).body).toEqual(validation(field, expect.stringMatching(/\S/)))
  })
})

describe('the built-in skill', () => {
  test('can be read by its location', async () => {
    const { status, body } = await app.request('GET', builtInPath, { token })
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { id: builtInId, location: builtInId, name: 'skill-creator-webmcp', domains: ['*'], version: 1 },
    })
    expect(body.content.endsWith(body.body)).toBe(true)
    expect(body.body).toContain('document.modelContext.registerTool')
  })

  test.each([
    ['patched', 'PATCH', '', { domains: ['a.example.com'] }],
    ['archived', 'DELETE', '', undefined],
    ['restored', 'POST', '/restore', { version: 1 }],
  ])('cannot be %s', async (_, method, path, body) => {
    expect((await app.request(method, `${builtInPath}${path}`, { token, body })).body).toEqual(denied)
  })

  test('has no versions, and other locations are a 404', async () => {
    expect((await app.request('GET', `${builtInPath}/versions`, { token })).body).toEqual(unknown('skill', builtInId))
    const path = `/organization-skills/${encodeURIComponent('builtin://other')}`
    expect((await app.request('GET', path, { token })).body).toEqual(unknown('skill', 'builtin://other'))
  })
})

describe('patching', () => {
  test('edits the text, creates a version and returns the record', async () => {
    const before = await makeSkill()
    const { body } = await patch(before.id, {
      patch: {
        version: 1,
        operations: [
          { type: 'replace', before: 'Use it.', after: 'Use it often.' },
          { type: 'insert', anchor: '# Title\n', text: 'More.\n' },
          { type: 'insert', anchor: '# Title', text: 'Less.\n', position: 'before' },
          { type: 'delete', before: '# Title\n' },
        ],
      },
      domains: ['App.example.com', 'bücher.example', 'app.example.com', 'localhost'],
      expected_version: 1,
    })
    expect(body).toEqual({
      ...before,
      description: 'Use it often.',
      body: 'Less.\nMore.\n',
      content: text(before.name, 'Less.\nMore.\n', 'Use it often.'),
      domains: ['app.example.com', 'xn--bcher-kva.example', 'localhost'],
      tokens: 3,
      version: 2,
      updated_at: timestamp,
    })
    expect((await get(before.id)).body).toEqual(body)
    expect(await list({ query: 'use it often' })).toEqual([
      { id: before.id, name: before.name, description: 'Use it often.' },
    ])
  })

  test('can change only the domains', async () => {
    const before = await makeSkill()
    const { body } = await patch(before.id, { domains: ['app.example.com'] })
    expect(body).toEqual({ ...before, domains: ['app.example.com'], version: 2, updated_at: timestamp })
    expect((await patch(before.id, replace('# Title', '# New'))).body.domains).toEqual(['app.example.com'])
  })

  test('can rename a skill to an unused name', async () => {
    const [one, two] = [await makeSkill(), await makeSkill()]
    expect((await patch(one.id, replace(one.name, two.name))).body).toEqual(taken)
    expect((await patch(one.id, replace(one.name, 'skill-creator-webmcp'))).body).toEqual(taken)
    const fresh = newName()
    expect((await patch(one.id, replace(one.name, fresh))).body).toMatchObject({ name: fresh, version: 2 })
    expect((await patch(two.id, replace(two.name, one.name))).body, 'the old name is free').toMatchObject({
      name: one.name,
    })
  })

  test.each([
    ['an operation that does not match', replace('nowhere', 'x'), 'patch.operations.0.expected_matches'],
    ['an invalid result', replace('description', 'summary'), 'description'],
    ['a result that is too long', replace('# Title', 'x'.repeat(256 * 1024)), 'content'],
    ['nothing', {}, 'patch'],
    ['an expected version alone', { expected_version: 1 }, 'patch'],
    ['no operations', { patch: { version: 1, operations: [] } }, 'patch.operations'],
    [
      '51 operations',
      { patch: { version: 1, operations: Array(51).fill({ type: 'delete', before: 'x' }) } },
      'patch.operations',
    ],
    [
      'another patch format version',
      { patch: { version: 2, operations: [{ type: 'delete', before: 'x' }] } },
      'patch.version',
    ],
    ['no patch format version', { patch: { operations: [{ type: 'delete', before: 'x' }] } }, 'patch.version'],
    [
      'an unknown type',
      { patch: { version: 1, operations: [{ type: 'move', before: 'x' }] } },
      'patch.operations.0.type',
    ],
    ['a replacement of an empty string', replace('', 'x'), 'patch.operations.0.before'],
    [
      'a replacement without `after`',
      { patch: { version: 1, operations: [{ type: 'replace', before: 'x' }] } },
      'patch.operations.0.after',
    ],
    [
      'a field of another operation type',
      { patch: { version: 1, operations: [{ type: 'delete', before: 'x', after: '' }] } },
      'patch.operations.0.after',
    ],
    [
      'an insertion of an empty string',
      { patch: { version: 1, operations: [{ type: 'insert', anchor: '#', text: '' }] } },
      'patch.operations.0.text',
    ],
    [
      'an unknown position',
      { patch: { version: 1, operations: [{ type: 'insert', anchor: '#', text: 'x', position: 'within' }] } },
      'patch.operations.0.position',
    ],
    ...[0, 10_001, 1.5, '1', null].map((expected_matches): [string, unknown, string] => [
      `${JSON.stringify(expected_matches)} expected matches`,
      { patch: { version: 1, operations: [{ type: 'delete', before: 'x', expected_matches }] } },
      'patch.operations.0.expected_matches',
    ]),
    ...[0, 1.5, '1', 2 ** 31].map((expected_version): [string, unknown, string] => [
      `the expected version ${JSON.stringify(expected_version)}`,
      { domains: ['*'], expected_version },
      'expected_version',
    ]),
    ['no domains', { domains: [] }, 'domains'],
    ['domains of another type', { domains: '*' }, 'domains'],
    ['"*" beside a hostname', { domains: ['*', 'a.example.com'] }, 'domains'],
    ['101 domains', { domains: Array.from({ length: 101 }, (_, n) => `h${n}.example.com`) }, 'domains'],
    ...[
      '',
      ' ',
      'https://a.example.com',
      'a.example.com/',
      'a.example.com:443',
      'a.example.com.',
      'u@a.example.com',
      '*.example.com',
      'ex%61mple.com',
      '[::1]',
      `${'a'.repeat(64)}.example.com`,
    ].map((domain): [string, unknown, string] => [`the domain "${domain}"`, { domains: [domain] }, 'domains.0']),
    ['content', { content: text('x') }, 'content'],
  ])('is rejected with %s, and changes nothing', async (_, body, field) => {
    const before = await makeSkill()
    expect((await patch(before.id, body)).body).toEqual(
      validation(field, expect.stringMatching(/\S/), expect.stringMatching(/\S/)),
    )
    expect((await get(before.id)).body).toEqual(before)
    expect((await versions(before.id)).body.total).toBe(1)
  })

  test('is rejected if the skill was changed in the meantime', async () => {
    const before = await makeSkill()
    const stale = (version: number) => ({
      defined: false,
      code: 'CONFLICT',
      status: 409,
      message: `The skill has changed and is now at version ${version}. Get it and apply your edit again.`,
      data: { code: 'STALE_VERSION', version },
    })
    expect((await patch(before.id, replace('# Title', '# New', { expected_version: 2 }))).body).toEqual(stale(1))
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => patch(before.id, replace('# Title', `# ${n}`, { expected_version: 1 }))),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.find(({ status }) => status !== 200)?.body).toEqual(stale(2))
  })

  test('keeps all concurrent edits of different places', async () => {
    const lines = Array.from({ length: 30 }, (_, n) => `line ${n}.\n`)
    const { id } = await makeSkill(newName(), lines.join(''))
    await Promise.all(lines.map((line) => patch(id, replace(`\n${line}`, `\nnew ${line}`))))
    expect((await get(id)).body).toMatchObject({ body: lines.map((line) => `new ${line}`).join(''), version: 31 })
  })

  test('does not deadlock when two concurrent edits swap names', async () => {
    const [one, two] = [await makeSkill(), await makeSkill()]
    const answers = await Promise.all([
      patch(one.id, replace(one.name, two.name)),
      patch(two.id, replace(two.name, one.name)),
    ])
    expect(answers.map(({ status }) => status)).toEqual([409, 409])
  })
})

describe('archiving and restoring', () => {
  test('archiving keeps the skill and frees its name', async () => {
    const skill = await makeSkill()
    const { body } = await archive(skill.id)
    expect(body).toEqual({ ...skill, archived_at: timestamp })
    expect((await get(skill.id)).body).toEqual(body)
    expect(await list({ query: skill.name })).toEqual([])
    expect((await archive(skill.id)).body, 'archiving again changes nothing').toEqual(body)
    expect((await patch(skill.id, replace('# Title', '# New'))).body).toEqual({
      defined: false,
      code: 'CONFLICT',
      status: 409,
      message: 'The skill is archived. Restore a version to edit it.',
      data: { code: 'SKILL_ARCHIVED' },
    })

    const successor = await makeSkill(skill.name)
    expect((await restore(skill.id, 1)).body, 'its name is taken').toEqual(taken)
    await archive(successor.id)
    const back = (await restore(skill.id, 1)).body
    expect(back).toEqual({ ...skill, version: 2, updated_at: timestamp })
    expect((await get(skill.id)).body).toEqual(back)
  })

  test('every version is kept, can be read, and can be restored', async () => {
    const first = await makeSkill()
    await patch(first.id, replace('# Title', '# Second', { domains: ['a.example.com'] }))
    await patch(first.id, replace(first.name, newName()))
    const restored = (await restore(first.id, 1)).body
    expect(restored).toEqual({ ...first, version: 4, updated_at: timestamp })

    const row = (version: number) => ({ version, created_by: 'admin@demo.test', created_at: timestamp })
    expect((await versions(first.id)).body).toEqual({ versions: [4, 3, 2, 1].map(row), total: 4 })
    expect((await versions(first.id, '?limit=2&offset=1')).body).toEqual({ versions: [3, 2].map(row), total: 4 })
    expect((await app.request('GET', `/organization-skills/${first.id}/versions/2`, { token })).body).toEqual({
      ...row(2),
      content: text(first.name, '# Second\n'),
      domains: ['a.example.com'],
    })
  })

  test.each(['0', '2', '01', '1.0', '-1', 'x', '\0', '9'.repeat(20)])('version %j is a 404', async (version) => {
    const { id } = await makeSkill()
    const { body } = await app.request('GET', `/organization-skills/${id}/versions/${encodeURIComponent(version)}`, {
      token,
    })
    expect(body).toEqual(unknown('skill_version', version))
  })

  test('restoring an unknown version is a 404', async () => {
    const { id } = await makeSkill()
    expect((await restore(id, 2)).body).toEqual(unknown('skill_version', '2'))
    expect((await versions(id)).body.total).toBe(1)
  })

  test.each([0, -1, 1.5, '1', null, 2 ** 31, undefined])('restoring version %j is rejected', async (version) => {
    const { id } = await makeSkill()
    expect((await restore(id, version)).body).toEqual(validation('version', expect.stringMatching(/\S/)))
  })

  test.each(['?limit=0', '?limit=101', '?offset=-1', '?limit=x', '?page=1'])(
    'versions%s is rejected',
    async (query) => {
      const { id } = await makeSkill()
      expect((await versions(id, query)).body.data.code).toBe('VALIDATION_ERROR')
    },
  )
})

test('every change writes an audit event with the actor', async () => {
  const { id, name } = await makeSkill()
  await patch(id, replace('# Title', '# New'))
  await patch(id, replace('nowhere', 'x'))
  await archive(id)
  await archive(id)
  await restore(id, 1)
  const rows = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`select actor, action, data from audit_events where target = ${id} order by sequence`,
  )
  const actor = 'admin@demo.test'
  expect(rows).toEqual([
    { actor, action: 'skill.created', data: { name } },
    { actor, action: 'skill.updated', data: { name, version: 2 } },
    { actor, action: 'skill.archived', data: { name } },
    { actor, action: 'skill.restored', data: { name, version: 3, restored_version: 1 } },
  ])
})

test('a version cannot be added to another organization’s skill', async () => {
  const { id } = await makeSkill()
  const write = app.service.database.asOrg(
    await app.organization('other'),
    (sql) => sql`
      insert into organization_skill_versions (organization_id, skill_id, version, content, domains, created_by)
      values (current_organization(), ${id}, 2, '', '{}', '')`,
  )
  await expect(write).rejects.toMatchObject({ code: '23503' })
})
