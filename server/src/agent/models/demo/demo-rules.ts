import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolResultPart,
} from '@ai-sdk/provider'
import { type DemoTool, readArguments, readTool } from './demo-arguments.ts'
import { reportResult } from './demo-results.ts'
import { meaningOf, wordsOf } from './demo-words.ts'

/** What the demo model does next. */
export type DemoReply = { text: string } | { tool: string; input: Record<string, unknown> }

/** The name of the tool that activates a skill. */
const skillTool = 'activate_skill'
/** The name of the tool that reads the rest of a long result. */
const resultTool = 'read_result'

const longestMessage = 4_000
const mostListedTools = 20

interface Turn {
  /** The last message of the user. */
  said: string
  /** Its words, in lower case. */
  words: readonly string[]
  /** Everything that the agent was told about itself, such as the list of skills. */
  instructions: string
  tools: readonly DemoTool[]
  /** Results that arrived since the last message of the user. */
  results: readonly LanguageModelV4ToolResultPart[]
}

type Rule = (turn: Turn) => DemoReply | undefined

/** The first rule that applies decides. */
const rules: Rule[] = [
  reportResults,
  repeatWords,
  activateSkill,
  callNamedTool,
  listTools,
  introduceMyself,
  callMeantTool,
  lookUp,
  searchFor,
  explainMyself,
]

export function decide(options: LanguageModelV4CallOptions): DemoReply {
  const turn = readTurn(options)
  const { toolChoice } = options
  const forced = toolChoice?.type === 'tool' ? toolChoice.toolName : toolChoice?.type === 'required' ? '' : undefined
  if (forced !== undefined && turn.results.length === 0) {
    const tool = turn.tools.find(({ name }) => name === forced) ?? findMeant(turn) ?? turn.tools[0]
    if (tool) return { tool: tool.name, input: readArguments(tool, turn.said).input }
  }
  for (const rule of rules) {
    const reply = rule(turn)
    if (reply) return reply
  }
  return { text: introduction }
}

function readTurn({ prompt, tools = [], toolChoice }: LanguageModelV4CallOptions): Turn {
  const lastUser = prompt.findLastIndex(({ role }) => role === 'user')
  const said = prompt.slice(Math.max(lastUser, 0)).flatMap(({ role, content }) => (role === 'user' ? content : []))
  // The agent adds the page's title and address to the message.
  const texts = said.map((part) => (part.type === 'text' && !part.text.startsWith('<page>') ? part.text : ''))
  const text = texts.join(' ').trim().slice(0, longestMessage)
  const lastCall = prompt.findLastIndex(({ role }) => role === 'assistant')
  const since = prompt.slice(Math.max(lastUser, lastCall) + 1)
  const isFunction = (tool: { type: string }): tool is LanguageModelV4FunctionTool => tool.type === 'function'
  return {
    said: text,
    words: wordsOf(text),
    instructions: prompt.flatMap(({ role, content }) => (role === 'system' ? [String(content)] : [])).join('\n'),
    tools: toolChoice?.type === 'none' ? [] : tools.filter(isFunction).map(readTool),
    results: since.flatMap(({ role, content }) =>
      role === 'tool' ? content.filter((part) => part.type === 'tool-result') : [],
    ),
  }
}

const introduction =
  "I'm Inlay's demo model. I follow a few fixed rules instead of understanding language, so that you can try the agent without a model server."

function reportResults({ results, said }: Turn): DemoReply | undefined {
  if (results.length === 0) return undefined
  return { text: results.map((result) => reportResult(result, said)).join('\n\n') }
}

