import type { ReasonData, ThreadTrust, ToolRef } from '../runs/run.ts'
import { findArgumentProblem } from './argument-problems.ts'
import type { AgentTool, Verdict } from './toolbox.ts'

type Policy = NonNullable<AgentTool['policy']>

/** The organization's settings that tools depend on. */
export interface ToolRules {
  /** By `<connector>.<tool>`, `<origin> <tool>` or `<tool>`. */
  tool_policies: Readonly<Record<string, Policy>>
  /** Origins that may get text from each other. */
  origin_groups: readonly (readonly string[])[]
  /** The name of the agent. */
  name: string
}

/** A setting for the tool of one origin applies before one for all tools of that name. */
export function policyFor({ tool_policies }: ToolRules, ref: ToolRef): Policy | undefined {
  const names = ref.kind === 'page' || ref.kind === 'client' ? namesOfPageTool(ref) : [ref.name]
  const name = names.find((each) => Object.hasOwn(tool_policies, each))
  return name === undefined ? undefined : tool_policies[name]
}

/** With a dot, a name without an origin means a connector's tool, which a page can't claim to have. */
const namesOfPageTool = ({ origin, name }: { origin: string; name: string }): string[] =>
  name.includes('.') ? [`${origin} ${name}`] : [`${origin} ${name}`, name]

export const neverReason = 'Your organization doesn’t allow the agent to use this tool.'

/**
 * Decides by what is known about the tool and by where the conversation's text comes from, never by what any text says.
 * So a page, a skill or a result can't talk the agent into a call that the user isn't asked about.
 */
export function judgeCall(
  rules: ToolRules,
  { ref, isWriting, definitionHash }: Pick<AgentTool, 'ref' | 'isWriting' | 'definitionHash'>,
  args: Record<string, unknown>,
  trust: ThreadTrust,
): Verdict {
  if (ref.kind === 'built_in')
    return isWriting
      ? ask('This ends the agent’s access to your account.', { code: 'ENDS_ACCESS' })
      : run('It’s a built-in tool.')
  const policy = policyFor(rules, ref)
  if (policy === 'never') return { verdict: 'refuse', reason: neverReason }
  const strangers = trust.origins.filter((origin) => !mayReach(rules, origin, ref.origin))
  const isBare = Object.keys(args).length === 0
  if (strangers.length > 0 && !(isBare && isAllowedChoice(trust, strangers, definitionHash))) {
    // Clients don't say what their tools do.
    const flow = { strangers, to: ref.origin, may_change: isWriting || ref.kind === 'client' }
    if (!isBare) return askAboutFlow(flow)
    return askAboutChoice(flow, policy === 'ask' ? [] : [definitionHash])
  }
  if (policy === 'ask')
    return ask('Your organization wants you to approve each call of this tool.', { code: 'ALWAYS_ASKED' })
  if (policy === 'auto') return run('Your organization lets the agent use this tool.')
  if (!isWriting) return run('The tool only reads.')
  if (trust.allowed_tools.includes(definitionHash)) return run('You allowed this tool in this conversation.')
  return ask('This tool may change something.', { code: 'MAY_CHANGE' })
}

const run = (reason: string): Verdict => ({ verdict: 'run', reason })
const ask = (reason: string, data: ReasonData): Verdict => ({ verdict: 'ask', reason, data })

/** Whether text of one origin may influence what is sent to another. */
const mayReach = ({ origin_groups }: ToolRules, from: string, to: string): boolean =>
  from === to || origin_groups.some((group) => group.includes(from) && group.includes(to))

const isAllowedChoice = ({ allowed_choices }: ThreadTrust, strangers: readonly string[], definitionHash: string) =>
  allowed_choices.some(
    ({ from, tools }) => tools.includes(definitionHash) && strangers.every((origin) => from.includes(origin)),
  )

interface Flow {
  strangers: readonly string[]
  to: string
  may_change: boolean
}

function askAboutFlow({ strangers, to, may_change }: Flow): Verdict {
  const reason = `${describeTaint(strangers)} Check what the agent sends to ${to || 'this tool'}.`
  return ask(reason, { code: 'TEXT_FROM_ELSEWHERE', ...countTaint(strangers), to, may_change })
}

/** The choice among 16 tools says as much as four bits in an argument. */
function askAboutChoice({ strangers, to, may_change }: Flow, tools: readonly string[]): Verdict {
  const reason = `${describeTaint(strangers)} Which tool the agent uses can tell ${to || 'its owner'} something about it.`
  const data = { code: 'TEXT_FROM_ELSEWHERE' as const, ...countTaint(strangers), to, may_change, tools: tools.length }
  return { ...ask(reason, data), ...(tools.length > 0 && { choice: { from: strangers, tools } }) }
}

function describeTaint(strangers: readonly string[]): string {
  const { from, more } = countTaint(strangers)
  return `This conversation contains text from ${more === 0 ? from : `${from} and ${more} more`}.`
}

const countTaint = ([from = '', ...others]: readonly string[]) => ({ from, more: others.length })

/** Maximum number of tools that one answer allows. */
const mostChoices = 64

/**
 * Lets one answer also cover the other tools of the origin that only read, need no arguments, and aren't asked about each
 * time. They keep their definitions, and so does the origin's part in the choice.
 */
export function widenChoice(verdict: Verdict, tool: AgentTool, offered: readonly AgentTool[]): Verdict {
  const { choice, data } = verdict
  if (!choice || data?.code !== 'TEXT_FROM_ELSEWHERE' || data.may_change) return verdict
  const isLike = ({ ref, isWriting, policy, inputSchema }: AgentTool) =>
    ref.kind === tool.ref.kind &&
    'origin' in ref &&
    ref.origin === data.to &&
    !isWriting &&
    policy !== 'ask' &&
    policy !== 'never' &&
    findArgumentProblem(inputSchema, {}) === undefined
  const others = offered.filter(isLike).map(({ definitionHash }) => definitionHash)
  const tools = [...new Set([...choice.tools, ...others])].slice(0, mostChoices)
  return { ...verdict, data: { ...data, tools: tools.length }, choice: { ...choice, tools } }
}
