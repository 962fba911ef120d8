import { selectSkillBody } from '../../content/skills/agent-skills.ts'
import { contentLimit, parseSkillDocument } from '../../content/skills/skill-document.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { disconnectEndUser } from '../../tools/consent/end-user-consents.ts'
import { countTokens } from '../models/tokens/tokenizer.ts'
import type { Run, ToolCallRow, ToolRef } from '../runs/run.ts'
import { hostOfRun } from './agent-user.ts'
import { findArgumentProblem } from './argument-problems.ts'
import { connectFirst } from './call-outcomes.ts'
import { searchTools } from './tool-search.ts'
import type { AgentTool, ToolOutcome } from './toolbox.ts'

/** What built-in tools need. `offered` are all tools that the run's user can call, whether or not the model has them. */
export interface BuiltInContext {
  service: Service
  run: Run
  offered(): Promise<AgentTool[]>
  accounts(): Promise<Account[]>
}

/** A third party's server where the user connects their own account. */
export interface Account {
  /** The connector's ID. */
  id: string
  name: string
  origin: string
  consent: 'given' | 'needed' | 'none'
}

/** Arguments that fit the tool's schema. */
type Arguments = Record<string, string & number>

interface BuiltIn {
  description: string
  properties: Record<string, Record<string, unknown>>
  required: string[]
  run(context: BuiltInContext, args: Arguments): Promise<ToolOutcome>
}

/** Characters of a result that one call reads. */
const partLength = 8_000

const builtIns: Record<string, BuiltIn> = {
  activate_skill: {
    description:
      'Activates a skill: returns its instructions, which apply for the rest of the conversation. Activate a skill before you start a task that its description covers.',
    properties: { name: { type: 'string', maxLength: 64, description: 'Name of the skill, as in the list of skills' } },
    required: ['name'],
    async run({ service, run }, { name }) {
      const body = await readSkillBody(service, run, name ?? '')
      if (body === undefined) return failed(`There is no skill named ${name} here. Use a name from the list of skills.`)
      return succeeded(`${body}\n\n(This skill takes ${await countTokens(body)} tokens of the conversation.)`)
    },
  },
  draft_skill: {
    description:
      'Checks the draft of a SKILL.md, and returns the problem if it isn’t valid. Nothing is saved: show the accepted draft to the user, and tell them that an administrator can save it.',
    properties: {
      content: { type: 'string', maxLength: contentLimit, description: 'The whole SKILL.md, with its frontmatter' },
    },
    required: ['content'],
    async run(_, { content }) {
      try {
        const { document, warnings } = parseSkillDocument(content ?? '')
        const { name, description, body } = document
        return succeeded(JSON.stringify({ accepted: { name, description, tokens: await countTokens(body), warnings } }))
      } catch (error) {
        if (error instanceof Failure)
          return failed(`The draft isn’t valid: ${error.message}. Correct it and try again.`)
        throw error
      }
    },
  },
  read_result: {
    description: `Reads more of a tool’s result that was too long to be shown completely: up to ${partLength} characters of it.`,
    properties: {
      call_id: { type: 'string', maxLength: 64, description: 'ID of the call, as given with its result' },
      from: { type: 'integer', minimum: 0, description: 'Position of the first character to read, from 0' },
    },
    required: ['call_id', 'from'],
    run: ({ service, run }, { call_id, from }) => readResult(service, run, call_id ?? '', from ?? 0),
  },
  find_tools: {
    description:
      'Finds tools that you can call. There are too many to list them all, so search before you say that something can’t be done. You can call the tools that it returns from then on.',
    properties: { query: { type: 'string', maxLength: 200, description: 'Words that describe what you want to do' } },
    required: ['query'],
    async run({ offered }, { query }) {
      const found = searchTools(await offered(), query ?? '')
      if (found.length === 0) return failed('No tool matches these words. Try others.')
      // Only names: the definitions come with the next list of tools.
      const origins = found.flatMap(({ ref }) => ('origin' in ref ? [ref.origin] : []))
      return { ...succeeded(found.map(({ name }) => name).join('\n')), origins: [...new Set(origins)] }
    },
  },
}

export const builtInToolNames: readonly string[] = Object.keys(builtIns)

const finder = 'find_tools'

/** The built-in tools that the model gets. */
export const describeBuiltIns = (hasFinder: boolean): AgentTool[] =>
  Object.entries(builtIns)
    .filter(([name]) => hasFinder || name !== finder)
    .map(([name, { description, properties, required }]) => ({
      name,
      title: undefined,
      description,
      inputSchema: { type: 'object', properties, required, additionalProperties: false },
      ref: { kind: 'built_in', name },
      definitionHash: `built-in ${name}`,
      isWriting: false,
      policy: undefined,
    }))

