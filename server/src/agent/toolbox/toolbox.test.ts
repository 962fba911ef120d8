import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type AgentWorld, ann, callOf, noTrust, startAgentWorld } from '../../../test/agent-world.ts'
import { startThread } from '../../../test/conversation-rows.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { pageOrigin } from '../../../test/page.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { countTokens } from '../models/tokens/tokenizer.ts'
import type { Run, ToolCallRow } from '../runs/run.ts'
import type { AgentTool } from './toolbox.ts'

let world: AgentWorld
beforeAll(async () => {
  world = await startAgentWorld()
})
afterAll(() => world.close())
afterEach(() => world.reset())

const builtIn = ['activate_skill', 'draft_skill', 'read_result']
const elsewhere = 'https://elsewhere.example'
const readOnly = { readOnlyHint: true }
const never = new AbortController()

const call = async (run: Run, tool: AgentTool, changes: Partial<ToolCallRow> = {}) =>
  world.toolbox.call(run, callOf(run, tool, changes), never)

describe('the list', () => {
  test('has the tools of the page, the connectors, the client and Inlay, sorted by name', async () => {
    await world.addConnector()
    const { run, page } = await world.converse(ann, {
      title: 'My cart',
      tools: [{ name: 'pay', title: 'Pay', description: 'Pays', annotations: { destructiveHint: true } }],
    })
    const client = { run_id: 'r', tools: [{ name: 'blink', description: 'Blinks', inputSchema: { required: ['a'] } }] }
    const tools = await world.toolbox.list({ ...run, client }, [])
    expect(tools.map(({ name }) => name)).toEqual([
      'activate_skill',
      'blink',
      'crm_whoami',
      ...builtIn.slice(1, 2),
      'pay',
      'read_result',
    ])
    const byName = Object.fromEntries(tools.map((tool) => [tool.name, tool]))
    expect(byName.pay).toEqual({
      name: 'pay',
      title: 'Pay',
      description: 'Pays',
      inputSchema: { type: 'object', properties: {} },
      ref: { kind: 'page', name: 'pay', origin: pageOrigin, source_id: page.ready.session, title: 'My cart' },
      definitionHash: expect.stringMatching(/^[\w-]{43}@https:\/\/shop\.example$/),
      isWriting: true,
      policy: undefined,
    })
    expect(byName.crm_whoami).toMatchObject({
      description: 'Who asks',
      ref: { kind: 'connector', name: 'crm.whoami', origin: new URL(world.tools.url).origin, connector: 'crm' },
    })
    expect(byName.blink).toMatchObject({
      inputSchema: { type: 'object', properties: {}, required: ['a'] },
      ref: { kind: 'client', name: 'blink', origin: pageOrigin },
    })
    expect(byName.read_result).toMatchObject({ ref: { kind: 'built_in', name: 'read_result' }, isWriting: false })
  })

  test('has names that models accept, and that pages can’t take from others', async () => {
    await world.addConnector()
    const tools = ['add to cart', 'activate_skill', 'crm_whoami', '購入', 'x'.repeat(128)].map((name) => ({ name }))
    const { names, tool } = await world.converse(ann, { tools })
    const listed = await names()
    expect(listed.every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name))).toBe(true)
    expect(new Set(listed).size).toBe(listed.length)
    expect((await tool('crm_whoami')).ref).toMatchObject({ kind: 'connector' })
    expect((await tool('activate_skill')).ref).toMatchObject({ kind: 'built_in' })
    expect((await tool('add_to_cart')).ref).toMatchObject({ name: 'add to cart' })
    expect(listed).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^activate_skill_\w{6}$/),
        expect.stringMatching(/^crm_whoami_\w{6}$/),
        expect.stringMatching(/^tool_\w{6}$/),
      ]),
    )
    expect(await names(), 'the same again').toEqual(listed)
  })

  test('leaves out a page’s tool that has the name of a connector’s', async () => {
    await world.addConnector()
    const { names } = await world.converse(ann, { tools: [{ name: 'crm.steal' }] })
    expect(await names()).toEqual(['activate_skill', 'crm_whoami', 'draft_skill', 'read_result'])
  })

  test('has a tool of several tabs once, and one of this tab if it can', async () => {
    const same = { name: 'add', description: 'Adds' }
    const { page: other } = await world.converse(ann, { tools: [same, { name: 'pay', description: 'By card' }] })
    const { tool, names, page } = await world.converse(ann, {
      tools: [same, { name: 'pay', description: 'By invoice' }],
    })
    expect((await tool('add')).ref).toMatchObject({ source_id: page.ready.session })
    expect(await tool('pay')).toMatchObject({ description: 'By invoice', ref: { source_id: page.ready.session } })
    const [otherName = ''] = (await names()).filter((name) => name.startsWith('pay_'))
    expect(await tool(otherName)).toMatchObject({ description: 'By card', ref: { source_id: other.ready.session } })
  })

  test('tells equal tools of two origins apart, and so does a permission', async () => {
    const same = { name: 'add', description: 'Adds' }
    await world.converse(ann, { origin: elsewhere, tools: [same] })
    const { run, tool, names } = await world.converse(ann, { tools: [same] })
    const [otherName = ''] = (await names()).filter((name) => name.startsWith('add_'))
    const [here, there] = [await tool('add'), await tool(otherName)]
    expect([here.ref, there.ref]).toMatchObject([{ origin: pageOrigin }, { origin: elsewhere }])
    const trust = { ...noTrust, allowed_tools: [here.definitionHash] }
    expect((await world.toolbox.judge(run, here, {}, trust)).verdict).toBe('run')
    expect((await world.toolbox.judge(run, there, {}, trust)).verdict).toBe('ask')
  })

  test.each([
    ['an end user with a verified address', ann, ['add', 'pay']],
    ['an end user without an address', { sub: 'bob' }, ['add', 'pay']],
    ['a visitor: only those of the page where they write', undefined, ['pay']],
  ])('has the tools of the other tabs of %s', async (_, who, expected) => {
    await world.converse({ sub: 'eve', email: 'eve@example.com', email_verified: true }, { tools: [{ name: 'steal' }] })
    await world.converse(undefined, { tools: [{ name: 'steal' }] })
    const { page } = await world.converse(who, { tools: [{ name: 'add' }] })
    const { names } = await world.converse(who, { tools: [{ name: 'pay' }] })
    expect((await names()).filter((name) => !builtIn.includes(name))).toEqual(who ? expected : ['pay'])
    page.socket.close()
  })

  test('says which tools may change something', async () => {
    await world.addConnector({ read_only_tools: ['marked'] })
    world.tools.more = (server) => {
      for (const name of ['marked', 'plain']) server.registerTool(name, {}, () => ({ content: [] }))
      server.registerTool('declared', { annotations: readOnly }, () => ({ content: [] }))
    }
    const { run } = await world.converse(ann, {
      tools: [
        { name: 'look', annotations: readOnly },
        { name: 'unsure', annotations: { readOnlyHint: true, consequentialHint: true } },
        { name: 'unknown' },
      ],
    })
    const writing = (await world.toolbox.list(run, [])).filter(({ isWriting }) => isWriting)
    expect(writing.map(({ name }) => name)).toEqual(['crm_plain', 'crm_whoami', 'unknown', 'unsure'])
  })

  test('asks connectors once in 30 seconds, and again after a change', async () => {
    const { id } = await world.addConnector()
    const { names } = await world.converse(ann)
    const lists = () => world.tools.asked.filter(({ headers }) => headers.get('mcp-method') === 'tools/list').length
    for (let step = 0; step < 3; step += 1) expect(await names()).toContain('crm_whoami')
    expect(lists()).toBe(1)
    await world.asAdmin('PATCH', `/connectors/${id}`, { status: 'disabled' })
    expect(await names()).not.toContain('crm_whoami')
  })

  test('has no connector’s tools for visitors', async () => {
    await world.addConnector()
    expect(await (await world.converse(undefined)).names()).toEqual(builtIn)
  })
})

