import { setTimeout as delay } from 'node:timers/promises'
import { newId } from '../../kernel/lib/ids.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { type Chunk, describeStory, steeringChunk, textId } from '../feeds/chunks.ts'
import { type Model, ModelFailed } from '../models/models.ts'
import { type ModelReply, noReply, readReply } from '../models/reply.ts'
import { countAhead, countTokens } from '../models/tokens/tokenizer.ts'
import { countPromptTokens, measureTokens, noTokens, type Prompt } from '../models/tokens/tokens.ts'
import { chooseSummarized } from '../prompts/compaction.ts'
import { writeInstructions } from '../prompts/instructions.ts'
import { toFunctionTool, writePrompt } from '../prompts/prompt.ts'
import { LeaseLost, Stopped } from '../runs/leases.ts'
import type { Conversation, MessageRow, RunStory } from '../runs/rows.ts'
import type { ToolCallRow } from '../runs/run.ts'
import type { GrowingText } from '../runs/text-saver.ts'
import type { AgentTool } from '../toolbox/toolbox.ts'
import {
  addToThread,
  beginModelCall,
  charge,
  describeFinish,
  explainBudget,
  type ModelCall,
  markSettled,
  settleModelCall,
  warnOfUsage,
} from './metering.ts'
import { hasMore, saveStatus } from './run-writes.ts'
import { noteShown, showNew } from './shown-calls.ts'
import { summarize } from './summary.ts'
import { addOrigins } from './tool-calls.ts'
import { RunFailed, type RunParts, type RunRows, type RunSettings, type Work } from './work.ts'

/** What the model is about to be asked. */
interface Step {
  number: number
  prompt: Prompt
  promptTokens: number
  tools: readonly AgentTool[]
  /** What the user should know before the model answers. */
  notices: readonly Chunk[]
  conversation: Conversation
  story: RunStory
}

/** Failures that may pass if the same model is asked again. */
const temporary = new Set<ModelFailed['reason']>(['rate_limit', 'provider', 'response', 'timeout', 'connection'])
const triesPerModel = 2
const shortestWaitMs = 250

/**
 * One turn of the model. If one fails, the next in the list is asked, and what the first wrote is discarded. Returns
 * the last chunk if the run has ended, because the model has nothing more to do.
 */
export async function takeStep(
  parts: RunParts,
  work: Work,
  { conversation, skills }: RunRows,
  story: RunStory,
): Promise<Chunk | undefined> {
  const { run, log, trace } = work
  const settings = await parts.settingsOf(run.organizationId)
  trace?.nameAgent(settings.name)
  if (settings.models.length === 0) {
    throw new RunFailed('NOT_CONFIGURED', 'The agent isn’t configured yet. An administrator needs to choose a model.')
  }
  const step = await prepare(parts, work, conversation, story, settings, skills)
  // The next turn of the loop reads the shorter conversation.
  if (await makeShorterInTime(parts, work, step, settings.models)) return undefined
  if (step.number > 1) log.append({ type: 'finish-step' }, ...conversation.queued.map(steeringChunk))
  log.append({ type: 'start-step' }, ...step.notices)
  let failed: ModelFailed | undefined
  for (const model of settings.models) {
    const answer = await tryModel(parts, work, model, triesPerModel, () => ask(parts, work, step, model))
    if (!(answer instanceof ModelFailed)) return answer
    failed = answer
    if (failed.reason === 'context' && (await makeShorter(parts, work, step, model, triesPerModel))) return undefined
  }
  throw explain(failed)
}

/** Asks a model, up to `tries` times while its failure may pass. Returns the last failure. */
async function tryModel<T>(
  parts: RunParts,
  work: Work,
  model: Model,
  tries: number,
  attempt: () => Promise<T>,
): Promise<T | ModelFailed> {
  const { run, lease } = work
  for (let left = tries - 1; ; left -= 1) {
    try {
      return await attempt()
    } catch (error) {
      lease.signal.throwIfAborted()
      if (!(error instanceof ModelFailed)) throw error
      const about = { err: error, reason: error.reason, model: model.name, run_id: run.id }
      parts.log.warn({ ...about, organization_id: run.organizationId }, 'A model failed')
      if (left === 0 || !temporary.has(error.reason) || !(await waitFor(parts, work, error))) return error
    }
  }
}

/** Summarizes the beginning of the conversation. Returns false if that fails, or if there is nothing to summarize. */
async function makeShorter(parts: RunParts, work: Work, step: Step, model: Model, tries: number): Promise<boolean> {
  const { prompt, conversation } = step
  const old = chooseSummarized(conversation)
  if (old.length === 0) return false
  const tools = { definitions: prompt.tools ?? [], newOrigins: findNewOrigins(work, step) }
  const write = () => summarize(parts, work, model, conversation, old, tools)
  return !(await tryModel(parts, work, model, tries, write))
}