/** The names of the tools that the model has found, latest first. */
export const readFoundTools = (calls: readonly ToolCallRow[]): string[] =>
  calls
    .filter(({ tool, state }) => tool?.kind === 'built_in' && tool.name === finder && state === 'succeeded')
    .toReversed()
    .flatMap(({ result }) => result?.split(/\s+/) ?? [])

/** One tool for each account: until it's connected, nothing else is known of the server's tools. */
export const describeAccountTools = (accounts: readonly Account[]): Omit<AgentTool, 'name' | 'policy'>[] =>
  accounts
    .filter(({ consent }) => consent !== 'none')
    .map(({ name, origin, consent }) => {
      const isConnected = consent === 'given'
      const tool = `${isConnected ? 'disconnect' : 'connect'}_${name}`
      return {
        title: undefined,
        description: isConnected
          ? `Disconnects the user’s account at ${name} (${origin}). Call it only if the user asks for that.`
          : `Lets the user connect their account at ${name} (${origin}): shows them a link. Its tools can only be used after that, so call this first if the user wants something there.`,
        inputSchema: { type: 'object', properties: {}, additionalProperties: false },
        ref: { kind: 'built_in', name: tool },
        definitionHash: `built-in ${tool}`,
        isWriting: isConnected,
      }
    })

async function callAccountTool(
  { service, run, accounts }: BuiltInContext,
  action: string,
  name: string,
): Promise<ToolOutcome> {
  const account = (await accounts()).find((each) => each.name === name)
  const endUserId = run.holder.end_user?.id
  if (!account || endUserId === undefined) return failed('This server is no longer available.')
  if (action === 'connect') {
    const isConnected = account.consent === 'given'
    return isConnected
      ? succeeded(`The account is connected. Use the tools of ${name}.`)
      : { ...connectFirst(name, account.id), state: 'succeeded' }
  }
  await disconnectEndUser(service, run.organizationId, account.id, endUserId)
  return succeeded(`The user’s account at ${name} is disconnected.`)
}

export async function callBuiltIn(
  context: BuiltInContext,
  { name }: ToolRef & { kind: 'built_in' },
  args: Record<string, unknown>,
): Promise<ToolOutcome> {
  const [, action, account] = /^(connect|disconnect)_(.+)$/.exec(name) ?? []
  if (action && account) return callAccountTool(context, action, account)
  const tool = Object.hasOwn(builtIns, name) ? builtIns[name] : undefined
  if (!tool) return failed('There is no tool with this name.')
  const { properties, required, run } = tool
  const problem = findArgumentProblem({ properties, required, additionalProperties: false }, args)
  return problem === undefined ? run(context, args as Arguments) : failed(problem)
}

export const readSkillBody = ({ database }: Pick<Service, 'database'>, run: Run, name: string) =>
  database.asOrg(run.organizationId, (sql) => selectSkillBody(sql, hostOfRun(run), name))

/** Only calls of the same conversation can be read. */
async function readResult(
  { database }: Pick<Service, 'database'>,
  run: Run,
  callId: string,
  from: number,
): Promise<ToolOutcome> {
  const [call] = isId(callId)
    ? await database.asOrg(
        run.organizationId,
        (sql) => sql<Pick<ToolCallRow, 'result' | 'tool'>>`
          select c.result, c.tool from tool_calls c
          join runs r on r.organization_id = c.organization_id and r.id = c.run_id
          where c.id = ${callId} and r.thread_id = ${run.threadId}`,
      )
    : []
  if (!call || call.result === null) return failed('This conversation has no result of a call with this ID.')
  const { result, tool } = call
  const origins = tool && 'origin' in tool ? [tool.origin] : []
  if (from >= result.length) return { ...failed(`The result ends at ${result.length}.`), origins }
  const end = Math.min(from + partLength, result.length)
  const rest = end < result.length ? `continue from ${end}` : 'this is the end'
  return {
    ...succeeded(`${result.slice(from, end).toWellFormed()}\n\n(${end} of ${result.length} characters; ${rest}.)`),
    origins,
  }
}

const succeeded = (result: string): ToolOutcome => ({ state: 'succeeded', result, origins: [] })
const failed = (result: string): ToolOutcome => ({ state: 'failed', result, origins: [] })