describe('above 64 tools, the model', () => {
  const many = Array.from({ length: 70 }, (_, n) => ({ name: `tool_${n}`, description: `Does thing ${n}` }))
  const invoices = [
    { name: 'createInvoice', description: 'Makes a bill' },
    { name: 'other', title: 'Invoice reminders' },
    { name: 'third', description: 'Sends an invoice' },
  ]

  test('gets a search and the tools that it found, best first', async () => {
    const { run, names, tool } = await world.converse(ann, { tools: [...many, ...invoices] })
    expect(await names()).toEqual(['activate_skill', 'draft_skill', 'find_tools', 'read_result'])
    const finder = await tool('find_tools')
    const found = await call(run, finder, { args: { query: 'create an INVOICE' } })
    expect(found).toEqual({ state: 'succeeded', result: 'createInvoice\nother\nthird', origins: [pageOrigin] })
    const past = callOf(run, finder, { state: 'succeeded', result: found.result })
    expect(await names([past])).toEqual(
      ['activate_skill', 'draft_skill', 'find_tools', 'read_result', 'createInvoice', 'other', 'third'].sort(),
    )
    expect(await call(run, finder, { args: { query: 'thing' } }), 'eight at most').toMatchObject({
      result: many
        .slice(0, 8)
        .map(({ name }) => name)
        .join('\n'),
    })
    expect(await call(run, finder, { args: { query: '?!' } })).toMatchObject({ state: 'failed' })
  })

  test('gets all tools up to that number', async () => {
    const { names } = await world.converse(ann, { tools: many.slice(0, 61) })
    expect(await names()).toHaveLength(64)
  })
})