/**
 * Summarizes when the prompt reaches three quarters of the model's window. The conversation still fits then, so the run
 * continues if the summary fails, and doesn't try it again.
 */
async function makeShorterInTime(parts: RunParts, work: Work, step: Step, [model]: readonly Model[]): Promise<boolean> {
  if (!model || work.hasTriedSummary) return false
  const { contextTokens } = parts.prices.describe(model)
  if (step.promptTokens < 0.75 * contextTokens) return false
  work.hasTriedSummary = true
  return makeShorter(parts, work, step, model, 1)
}

async function prepare(
  { toolbox }: RunParts,
  { run }: Work,
  conversation: Conversation,
  story: RunStory,
  settings: RunSettings,
  skills: RunRows['skills'],
): Promise<Step> {
  const tools = await toolbox.list(run, story.calls)
  const number = story.steps.length + 1
  // Messages that arrived during the run enter with this step.
  const entering = conversation.queued.map((message) => ({ ...message, run_id: run.id, step: number }))
  const current = {
    ...story,
    messages: [...story.messages, ...entering],
    steps: [...story.steps, unfinished(story, number)],
  }
  const stories = conversation.stories.map((each) => (each.run.id === run.id ? current : each))
  const activated = await readSkills({ toolbox }, run, stories)
  const system = writeInstructions(settings, skills)
  const written = writePrompt({ system, conversation: { ...conversation, stories }, skills: activated, page: run.page })
  const prompt = { prompt: written, tools: tools.map(toFunctionTool) }
  const [promptTokens, notices] = await Promise.all([
    countPromptTokens(prompt),
    describeSkills(
      current.messages.filter(({ step }) => step === number),
      activated,
    ),
  ])
  return { number, prompt, promptTokens, tools, notices, conversation, story }
}

const unfinished = ({ run }: RunStory, step: number) => ({ run_id: run.id, step, text: '', finish_reason: null })

/** The bodies of the skills that users activated themselves. */
async function readSkills(
  { toolbox }: Pick<RunParts, 'toolbox'>,
  run: Work['run'],
  stories: readonly RunStory[],
): Promise<Map<string, string>> {
  const names = new Set(stories.flatMap(({ messages }) => messages.flatMap(({ skill }) => skill ?? [])))
  const bodies = await Promise.all(
    Array.from(names, async (name) => [name, await toolbox.readSkill(run, name)] as const),
  )
  return new Map(bodies.flatMap(([name, body]) => (body === undefined ? [] : [[name, body] as const])))
}

/** Tells the user what a skill costs that they activated with a message, or that there is none. */
const describeSkills = (messages: readonly MessageRow[], activated: ReadonlyMap<string, string>): Promise<Chunk[]> =>
  Promise.all(
    messages
      .flatMap(({ skill }) => skill ?? [])
      .map(async (name): Promise<Chunk> => {
        const body = activated.get(name)
        if (body !== undefined) return { type: 'data-skill', data: { name, tokens: await countTokens(body) } }
        const text = `There is no skill named ${name} here, so the agent answers without it.`
        return { type: 'data-notice', data: { text }, transient: true }
      }),
  )

/** Reserves the request and stores that the step has begun, before anything is sent. */
async function begin(parts: RunParts, work: Work, step: Step, model: Model): Promise<ModelCall> {
  const { run, lease } = work
  const facts = parts.prices.describe(model)
  const { promptTokens } = step
  const maxOutputTokens = Math.min(parts.limits.outputTokens, facts.maxOutputTokens)
  try {
    return await lease.write((sql, held) => {
      const plan = { step: step.number, purpose: 'step' as const, promptTokens, maxOutputTokens }
      return beginModelCall(sql, run, model, facts, plan, Promise.all([held, enterStep(sql, work, step)]))
    })
  } catch (error) {
    throw explainBudget(error)
  }
}

/**
 * One request to one model: reserved before it is sent, streamed to the viewers, and settled in any case. Returns
 * whether the run has ended with it.
 */
