import { Failure } from '../../kernel/lib/errors.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { explainEndOfAccess } from '../../visitors/tickets/ends-of-access.ts'
import { findStanding, type Standing } from '../../visitors/tickets/standing.ts'
import { type Chunk, describeEnd, hasEnded } from '../feeds/chunks.ts'
import { loadTokenizer } from '../models/tokens/tokenizer.ts'
import { LeaseLost, Stopped } from '../runs/leases.ts'
import { type Conversation, endSteps, type RunStory, selectConversation } from '../runs/rows.ts'
import type { Run, RunError, RunStatus, ToolCallRow } from '../runs/run.ts'
import { describeFinish, selectInterruptedCalls, settleInterruptedCalls } from './metering.ts'
import { takeStep } from './model-step.ts'
import { restRun, saveStatus, stoppedByUser } from './run-writes.ts'
import { showProgress } from './shown-calls.ts'
import { handleToolCalls } from './tool-calls.ts'
import { interruptedTooOften, RunFailed, type RunParts, type RunRows, type Work } from './work.ts'

/**
 * Works on a run until it rests: it has ended, or it waits for a person. Everything that the loop decides on is in the
 * rows, so it continues the work of another node exactly as its own. The rows of a new run were read when it was
 * created.
 */
export async function workOn(parts: RunParts, work: Work, known?: RunRows): Promise<void> {
  try {
    if (!work.isNew) await forgetInterrupted(work)
    for (let isFirst = true; ; isFirst = false) {
      work.lease.signal.throwIfAborted()
      const rows = (isFirst && known) || (await readRowsOf(parts, work))
      const { conversation, standing } = rows
      const story = ownStory(conversation, work)
      showProgress(work, story.calls)
      if (openCalls(story).length > 0) {
        if (openCalls(story).some(isNext)) await requireStanding(parts, work, standing)
        await handleToolCalls(parts, work, conversation, story)
        if (await rest(parts, work)) return leave(work, { status: 'waiting', error: null })
      } else if (isAnswered(conversation, story)) {
        const end = await endAnswered(parts, work)
        if (end) return leaveAnswered(work, end)
      } else {
        await requireStanding(parts, work, standing)
        requireWithinLimits(parts, work, story)
        const end = await takeStep(parts, work, rows, story)
        if (end) return leaveAnswered(work, end)
      }
    }
  } catch (error) {
    await endWith(parts, work, work.lease.signal.aborted ? work.lease.signal.reason : error)
  } finally {
    work.lease.release()
  }
}

export async function readRows(sql: Sql, { config, toolbox }: RunParts, run: Run): Promise<RunRows | undefined> {
  const [conversation, [standing], skills] = await Promise.all([
    selectConversation(sql, run.threadId),
    findStanding(sql, config, [run.holder]),
    toolbox.listSkills(sql, run),
  ])
  return conversation && { conversation, standing, skills }
}

async function readRowsOf(parts: RunParts, { run }: Work): Promise<RunRows> {
  const rows = await parts.database.asOrg(run.organizationId, (sql) => readRows(sql, parts, run))
  if (!rows) throw new LeaseLost()
  return rows
}

function ownStory({ stories }: Conversation, { run }: Work): RunStory {
  const story = stories.find((each) => each.run.id === run.id)
  if (!story) throw new LeaseLost()
  return story
}

const openCalls = ({ calls }: RunStory): ToolCallRow[] => calls.filter((call) => !hasEnded(call))

/** The call isn't only waiting for an answer or a result. */
const isNext = ({ state }: ToolCallRow): boolean => state === 'new' || state === 'approved'

/** The model has nothing more to do, and no message has arrived meanwhile. */
function isAnswered({ queued }: Conversation, { steps, calls }: RunStory): boolean {
  const last = steps.at(-1)
  if (!last || last.finish_reason === null || queued.length > 0) return false
  return last.finish_reason === 'length' || !calls.some(({ step }) => step === last.step)
}

/**
 * What a node left behind when it was lost. Its request to the model is charged as estimated and made again. A call
 * that it had sent may have happened, so it is never made again.
 */
async function forgetInterrupted({ run, lease }: Work): Promise<void> {
  await loadTokenizer()
  await lease.write(async (sql) => {
    const interrupted = await selectInterruptedCalls(sql, run)
    await sql`
      update tool_calls set state = 'unknown', ended_at = now()
      where run_id = ${run.id} and state = 'running' and tool->>'kind' <> 'client'`
    await sql`delete from steps where run_id = ${run.id} and finish_reason is null`
    await settleInterruptedCalls(sql, run, interrupted)
  })
}