describe('a call to a page', () => {
  test('runs the approved tool with the edited arguments, and is recorded under its own id', async () => {
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'pay' }] })
    const row = callOf(run, await tool('pay'), { args: { sum: 5 }, edited_args: { sum: 4 }, decision: 'allowed' })
    const answered = world.toolbox.call(run, row, never)
    const order = await page.next('tool/call')
    expect(order).toMatchObject({ call_id: row.id, approval_id: row.id, args: { sum: 4 }, client_name: 'Shopkeeper' })
    page.send({ type: 'tool/result', call_id: row.id, result: { content: [{ type: 'text', text: 'paid' }] } })
    expect(await answered).toEqual({ state: 'succeeded', result: 'paid', origins: [pageOrigin], governance: 'none' })
    const { body } = await world.asAdmin('GET', '/tool-calls?limit=1')
    expect(body.tool_calls).toMatchObject([
      {
        id: row.id,
        user_id: page.ready.user.id,
        user_email: 'ann@example.com',
        client_id: null,
        client_name: 'Shopkeeper',
        tool: 'pay',
        approval: 'allowed',
        outcome: 'succeeded',
        definition_hash: order.definition_hash,
      },
    ])
  })

  test.each([
    ['an end user without an address', { sub: 'bob' }],
    ['a visitor', undefined],
  ])('works for %s', async (_, who) => {
    const { run, page, tool } = await world.converse(who, { tools: [{ name: 'pay' }] })
    page.answer(() => 'paid')
    expect(await call(run, await tool('pay'))).toEqual({
      state: 'succeeded',
      result: 'paid',
      origins: [pageOrigin],
      governance: 'none',
    })
    const { body } = await world.asAdmin('GET', '/tool-calls?limit=1')
    const user_id = who ? page.ready.user.id : run.holder.publishable_key_id
    expect(body.tool_calls).toMatchObject([{ user_id, user_email: '', approval: 'not_needed' }])
  })

  test('runs in the page after it was loaded again, and in no other origin', async () => {
    const same = { name: 'pay' }
    const { run, page, tool } = await world.converse(ann, { tools: [same] })
    const row = callOf(run, await tool('pay'))
    page.send({ type: 'bye' })
    await page.closed
    const { page: other } = await world.converse(ann, { origin: elsewhere, tools: [same] })
    expect(await world.toolbox.call(run, row, never)).toMatchObject({
      state: 'failed',
      result: 'The page or server that offered this tool is no longer available, so nothing was done.',
    })
    expect(other.unread('tool/call')).toEqual([])
    const { page: again } = await world.converse(ann, { tools: [same] })
    again.answer(() => 'paid')
    expect(await world.toolbox.call(run, { ...row, id: newId() }, never)).toMatchObject({ result: 'paid' })
  })

  test('fails if the page has changed the tool since it was approved', async () => {
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'pay', description: 'Pays once' }] })
    const row = callOf(run, await tool('pay'), { decision: 'allowed' })
    page.send({ type: 'tools/list', tools: [{ name: 'pay', description: 'Pays twice' }] })
    await page.next('tools/accepted')
    expect(await world.toolbox.call(run, row, never)).toEqual({
      state: 'failed',
      governance: 'none',
      result: 'The tool has changed since it was listed, so nothing was done.',
      origins: [pageOrigin],
    })
    expect(page.unread('tool/call')).toEqual([])
  })

  test.each<[string, Partial<ToolCallRow>]>([
    ['nobody has decided', { decision: null }],
    ['the user declined', { decision: 'declined' }],
    ['its definition is unknown', { definition_hash: null }],
    ['a tool of another origin was approved', { definition_hash: `h@${elsewhere}` }],
  ])('doesn’t run if %s', async (_, changes) => {
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'pay' }] })
    expect(await call(run, await tool('pay'), changes)).toMatchObject({ state: 'refused' })
    await page.settled()
    expect(page.unread('tool/call')).toEqual([])
  })

  test('doesn’t run if the organization has forbidden the tool since', async () => {
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'pay' }] })
    const row = callOf(run, await tool('pay'), { decision: 'allowed' })
    world.rules.tool_policies = { pay: 'never' }
    expect(await world.toolbox.call(run, row, never)).toMatchObject({ state: 'refused', origins: [] })
    expect(page.unread('tool/call')).toEqual([])
  })

  test('reports a tool’s error, and pages that leave', async () => {
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'pay' }] })
    const pay = await tool('pay')
    const broken = call(run, pay)
    page.send({
      type: 'tool/result',
      call_id: (await page.next('tool/call')).call_id,
      error: { code: 'failed', message: 'No money' },
    })
    expect(await broken).toEqual({ state: 'failed', result: 'No money', origins: [pageOrigin], governance: 'none' })
    const left = call(run, pay)
    await page.next('tool/call')
    page.send({ type: 'bye' })
    expect(await left).toMatchObject({ state: 'failed', result: expect.stringContaining('may or may not have run') })
  })

  test('ends at once when it’s aborted, and the page is told', async () => {
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'pay' }] })
    const stop = new AbortController()
    const answered = world.toolbox.call(run, callOf(run, await tool('pay')), stop)
    const { call_id } = await page.next('tool/call')
    const reason = new Error('Stopped')
    stop.abort(reason)
    await expect(answered).rejects.toBe(reason)
    expect(await page.next('tool/cancel')).toMatchObject({ call_id })
    await expect(world.toolbox.call(run, callOf(run, await tool('pay')), stop)).rejects.toBe(reason)
    expect(page.unread('tool/call')).toEqual([])
  })

  test('is judged by the governance provider with the arguments that are sent', async () => {
    const { url: interceptor_url, asked } = await startInterceptor(
      answerWith({ status: 'failure', message: 'No', violations: [] }),
    )
    const settings = { interceptor_url, interceptor_name: 'p', api_key: 'key-of-the-policy', is_enabled: true }
    await world.asAdmin('PATCH', '/governance/providers/config', settings)
    onTestFinished(async () => void (await world.asAdmin('DELETE', '/governance/providers/config')))
    const { run, page, tool } = await world.converse({ sub: 'bob' }, { tools: [{ name: 'pay' }] })
    expect(await call(run, await tool('pay'), { args: { sum: 5 }, edited_args: { sum: 4 } })).toEqual({
      state: 'refused',
      governance: 'refused',
      result: 'The organization’s governance provider blocked the call: No',
      origins: [pageOrigin],
    })
    const context = { arguments: { sum: 4 }, caller_identity: page.ready.user.id }
    expect(asked.map(({ body }) => body.params)).toMatchObject([{ phase: 'request', context }])
    expect(page.unread('tool/call')).toEqual([])
  })
})