async function ask(parts: RunParts, work: Work, step: Step, model: Model): Promise<Chunk | undefined> {
  const { lease, log, run } = work
  const call = await begin(parts, work, step, model)
  const trace = work.trace?.startModelCall(model, step.prompt, call.maxOutputTokens)
  const reply = noReply()
  const growing: GrowingText = {
    runId: run.id,
    epoch: lease.epoch,
    step: step.number,
    text: '',
    savedLength: 0,
    mayBeSaved: false,
    lost: lease.lose,
  }
  try {
    await stream(parts, work, step, model, call, reply, growing)
  } catch (error) {
    const written = writtenBy(reply)
    const usage = reply.isRefused
      ? noTokens
      : await measureTokens(undefined, step.prompt, written, call.maxOutputTokens)
    const isStopped = lease.signal.reason instanceof Stopped
    const isEnded = lease.signal.aborted && !(lease.signal.reason instanceof LeaseLost)
    const failed = lease.signal.aborted ? undefined : parts.models.explain(error, model)
    const failure = isStopped ? undefined : (failed?.reason ?? 'interrupted')
    trace?.end({ ...reply, tokens: usage, finish: isStopped ? 'stopped' : 'error', failure })
    await lease.write(async (sql) => {
      // What the user saw before the run was ended stays. Another node that takes the run over begins the step again.
      if (isEnded) await saveStep(sql, growing, reply.text, isStopped ? 'stopped' : 'failed')
      await settleModelCall(sql, run, call, usage, isStopped ? 'stopped' : `failed: ${failure}`)
    })
    if (!failed) throw error
    await discard(work, step)
    throw failed
  }
  const onWrong = warnOfUsage(parts, run, model)
  const reported = reply.finish?.usage
  const usage = await measureTokens(reported, step.prompt, writtenBy(reply), call.maxOutputTokens, onWrong)
  const finish = reply.finish?.finishReason.unified ?? 'other'
  trace?.end({ ...reply, tokens: usage, finish })
  // It is part of the next prompt.
  countAhead(reply.text)
  const isAnswer = finish === 'length' || reply.calls.length === 0
  const { calls, end, notices } = await lease.write(async (sql, held) => {
    const [settled, end, calls, goesOn] = await Promise.all([
      markSettled(sql, run, call, usage, finish),
      describeFinish(sql, run),
      addCalls(sql, parts, work, step, reply, finish),
      isAnswer ? hasMore(sql, run) : true,
      saveStep(sql, growing, reply.text, finish),
      held,
    ])
    const ending = goesOn
      ? settled && addToThread(sql, run, settled)
      : saveStatus(sql, parts, work, 'succeeded', null, settled)
    const charging = settled && charge(sql, run, call, settled)
    if (settled?.isLast) sql.commit()
    const [notices = []] = await Promise.all([charging, ending])
    return { calls, end: goesOn ? undefined : end, notices }
  })
  if (reply.text) log.append({ type: 'text-end', id: textId(step.number) })
  for (const text of notices) log.append({ type: 'data-notice', data: { text }, transient: true })
  showNew(work, calls)
  return end
}

const writtenBy = ({ text, calls }: ModelReply): string =>
  [text, ...calls.map(({ toolName, input }) => `${toolName} ${input}`)].filter(Boolean).join('\n')

/** Passes the text on as it arrives. Throws if the model fails, is silent for too long, or the run is stopped. */
async function stream(
  { limits, texts }: RunParts,
  { run, lease, log }: Work,
  { number, prompt }: Step,
  model: Model,
  { maxOutputTokens }: ModelCall,
  reply: ModelReply,
  growing: GrowingText,
): Promise<void> {
  const id = textId(number)
  const onText = (delta: string) => {
    if (growing.text === '') log.append({ type: 'text-start', id })
    growing.text = reply.text
    texts.grown(run.organizationId, growing)
    log.append({ type: 'text-delta', id, delta })
  }
  try {
    // The first call that is too many tells the model so, for all that follow.
    const mostCalls = limits.callsPerStep + 1
    const listener = { mostCalls, silenceMs: limits.silenceMs, signal: lease.signal, onText }
    await readReply(model, { ...prompt, maxOutputTokens }, reply, listener)
  } finally {
    await texts.forget(run.organizationId, growing)
  }
}

/** Takes back what a failed model wrote, on all screens. */
async function discard(work: Work, { number, story }: Step): Promise<void> {
  const { run, lease, log } = work
  work.attempt += 1
  await lease.write(async (sql) => {
    await sql`update runs set attempt = ${work.attempt} where id = ${run.id}`
    await sql`delete from step_texts where run_id = ${run.id} and step = ${number}`
  })
  log.restart(work.attempt, [...describeStory(story), { type: 'start-step' }])
  noteShown(work, story.calls)
}

/** Waits as long as the model asks for. Returns false if that's too long. */
async function waitFor({ limits }: RunParts, { lease }: Work, { retryAfterMs }: ModelFailed): Promise<boolean> {
  const ms = Math.max(shortestWaitMs, retryAfterMs ?? 0)
  if (ms > limits.waitMs) return false
  await delay(ms, undefined, { signal: lease.signal }).catch(() => lease.signal.throwIfAborted())
  return true
}

