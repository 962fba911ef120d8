import { describe, expect, test } from 'vitest'
import { noRules, noTrust } from '../../../test/agent-world.ts'
import type { ThreadTrust, ToolRef } from '../runs/run.ts'
import { judgeCall, type ToolRules, widenChoice } from './approval-rules.ts'
import type { AgentTool } from './toolbox.ts'

const shop = 'https://shop.example'
const crm = 'https://crm.example'
const bank = 'https://bank.example'

const pageTool: ToolRef = { kind: 'page', name: 'add', origin: shop, source_id: 's', title: 'Cart' }
const connectorTool: ToolRef = { kind: 'connector', name: 'crm.add', origin: crm, connector: 'crm' }
const clientTool: ToolRef = { kind: 'client', name: 'add', origin: shop }
const builtInTool: ToolRef = { kind: 'built_in', name: 'read_result' }
const reading = { ref: builtInTool, isWriting: false }

function judge({
  ref = pageTool,
  isWriting = true,
  args = { sku: 7 },
  trust = {},
  rules = {},
}: {
  ref?: ToolRef
  isWriting?: boolean
  args?: Record<string, unknown>
  trust?: Partial<ThreadTrust>
  rules?: Partial<ToolRules>
}) {
  const tool = { ref, isWriting, definitionHash: 'h' }
  return judgeCall({ ...noRules(), ...rules }, tool, args, { ...noTrust, ...trust })
}

const policies = (tool_policies: ToolRules['tool_policies']) => ({ rules: { tool_policies } })

describe('without text of other origins', () => {
  test.each<[string, Parameters<typeof judge>[0], string]>([
    ['a tool that only reads runs', { isWriting: false }, 'run'],
    ['a tool that may change something asks', {}, 'ask'],
    ['a tool that the user allowed in the thread runs', { trust: { allowed_tools: ['h'] } }, 'run'],
    ['another tool than the one that the user allowed asks', { trust: { allowed_tools: ['g'] } }, 'ask'],
    ['text of its own origin changes nothing', { isWriting: false, trust: { origins: [shop] } }, 'run'],
    ['a policy lets a tool run', policies({ add: 'auto' }), 'run'],
    ['a policy asks about a tool that only reads', { isWriting: false, ...policies({ add: 'ask' }) }, 'ask'],
    ['a policy asks about an allowed tool', { trust: { allowed_tools: ['h'] }, ...policies({ add: 'ask' }) }, 'ask'],
    ['a policy forbids a tool', { isWriting: false, ...policies({ add: 'never' }) }, 'refuse'],
    ['a policy for the origin comes first', policies({ add: 'never', [`${shop} add`]: 'auto' }), 'run'],
    [
      'a policy for a connector’s tool doesn’t apply to a page’s tool of that name',
      { ref: { ...pageTool, name: 'crm.add' }, ...policies({ 'crm.add': 'auto' }) },
      'ask',
    ],
    ['a policy for another origin doesn’t apply', policies({ [`${bank} add`]: 'auto' }), 'ask'],
    ['a connector’s tool has its full name', { ref: connectorTool, ...policies({ 'crm.add': 'auto' }) }, 'run'],
    ['a page’s policy doesn’t apply to a connector', { ref: connectorTool, ...policies({ add: 'auto' }) }, 'ask'],
    [
      'a client’s tool counts as one of its origin',
      { ref: clientTool, ...policies({ [`${shop} add`]: 'ask' }) },
      'ask',
    ],
    ['a built-in tool runs', { ...reading, ...policies({ read_result: 'never' }) }, 'run'],
    ['a built-in tool that ends access asks', { ref: builtInTool, trust: { allowed_tools: ['h'] } }, 'ask'],
    ['an inherited name is no policy', { ref: { ...pageTool, name: 'constructor' } }, 'ask'],
  ])('%s', (_, given, verdict) => {
    const reason = expect.stringMatching(/^[A-Z].+\.$/)
    const data = verdict === 'ask' ? { data: { code: expect.any(String) } } : {}
    expect(judge(given)).toEqual({ verdict, reason, ...data })
  })
})