describe('a call to a connector', () => {
  let paid: number[] = []
  const offerPayment = (description = 'Pays') => {
    world.tools.more = (server) =>
      server.registerTool('pay', { description, inputSchema: z.object({ sum: z.number() }) }, ({ sum }) => {
        paid.push(sum)
        return { content: [{ type: 'text', text: `paid ${sum}` }] }
      })
  }

  test('acts as the end user, without asking in a page', async () => {
    paid = []
    await world.addConnector()
    offerPayment()
    const { run, page, tool } = await world.converse(ann)
    const whoami = await call(run, await tool('crm_whoami'))
    expect(JSON.parse(whoami.result)).toMatchObject({ subject: 'ann' })
    const outcome = await call(run, await tool('crm_pay'), { args: { sum: 5 }, decision: 'allowed' })
    expect(outcome).toEqual({
      state: 'succeeded',
      result: 'paid 5',
      origins: [new URL(world.tools.url).origin],
      governance: 'none',
    })
    await page.settled()
    expect([paid, page.unread('tool/ask')]).toEqual([[5], []])
    const { body } = await world.asAdmin('GET', '/tool-calls?limit=1')
    expect(body.tool_calls).toMatchObject([
      { tool: 'crm.pay', approval: 'allowed', definition_hash: expect.any(String), user_email: 'ann@example.com' },
    ])
  })

  test('acts as the end user, even if another one has the same address', async () => {
    await world.addConnector()
    const { run, tool } = await world.converse(ann)
    await world.converse({ ...ann, sub: 'double' })
    expect(JSON.parse((await call(run, await tool('crm_whoami'))).result)).toMatchObject({ subject: 'ann' })
  })

  test('fails if the server has changed the tool since it was approved', async () => {
    paid = []
    await world.addConnector()
    offerPayment()
    const { run, tool } = await world.converse(ann)
    const row = callOf(run, await tool('crm_pay'), { args: { sum: 5 }, decision: 'allowed' })
    offerPayment('Pays twice')
    expect(await world.toolbox.call(run, row, never)).toMatchObject({
      state: 'failed',
      result: 'The tool has changed since it was listed, so nothing was done.',
    })
    expect(paid).toEqual([])
  })

  test('never runs in a page instead', async () => {
    const { id } = await world.addConnector()
    const { run, page, tool } = await world.converse(ann, { tools: [{ name: 'crm.whoami' }] })
    const row = callOf(run, await tool('crm_whoami'))
    await world.asAdmin('DELETE', `/connectors/${id}`)
    expect(await world.toolbox.call(run, row, never)).toMatchObject({ state: 'failed' })
    expect(page.unread('tool/call')).toEqual([])
  })

  test('doesn’t use what a member with the same address allowed in person', async () => {
    const connector = { kind: 'oauth', idp_client_id: undefined, idp_client_secret: undefined }
    const { id, name } = await world.addConnector({ ...connector, client_id: undefined, client_secret: undefined })
    const { run, names, tool } = await world.converse({ ...ann, email: 'member@demo.test' } as typeof ann)
    const [organizationId, userId] = [run.organizationId, await memberId()]
    const token = { access_token: 'the member’s', expires_at: world.clock.now + 3_600_000, scopes: [] }
    await world.service.kv.set(`token:${organizationId}:${id}:${userId}`, token, 3_600)
    expect(await names()).toEqual([...builtIn, `connect_${name}`].sort())
    const { origin } = new URL(world.tools.url)
    const ref = { kind: 'connector' as const, name: `${name}.whoami`, origin, connector: name }
    const changes = { tool: ref, definition_hash: `h@${origin}` }
    expect(await call(run, await tool('read_result'), changes)).toMatchObject({
      state: 'failed',
      result: expect.stringContaining('hasn’t connected their account'),
      connectTo: id,
    })
    expect(world.tools.asked).toEqual([])

    async function memberId(): Promise<string> {
      const { body } = await world.asAdmin('GET', '/organizations/current/members')
      return body.find(({ user }: { user: { email: string } }) => user.email === 'member@demo.test').user.id
    }
  })

  test('fails with a reason if the user’s identity is gone', async () => {
    await world.addConnector()
    const { run, tool } = await world.converse(ann)
    const row = callOf(run, await tool('crm_whoami'))
    const visitor = { ...run, holder: { ...run.holder, end_user: undefined } }
    expect(await world.toolbox.call(visitor, row, never)).toMatchObject({
      state: 'failed',
      result: expect.stringContaining('Sign in on this page'),
    })
  })
})