/** For tests of a connection, which ask for a fixed reply. */
function repeatWords({ said }: Turn): DemoReply | undefined {
  const [, reply] = said.match(/^reply with ["“]?([^"”]{1,100}?)["”]?[.!]?$/i) ?? []
  return reply ? { text: reply } : undefined
}

/** A skill is named together with the word "skill", and the agent knows it. */
function activateSkill({ said, words, tools, instructions }: Turn): DemoReply | undefined {
  const tool = tools.find(({ name }) => name === skillTool)
  const property = tool?.properties.find(({ type }) => type === 'string')
  if (!tool || !property || !words.some((word) => word === 'skill' || word === 'activate')) return undefined
  const known = new Set(slugsOf(`${instructions}\n${tool.description}\n${property.options.join(' ')}`))
  const skill = slugsOf(said).find((slug) => known.has(slug) && (slug.includes('-') || isNextToSkill(words, slug)))
  return skill ? { tool: tool.name, input: { [property.name]: skill } } : undefined
}

const slugsOf = (text: string): string[] => text.toLowerCase().match(/[a-z0-9]+(?:-[a-z0-9]+)*/g) ?? []

function isNextToSkill(words: readonly string[], slug: string): boolean {
  const at = words.indexOf(slug)
  return slug !== 'skill' && (words[at - 1] === 'skill' || words[at + 1] === 'skill')
}

/** Recognizes `search_products` and "search products". If several tools are named, the longest name wins. */
function callNamedTool(turn: Turn): DemoReply | undefined {
  const spoken = ` ${turn.words.join(' ')} `
  const written = new Set(turn.said.match(/[\w.-]*\w/g))
  const named = turn.tools
    .filter(({ name, words }) => written.has(name) || (words.length > 1 && spoken.includes(` ${words.join(' ')} `)))
    .toSorted((a, b) => b.name.length - a.name.length)
  return named[0] && callWith(named[0], turn.said)
}

/** A tool is meant if all words of its name are in the message, in any order, and no other tool is. */
function callMeantTool(turn: Turn): DemoReply | undefined {
  const tool = findMeant(turn)
  return tool && callWith(tool, turn.said)
}

function findMeant({ words, tools }: Turn): DemoTool | undefined {
  const said = new Set(words.map(meaningOf))
  const meant = tools.filter((tool) => {
    const meanings = tool.words.map(meaningOf).filter((word) => !fillers.has(word))
    return meanings.length > 1 && meanings.every((word) => said.has(word))
  })
  return meant.length === 1 ? meant[0] : undefined
}

const fillers = new Set(['a', 'all', 'an', 'and', 'by', 'for', 'from', 'in', 'my', 'of', 'the', 'to', 'with'])

/** "Where is my order 17?" reads the orders, if one tool does that. */
function lookUp({ said, words, tools }: Turn): DemoReply | undefined {
  if (!/^\s*(where|when|what|which|how|is|are|has|have|did|show|tell|track)\b/i.test(said)) return undefined
  const meant = new Set(words.map(meaningOf))
  const found = tools.filter((tool) => {
    const meanings = tool.words.map(meaningOf).filter((word) => !fillers.has(word))
    const things = meanings.filter((word) => word !== 'get')
    return meanings.includes('get') && things.length > 0 && things.every((word) => meant.has(word))
  })
  return found.length === 1 && found[0] ? callWith(found[0], said) : undefined
}

const searchPhrase =
  /^\s*(?:do you (?:have|sell)|have you got|is there|are there|i['’]m looking for|i am looking for|i need|find|search for|show me)\s+(?!my\b)(?:(?:a|an|all|any|some|the|your)\s+)*(.+?)[\s.!?]*$/i

/** "Do you have blue ink?" searches for blue ink, if one tool searches for a text. */
function searchFor({ said, tools }: Turn): DemoReply | undefined {
  const [, wanted] = said.match(searchPhrase) ?? []
  const found = tools.flatMap(({ name, words, properties }) => {
    const texts = properties.filter(({ type, options }) => type === 'string' && options.length === 0)
    const isSearch = words.map(meaningOf).includes('search')
    return isSearch && texts.length === 1 ? texts.map((property) => ({ name, words, property })) : []
  })
  const [tool] = found
  if (!wanted || !tool || found.length > 1) return undefined
  // "Show me all products" names what the tool searches, and not one of them.
  const isForAll = !tool.property.isRequired && wordsOf(wanted).every((word) => tool.words.includes(word))
  return { tool: tool.name, input: isForAll ? {} : { [tool.property.name]: wanted } }
}

function callWith(tool: DemoTool, said: string): DemoReply {
  const { input, missing } = readArguments(tool, said)
  if (missing.length === 0) return { tool: tool.name, input }
  const choice = tool.properties.find(({ name, options }) => missing[0] === name && options.length > 0)
  if (choice && missing.length === 1) {
    const options = choice.options.slice(0, mostListedTools).map((option) => `- ${option}`)
    return {
      text: `Which ${choice.name.replace(/_id$/, '').replaceAll('_', ' ')} do you mean?\n\n${options.join('\n')}`,
    }
  }
  const example = missing.map((name) => `${name}: …`).join(', ')
  return {
    text: `To use the tool ${tool.name}, I need ${missing.join(', ')}. Write for example: ${tool.name} ${example}`,
  }
}

function listTools({ words, tools }: Turn): DemoReply | undefined {
  const asks = ['which', 'what', 'list', 'show'].some((word) => words.includes(word))
  if (!asks || !(words.includes('tools') || words.includes('tool'))) return undefined
  if (tools.length === 0) return { text: "I don't have any tools here." }
  const listed = tools.slice(0, mostListedTools).map(({ name, description }) => {
    const [sentence = ''] = description.split(/(?<=[.!?])\s|\n/, 1)
    return `- ${name}${sentence && `: ${sentence.slice(0, 200).toWellFormed()}`}`
  })
  const rest = tools.length - listed.length
  return { text: [`I have ${count(tools.length)}:`, ...listed, ...(rest > 0 ? [`…and ${rest} more.`] : [])].join('\n') }
}

function introduceMyself({ said, tools }: Turn): DemoReply | undefined {
  if (!/^\s*(hello|hi|hey|help)\b|who are you|what are you|what can you do/i.test(said)) return undefined
  return { text: `${introduction} ${describeAbilities(tools)}` }
}

function describeAbilities(tools: readonly DemoTool[]): string {
  if (tools.length === 0) return "I don't have any tools here, so I can only talk about myself."
  const example = tools.find(({ name }) => name !== skillTool && name !== resultTool) ?? tools[0]
  return `I can use ${count(tools.length)}. Ask me which tools I have, or name one, for example: ${example?.name}.`
}

const count = (tools: number): string => (tools === 1 ? '1 tool' : `${tools} tools`)

function explainMyself({ words, tools }: Turn): DemoReply {
  const excuse = words.includes('my')
    ? "I don't have a tool for that here. Some tools need to know who you are, so sign in if you haven't yet."
    : "I don't know what to do with that."
  return { text: `${excuse} I'm only a demo model. ${describeAbilities(tools)}` }
}