describe('with text of another origin', () => {
  const tainted = { origins: [bank] }
  const grouped = { rules: { origin_groups: [[shop, bank]] } }

  test.each<[string, Parameters<typeof judge>[0], string]>([
    ['a call with arguments asks, even if the tool only reads', { isWriting: false }, 'ask'],
    ['a call with arguments asks, whatever a policy says', policies({ add: 'auto' }), 'ask'],
    ['a call with arguments asks, whatever the user allowed', { trust: { allowed_tools: ['h'] } }, 'ask'],
    [
      'a call without arguments asks, because the choice of a tool says something',
      { isWriting: false, args: {} },
      'ask',
    ],
    ['a call without arguments asks, whatever a policy says', { args: {}, ...policies({ add: 'auto' }) }, 'ask'],
    ['a client’s call without arguments asks', { ref: clientTool, isWriting: false, args: {} }, 'ask'],
    ['a group of both origins lets a call without arguments run', { ...grouped, isWriting: false, args: {} }, 'run'],
    ['a connector’s call with arguments asks', { ref: connectorTool, isWriting: false }, 'ask'],
    ['a client’s call with arguments asks', { ref: clientTool, isWriting: false }, 'ask'],
    ['a forbidden tool stays forbidden', policies({ add: 'never' }), 'refuse'],
    ['a built-in tool runs', reading, 'run'],
    ['a group of both origins lets it run', { isWriting: false, ...grouped }, 'run'],
    [
      'groups aren’t chained',
      {
        isWriting: false,
        rules: {
          origin_groups: [
            [shop, crm],
            [crm, bank],
          ],
        },
      },
      'ask',
    ],
    ['a group doesn’t skip the question about changes', grouped, 'ask'],
  ])('%s', (_, given, verdict) => {
    const trust = { ...tainted, ...given?.trust }
    expect(judge({ ...given, trust })).toMatchObject({ verdict })
  })

  describe('that the user allowed for calls without arguments', () => {
    const allowed = { origins: [bank], allowed_choices: [{ from: [bank], tools: ['h'] }] }
    const bare = { isWriting: false, args: {} }

    test.each<[string, Parameters<typeof judge>[0], string]>([
      ['such a call runs', bare, 'run'],
      ['a call with arguments asks', { isWriting: false }, 'ask'],
      ['a changed definition asks', { ...bare, trust: { allowed_choices: [{ from: [bank], tools: ['g'] }] } }, 'ask'],
      ['text of a third origin asks', { ...bare, trust: { origins: [bank, crm] } }, 'ask'],
      [
        'two permissions aren’t combined',
        {
          ...bare,
          trust: {
            origins: [bank, crm],
            allowed_choices: [
              { from: [bank], tools: ['h'] },
              { from: [crm], tools: ['h'] },
            ],
          },
        },
        'ask',
      ],
      ['a policy still asks', { ...bare, ...policies({ add: 'ask' }) }, 'ask'],
      ['a policy still forbids', { ...bare, ...policies({ add: 'never' }) }, 'refuse'],
      ['a tool that may change something still asks', { args: {} }, 'ask'],
      [
        'a tool that may change something runs if the user allowed it too',
        { args: {}, trust: { allowed_tools: ['h'] } },
        'run',
      ],
    ])('%s', (_, given, verdict) => {
      expect(judge({ ...given, trust: { ...allowed, ...given?.trust } }).verdict).toBe(verdict)
    })
  })

  describe('one answer to a question about a call without arguments', () => {
    const offered = (definitionHash: string, changes: Partial<AgentTool> = {}): AgentTool => ({
      name: definitionHash,
      title: undefined,
      description: '',
      inputSchema: { type: 'object', properties: { q: { type: 'string' } } },
      ref: pageTool,
      definitionHash,
      isWriting: false,
      policy: undefined,
      ...changes,
    })
    const list = [
      offered('h'),
      offered('reads'),
      offered('auto', { policy: 'auto' }),
      offered('asks', { policy: 'ask' }),
      offered('never', { policy: 'never' }),
      offered('writes', { isWriting: true }),
      offered('needs arguments', { inputSchema: { type: 'object', properties: {}, required: ['q'] } }),
      offered('elsewhere', { ref: { ...pageTool, origin: crm } }),
      offered('connector', { ref: connectorTool }),
    ]
    const ask = (changes: Parameters<typeof judge>[0], tool: AgentTool, tools = list) =>
      widenChoice(judge({ args: {}, trust: tainted, ...changes }), tool, tools)

    test('covers the tools of the origin that only read and need none, and says how many', () => {
      const verdict = ask({ isWriting: false }, offered('h'))
      expect(verdict.choice).toEqual({ from: [bank], tools: ['h', 'reads', 'auto'] })
      expect(verdict.data).toMatchObject({ may_change: false, tools: 3 })
    })

    test('covers no other tool if this one may change something', () => {
      const verdict = ask({}, offered('h', { isWriting: true }))
      expect(verdict.choice).toEqual({ from: [bank], tools: ['h'] })
      expect(verdict.data).toMatchObject({ may_change: true, tools: 1 })
    })

    test('covers nothing if the organization wants a question each time', () => {
      const verdict = ask({ isWriting: false, ...policies({ add: 'ask' }) }, offered('h', { policy: 'ask' }))
      expect(verdict.choice).toBeUndefined()
      expect(verdict.data).toMatchObject({ tools: 0 })
    })

    test('covers as many tools as a model gets at once', () => {
      const many = Array.from({ length: 500 }, (_, n) => offered(`tool ${n}`))
      expect(ask({ isWriting: false }, offered('h'), many).choice?.tools).toHaveLength(64)
    })

    test('isn’t offered for a call with arguments', () => {
      const verdict = judge({ isWriting: false, trust: tainted })
      expect([verdict.choice, verdict.data]).toEqual([
        undefined,
        expect.not.objectContaining({ tools: expect.any(Number) }),
      ])
    })
  })

  test('one origin outside the group is enough to ask', () => {
    const rules = { origin_groups: [[shop, crm]] }
    expect(judge({ isWriting: false, rules, trust: { origins: [shop, crm] } }).verdict).toBe('run')
    expect(judge({ isWriting: false, rules, trust: { origins: [shop, crm, bank] } }).verdict).toBe('ask')
  })

  test.each<[string, Parameters<typeof judge>[0]]>([
    ['MAY_CHANGE', {}],
    ['ALWAYS_ASKED', policies({ add: 'ask' })],
    ['ENDS_ACCESS', { ref: builtInTool }],
  ])('clients can translate the reason %s', (code, given) => expect(judge(given).data).toEqual({ code }))

  test('clients can translate where the text is from', () => {
    expect(judge({ trust: { origins: [bank, crm, shop] } }).data).toEqual({
      code: 'TEXT_FROM_ELSEWHERE',
      from: bank,
      more: 1,
      to: shop,
      may_change: true,
    })
  })

  test.each<[string, Parameters<typeof judge>[0], boolean]>([
    ['a tool that only reads', { isWriting: false }, false],
    ['another tool', {}, true],
    ['a client’s tool, about which nothing is known', { ref: clientTool, isWriting: false }, true],
  ])('the question says whether %s may change something', (_, given, may_change) => {
    expect(judge({ ...given, trust: tainted }).data).toMatchObject({ may_change })
  })

  test('the question names both origins', () => {
    expect(judge({ trust: tainted }).reason).toBe(
      'This conversation contains text from https://bank.example. Check what the agent sends to https://shop.example.',
    )
    expect(judge({ trust: { origins: [bank, crm, shop] } }).reason).toContain('from https://bank.example and 1 more.')
    expect(judge({ args: {}, trust: tainted }).reason).toBe(
      'This conversation contains text from https://bank.example. Which tool the agent uses can tell https://shop.example something about it.',
    )
  })
})