test.each<[string, Partial<ToolCallRow>]>([
  ['that doesn’t exist', { tool: null }],
  ['that runs in the client', { tool: { kind: 'client', name: 'blink', origin: pageOrigin } }],
  ['that Inlay doesn’t have', { tool: { kind: 'built_in', name: 'toString' } }],
])('a call of a tool %s fails', async (_, changes) => {
  const { run, tool } = await world.converse(ann)
  expect(await call(run, await tool('read_result'), changes)).toMatchObject({ state: 'failed', origins: [] })
})

describe('skills', () => {
  const skill = (name: string, body: string) => `---\nname: ${name}\ndescription: About ${name}\n---\n${body}`
  const save = async (name: string, body: string, domains?: string[]) => {
    const { body: saved } = await world.asAdmin('POST', '/organization-skills', { content: skill(name, body) })
    if (domains) await world.asAdmin('PATCH', `/organization-skills/${saved.id}`, { domains })
    onTestFinished(async () => void (await world.asAdmin('DELETE', `/organization-skills/${saved.id}`)))
    return saved.id as string
  }

  test('are those of the page’s host, and the built-in ones', async () => {
    await save('everywhere', 'x')
    await save('here', 'x', ['shop.example', 'other.example'])
    await save('elsewhere', 'x', ['other.example'])
    const archived = await save('archived', 'x')
    await world.asAdmin('DELETE', `/organization-skills/${archived}`)
    const { run } = await world.converse(ann)
    const skills = await world.service.database.asOrg(run.organizationId, (sql) => world.toolbox.listSkills(sql, run))
    expect(skills.map(({ name }) => name)).toEqual(['everywhere', 'here', 'skill-creator-webmcp'])
    expect(skills[0]).toEqual({ name: 'everywhere', description: 'About everywhere' })
    for (const name of ['elsewhere', 'archived', 'nothing'])
      expect(await world.toolbox.readSkill(run, name)).toBeUndefined()
    expect(await world.toolbox.readSkill(run, 'skill-creator-webmcp')).toContain('# Writing a skill')
  })

  test('are activated with their body verbatim and their cost', async () => {
    const body = '\n# Refunds\n\n```\n{ "a": 1 }\n```\n  trailing  \n'
    await save('refunds', body)
    const { run, tool } = await world.converse(ann)
    expect(await world.toolbox.readSkill(run, 'refunds')).toBe(body)
    const activate = await tool('activate_skill')
    const { state, result } = await call(run, activate, { args: { name: 'refunds' } })
    expect(state).toBe('succeeded')
    expect(result.startsWith(body)).toBe(true)
    expect(result).toContain(`${await countTokens(body)} tokens`)
    expect(await call(run, activate, { args: { name: 'nothing' } })).toMatchObject({ state: 'failed' })
    expect(await call(run, activate, { args: {} })).toMatchObject({ state: 'failed', result: '“name” is missing.' })
  })

  test('can be drafted, and are not saved', async () => {
    const { run, tool } = await world.converse(ann)
    const draft = await tool('draft_skill')
    const good = await call(run, draft, { args: { content: skill('pay-an-invoice', 'Pay.') } })
    expect(JSON.parse(good.result)).toEqual({
      accepted: { name: 'pay-an-invoice', description: 'About pay-an-invoice', tokens: 2, warnings: [] },
    })
    const bad = await call(run, draft, { args: { content: skill('Pay', 'Pay.') } })
    expect(bad).toMatchObject({ state: 'failed', result: expect.stringContaining('name must be lowercase') })
    expect(await world.toolbox.readSkill(run, 'pay-an-invoice')).toBeUndefined()
  })
})