function explain(failed: ModelFailed | undefined): RunFailed {
  const options = { cause: failed }
  if (failed?.reason === 'context') {
    const message = 'The conversation is too long for the model. Start a new one, or ask about less at once.'
    return new RunFailed('CONTEXT_TOO_LONG', message, options)
  }
  if (failed?.reason === 'rate_limit') {
    return new RunFailed('MODEL_FAILED', 'The agent has too much to do right now. Try again in a minute.', options)
  }
  if (failed?.reason === 'excess') {
    const message = 'The agent’s model wrote far more than it was asked for, so it was cut off. Ask for less at once.'
    return new RunFailed('MODEL_FAILED', message, options)
  }
  return new RunFailed('MODEL_FAILED', 'The agent’s model doesn’t respond right now. Try again in a moment.', options)
}

/**
 * Origins whose text the model reads with this step, and that the thread doesn't have yet. Scripts can write messages
 * where the thread was started.
 */
function findNewOrigins({ run }: Work, { conversation: { thread }, tools }: Step): string[] {
  const origins = tools.flatMap(({ ref }) => ('origin' in ref ? [ref.origin] : []))
  const pages = [run.holder.origin, thread.origin].flatMap((origin) => origin || [])
  return [...new Set([...pages, ...origins]).difference(new Set(thread.origins))]
}

/** The step begins, and the messages that it answers become part of the run. */
async function enterStep(sql: Sql, work: Work, step: Step): Promise<void> {
  const { run } = work
  const { number, conversation } = step
  const { queued } = conversation
  const added = findNewOrigins(work, step)
  await Promise.all([
    sql`insert into steps (organization_id, run_id, step) values (current_organization(), ${run.id}, ${number})
        on conflict (organization_id, run_id, step) do nothing`,
    queued.length > 0 &&
      sql`update messages set run_id = ${run.id}, step = ${number} where id = any(${queued.map(({ id }) => id)}::uuid[])`,
    added.length > 0 && addOrigins(sql, run.threadId, added),
  ])
}

/** The text replaces the parts of it that were saved while the model wrote it. */
const saveStep = (sql: Sql, { runId, step, mayBeSaved }: GrowingText, text: string, finishReason: string) =>
  Promise.all([
    sql`
      update steps set text = ${text.toWellFormed()}, finish_reason = ${finishReason}
      where run_id = ${runId} and step = ${step}`,
    mayBeSaved && sql`delete from step_texts where run_id = ${runId} and step = ${step}`,
  ])

/** Stores the calls that the model asks for. Some already have a result: that they can't be made. */
async function addCalls(
  sql: Sql,
  { limits }: RunParts,
  { run }: Work,
  { number, tools }: Step,
  { calls }: ModelReply,
  finish: string,
): Promise<ToolCallRow[]> {
  const rows = calls.map((call, index) => {
    const tool = tools.find(({ name }) => name === call.toolName)
    const args = readArguments(call.input)
    const problem = findProblem({ tool, args, finish, isTooMany: index >= limits.callsPerStep })
    return { call, index, tool, args: args ?? {}, problem }
  })
  const saved = await Promise.all(
    rows.map(
      ({ call, index, tool, args, problem }) => sql<ToolCallRow>`
        insert into tool_calls (organization_id, id, run_id, step, position, name, model_call_id, tool, title,
                                definition_hash, args, state, result, ended_at)
        values (current_organization(), ${newId()}, ${run.id}, ${number}, ${index}, ${cleanName(call.toolName)},
                ${call.toolCallId.slice(0, 200)}, ${tool ? JSON.stringify(tool.ref) : null},
                ${tool?.title ?? null}, ${tool?.definitionHash ?? null}, ${JSON.stringify(args)}, ${problem ? 'failed' : 'new'},
                ${problem ?? null}, case when ${problem !== undefined} then now() end)
        returning *`,
    ),
  )
  return saved.flat()
}

/** Models accept their own mistakes back only in this form. */
const cleanName = (name: string): string => name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_'

function readArguments(input: string): Record<string, unknown> | undefined {
  try {
    const args = parseJson(input || '{}')
    return typeof args === 'object' && !Array.isArray(args) ? ((args ?? {}) as Record<string, unknown>) : undefined
  } catch (error) {
    if (error instanceof InvalidJson) return undefined
    throw error
  }
}

interface Asked {
  tool: AgentTool | undefined
  args: Record<string, unknown> | undefined
  finish: string
  isTooMany: boolean
}

function findProblem({ tool, args, finish, isTooMany }: Asked): string | undefined {
  // The arguments may be incomplete even if they can be parsed.
  if (finish === 'length') return 'The reply was cut off at its limit, so none of its calls were made.'
  if (!tool) return 'There is no tool with this name. Use one from the list.'
  if (!args) return 'The arguments aren’t a valid JSON object. Nothing was done.'
  if (isTooMany) return 'Too many calls at once. This one and those after it were not made.'
  return undefined
}
