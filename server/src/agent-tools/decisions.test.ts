import { describe, expect, test } from 'vitest'
import { noRules, noTrust } from '../../test/agent-world.ts'
import type { ThreadTrust, ToolRef } from '../runs/run.ts'
import { decideCall, type ToolRules } from './decisions.ts'

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
  return decideCall({ ...noRules(), ...rules }, tool, args, { ...noTrust, ...trust })
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

  test.each<[string, Parameters<typeof judge>[0], string]>([
    ['a call with arguments asks, even if the tool only reads', { isWriting: false }, 'ask'],
    ['a call with arguments asks, whatever a policy says', policies({ add: 'auto' }), 'ask'],
    ['a call with arguments asks, whatever the user allowed', { trust: { allowed_tools: ['h'] } }, 'ask'],
    ['a call without arguments doesn’t ask because of it', { isWriting: false, args: {} }, 'run'],
    ['a connector’s call with arguments asks', { ref: connectorTool, isWriting: false }, 'ask'],
    ['a client’s call with arguments asks', { ref: clientTool, isWriting: false }, 'ask'],
    ['a forbidden tool stays forbidden', policies({ add: 'never' }), 'refuse'],
    ['a built-in tool runs', reading, 'run'],
    ['a group of both origins lets it run', { isWriting: false, rules: { origin_groups: [[shop, bank]] } }, 'run'],
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
    ['a group doesn’t skip the question about changes', { rules: { origin_groups: [[shop, bank]] } }, 'ask'],
  ])('%s', (_, given, verdict) => {
    const trust = { ...tainted, ...given?.trust }
    expect(judge({ ...given, trust })).toMatchObject({ verdict })
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
  })
})
