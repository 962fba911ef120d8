import { selectActiveSkills } from '../../content/skills/agent-skills.ts'
import type { Governed } from '../../kernel/foundation/tool.ts'
import type { Run, ToolCallRow, ToolRef } from '../runs/run.ts'
import { hostOfRun, userOfRun } from './agent-user.ts'
import { judgeCall, neverReason, policyFor, type ToolRules, widenChoice } from './approval-rules.ts'
import { findArgumentProblem } from './argument-problems.ts'
import { builtInToolNames, callBuiltIn, describeBuiltIns, readFoundTools, readSkillBody } from './built-in-tools.ts'
import { describeRelayed, explainFailure } from './call-outcomes.ts'
import { createOfferedTools, type Offering, unbindHash } from './offered-tools.ts'
import type { AgentTool, Toolbox, ToolOutcome } from './toolbox.ts'

/** Maximum number of tools that the model gets at once. */
const mostTools = 64

type OfferedRef = ToolRef & { kind: 'page' | 'connector' }
type Caller = Parameters<Toolbox['call']>[2]

/** `readRules` is called before every decision and call, so it should be fast. */
export function createToolbox(service: Offering, readRules: (organizationId: string) => Promise<ToolRules>): Toolbox {
  const { hub, log } = service
  const offering = createOfferedTools(service, builtInToolNames)

  const offeredTo = (run: Run, rules: ToolRules) => offering.find(run, userOfRun(run, rules.name), rules)

  /** Calls a tool of a page or connector. The hub asks the governance provider, and records the call. */
  async function callThroughHub(
    run: Run,
    rules: ToolRules,
    call: ToolCallRow,
    ref: OfferedRef,
    { signal, mayStillCall }: Caller,
  ): Promise<ToolOutcome> {
    const { origin } = ref
    if (policyFor(rules, ref) === 'never') return refused(neverReason)
    const approved = describeWanted(call, ref)
    if (!approved) return refused('The call was not approved.')
    const user = userOfRun(run, rules.name)
    return withGovernance(async (governed) => {
      try {
        const caller = { signal, mayStillCall, governed, progress: () => undefined }
        const wanted = { ...approved, pagesOf: offering.pagesOf.bind(undefined, run) }
        return describeRelayed(await hub.callTool(user, wanted, caller), origin)
      } catch (error) {
        const outcome = explainFailure(error, [origin])
        if (outcome) return outcome
        throw error
      }
    })
  }

  async function makeCall(run: Run, call: ToolCallRow, caller: Caller): Promise<ToolOutcome> {
    const { tool } = call
    if (tool === null) return failed('There is no tool with this name. Use one of the listed tools.')
    if (tool.kind === 'client') return failed('This tool can only run in the client that declared it.')
    const rules = await readRules(run.organizationId)
    if (tool.kind !== 'built_in') return callThroughHub(run, rules, call, tool, caller)
    const context = {
      service,
      run,
      offered: () => offeredTo(run, rules),
      accounts: () => offering.accounts(run, userOfRun(run, rules.name)),
    }
    return callBuiltIn(context, tool, call.edited_args ?? call.args)
  }

  return {
    async list(run, calls) {
      const offered = await offeredTo(run, await readRules(run.organizationId))
      const builtIns = describeBuiltIns(false)
      if (offered.length + builtIns.length <= mostTools) return sortByName([...builtIns, ...offered])
      const withFinder = describeBuiltIns(true)
      const found = new Set([...new Set(readFoundTools(calls))].slice(0, mostTools - withFinder.length))
      return sortByName([...withFinder, ...offered.filter(({ name }) => found.has(name))])
    },

    async find(run, call) {
      const offered = await offeredTo(run, await readRules(run.organizationId))
      return offered.find(({ definitionHash }) => definitionHash === call.definition_hash)
    },

    async judge(run, tool, args, trust) {
      const rules = await readRules(run.organizationId)
      const verdict = judgeCall(rules, tool, args, trust)
      return verdict.choice ? widenChoice(verdict, tool, await offeredTo(run, rules)) : verdict
    },

    findProblem: ({ inputSchema }, args) => findArgumentProblem(inputSchema, args),

    async call(run, call, caller) {
      const { signal } = caller
      signal.throwIfAborted()
      try {
        return await untilAborted(makeCall(run, call, caller), signal)
      } catch (error) {
        signal.throwIfAborted()
        const outcome = explainFailure(error, [])
        if (outcome) return outcome
        log.error({ err: error, call_id: call.id, run_id: run.id }, 'A tool call of the agent failed')
        return failed('The call failed because of a problem in Inlay. The tool may or may not have run.')
      }
    },

    async readLateResponse(run, call, late) {
      const wanted = call.tool?.kind === 'page' ? describeWanted(call, call.tool) : undefined
      if (!wanted) throw new Error(`The call ${call.id} was never sent to a page`)
      const { name } = await readRules(run.organizationId)
      const { origin } = wanted.approved
      return withGovernance(async (governed) => {
        try {
          return describeRelayed(await hub.readLateResponse(userOfRun(run, name), wanted, late, governed), origin)
        } catch (error) {
          const outcome = explainFailure(error, [origin])
          // Any other failure is ours, and passes.
          if (outcome?.state === 'refused') return outcome
          throw error
        }
      })
    },

    listSkills: (sql, run) => selectActiveSkills(sql, hostOfRun(run)),
    readSkill: (run, name) => readSkillBody(service, run, name),
  }
}

/** Adds what the governance provider decided, which the hub also reports for calls without a result. */
async function withGovernance(
  call: (governed: (decision: Governed) => void) => Promise<ToolOutcome>,
): Promise<ToolOutcome> {
  let governance: Governed | undefined
  const outcome = await call((decision) => {
    governance = decision
  })
  return { ...outcome, governance }
}

/** The call as the hub makes it. Undefined if it wasn't approved. */
function describeWanted({ id, decision, args, edited_args, definition_hash: bound }: ToolCallRow, ref: OfferedRef) {
  const { name, origin } = ref
  const definition_hash = unbindHash(bound ?? '', origin)
  if (decision === null || decision === 'declined' || definition_hash === undefined) return undefined
  return {
    tool_name: name,
    args: edited_args ?? args,
    ...(ref.kind === 'page' && { source_id: ref.source_id }),
    approved: { id, approval: { id, how: decision }, definition_hash, origin },
  }
}

const sortByName = (tools: AgentTool[]): AgentTool[] => tools.sort((one, other) => (one.name < other.name ? -1 : 1))

const refused = (result: string): ToolOutcome => ({ state: 'refused', result, origins: [] })
const failed = (result: string): ToolOutcome => ({ state: 'failed', result, origins: [] })

/** Not every step of a call can be cancelled, so an abort doesn't wait for the current one. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