describe('reading the rest of a result', () => {
  /** Writes the rows of a run with one call. */
  async function saveResult(
    result: string | null,
    organizationId?: string,
  ): Promise<{ run: Run; id: string; threadId: string }> {
    const { run } = await world.converse(ann)
    const id = newId()
    const ref = JSON.stringify({ kind: 'connector', name: 'crm.read', origin: elsewhere, connector: 'crm' })
    const threadId = await world.service.database.asOrg(organizationId ?? run.organizationId, async (sql) => {
      const thread = await startThread(sql, { endUserId: null, siteId: null })
      await sql`
        insert into runs (organization_id, id, thread_id, position, status, holder)
        values (current_organization(), ${run.id}, ${thread}, 1, 'running', '{}')`
      await sql`
        insert into tool_calls (organization_id, id, run_id, step, position, name, model_call_id, tool, args, state, result)
        values (current_organization(), ${id}, ${run.id}, 1, 0, 'crm_read', 'm', ${ref}, '{}', 'succeeded', ${result})`
      return thread
    })
    return { run: { ...run, threadId }, id, threadId }
  }

  const read = async (run: Run, call_id: string, from: unknown) => {
    const tool = (await world.toolbox.list(run, [])).find(({ name }) => name === 'read_result')
    return call(run, tool as AgentTool, { args: { call_id, from } })
  }

  test('returns it in parts that say where they end, and keeps its origin', async () => {
    const text = Array.from({ length: 3_000 }, (_, n) => `line ${n}`).join('\n')
    const { run, id } = await saveResult(text)
    const first = await read(run, id, 100)
    expect(first).toMatchObject({ state: 'succeeded', origins: [elsewhere] })
    expect(first.result).toBe(`${text.slice(100, 8_100)}\n\n(8100 of ${text.length} characters; continue from 8100.)`)
    expect((await read(run, id, text.length - 10)).result).toContain('this is the end')
    expect(await read(run, id, text.length)).toMatchObject({ state: 'failed' })
    expect(await read(run, id, -1)).toMatchObject({ state: 'failed', result: '“from” must be at least 0.' })
  })

  test('fails for calls of other threads and organizations, and calls without a result', async () => {
    const mine = await saveResult(null)
    const others = [await saveResult('secret'), await saveResult('secret', await world.organization('other'))]
    for (const id of [mine.id, ...others.map((each) => each.id), newId(), 'x', "'"])
      expect(await read(mine.run, id, 0)).toMatchObject({
        state: 'failed',
        result: expect.not.stringContaining('secret'),
      })
  })
})