async function requireStanding(
  { clock, settingsOf }: RunParts,
  { run }: Work,
  standing: Standing | undefined,
): Promise<void> {
  const expiresAt = run.holder.end_user?.identity_expires_at ?? Number.POSITIVE_INFINITY
  if (standing !== 'stands' || expiresAt + clockSkewMs < clock()) {
    throw new RunFailed(
      'ACCESS_ENDED',
      explainEndOfAccess(standing === 'stands' || !standing ? 'terms_changed' : standing),
    )
  }
  if (run.holder.end_user) return
  const { anonymous } = await settingsOf(run.organizationId)
  if (!anonymous.is_enabled) throw new RunFailed('ACCESS_ENDED', explainEndOfAccess('visitors_refused'))
}

/** The same tolerance as for sessions. */
const clockSkewMs = 60_000

function requireWithinLimits({ limits }: RunParts, { startedAt }: Work, { run, steps }: RunStory): void {
  if (run.epoch > limits.beginnings) throw new RunFailed(interruptedTooOften.code, interruptedTooOften.message)
  if (steps.length >= limits.steps) {
    throw new RunFailed(
      'TOO_MANY_STEPS',
      `The agent stopped after ${limits.steps} steps. Write “continue” if it should go on.`,
    )
  }
  if (run.worked_ms + Date.now() - startedAt > limits.workMs) {
    throw new RunFailed('TOO_LONG', 'The agent worked for too long and stopped. Write “continue” if it should go on.')
  }
}

/** Returns false if there is something to do after all. */
const rest = (parts: RunParts, work: Work): Promise<boolean> =>
  work.lease.write((sql) => restRun(sql, parts, work, 'waiting'))

/** Returns the last chunk, or undefined if there is something to do after all. */
const endAnswered = (parts: RunParts, work: Work): Promise<Chunk | undefined> =>
  work.lease.write(async (sql) =>
    (await restRun(sql, parts, work, 'succeeded')) ? describeFinish(sql, work.run) : undefined,
  )

/** The answer is complete, and stored. */
function leaveAnswered(work: Work, end: Chunk): void {
  work.log.append({ type: 'finish-step' }, end)
  leave(work, { status: 'succeeded', error: null })
}

/** Ends the run, unless another node has it. */
async function endWith(parts: RunParts, work: Work, reason: unknown): Promise<void> {
  const { run, lease, log } = work
  if (reason instanceof LeaseLost) return leave(work)
  const isStopped = reason instanceof Stopped
  const status = isStopped ? 'stopped' : 'failed'
  const error = isStopped ? null : describeFailure(parts, work, reason)
  try {
    const calls = await lease.write(async (sql) => {
      const calls = await sql<ToolCallRow>`
        update tool_calls set state = case when state = 'running' then 'unknown' else 'cancelled' end,
          reason_data = ${isStopped ? stoppedByUser : null}, ended_at = now()
        where run_id = ${run.id} and state in ('new', 'asking', 'approved', 'running') returning *`
      const interrupted = await selectInterruptedCalls(sql, run)
      // What a stopped model wrote so far stays part of the conversation.
      await endSteps(sql, run.id, status)
      await sql`
        update messages set run_id = ${run.id} where thread_id = ${run.threadId} and run_id is null
          and replaced_at is null`
      await saveStatus(sql, parts, work, status, error)
      await settleInterruptedCalls(sql, run, interrupted)
      return calls
    })
    showProgress(work, calls)
    log.append(...describeEnd({ status, error }))
    leave(work, { status, error })
  } catch (failed) {
    if (!(failed instanceof LeaseLost)) {
      parts.log.error({ err: failed, run_id: run.id }, 'Could not end a run; it is tried again when its lease ends')
    }
    leave(work)
  }
}

/** This node's work on the run is done. Without a status, another node continues it. */
function leave({ log, trace }: Work, rest?: { status: RunStatus; error: RunError | null }): void {
  log.close(rest)
  trace?.end(rest)
}

function describeFailure({ log }: RunParts, { run }: Work, reason: unknown): RunError {
  if (reason instanceof RunFailed) {
    log.warn({ err: reason, run_id: run.id, organization_id: run.organizationId }, 'A run failed')
    return { code: reason.code, message: reason.message }
  }
  log.error({ err: reason, run_id: run.id, organization_id: run.organizationId }, 'A run failed unexpectedly')
  const isTemporary = reason instanceof Failure && reason.envelope.status === 503
  return {
    code: 'INTERNAL_ERROR',
    message: isTemporary
      ? 'The agent is temporarily unavailable. Try again in a moment.'
      : 'Something went wrong on the server. Try again.',
  }
}
