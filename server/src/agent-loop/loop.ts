import { Failure } from '../lib/errors.ts'
import { type Chunk, describeEnd, hasEnded } from '../run-feeds/chunks.ts'
import { LeaseLost, Stopped } from '../runs/leases.ts'
import { type Conversation, type RunStory, selectConversation } from '../runs/rows.ts'
import type { RunError, RunStatus, ToolCallRow } from '../runs/run.ts'
import { findStanding, type Standing } from '../tickets/standing.ts'
import { selectInterruptedCalls, settleInterruptedCalls } from './metering.ts'
import { takeStep } from './model-step.ts'
import { showProgress } from './shown-calls.ts'
import { restRun, saveStatus } from './thread-changes.ts'
import { handleToolCalls } from './tool-calls.ts'
import { RunFailed, type RunParts, type Work } from './work.ts'

/**
 * Works on a run until it rests: it has ended, or it waits for a person. Everything that the loop decides on is in the
 * rows, so it continues the work of another node exactly as its own.
 */
export async function workOn(parts: RunParts, work: Work): Promise<void> {
  try {
    if (!work.isNew) await forgetInterrupted(work)
    for (;;) {
      work.lease.signal.throwIfAborted()
      const { conversation, standing } = await readRows(parts, work)
      const story = ownStory(conversation, work)
      showProgress(work, story.calls)
      if (openCalls(story).length > 0) {
        if (openCalls(story).some(isNext)) requireStanding(parts, work, standing)
        await handleToolCalls(parts, work, conversation, story)
        if (await rest(parts, work, 'waiting')) return leave(work, { status: 'waiting', error: null })
      } else if (isAnswered(conversation, story)) {
        if (await rest(parts, work, 'succeeded')) return leaveAnswered(parts, work)
      } else {
        requireStanding(parts, work, standing)
        requireWithinLimits(parts, work, story)
        if (await takeStep(parts, work, conversation, story)) return leaveAnswered(parts, work)
      }
    }
  } catch (error) {
    await endWith(parts, work, work.lease.signal.aborted ? work.lease.signal.reason : error)
  } finally {
    work.lease.release()
  }
}

async function readRows({ database, config }: RunParts, { run }: Work) {
  const [conversation, [standing]] = await database.asOrg(run.organizationId, (sql) =>
    Promise.all([selectConversation(sql, run.threadId), findStanding(sql, config, [run.holder])]),
  )
  if (!conversation) throw new LeaseLost()
  return { conversation, standing }
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
  await lease.write(async (sql) => {
    const interrupted = await selectInterruptedCalls(sql, run)
    await sql`
      update tool_calls set state = 'unknown', ended_at = now()
      where run_id = ${run.id} and state = 'running' and tool->>'kind' <> 'client'`
    await sql`delete from steps where run_id = ${run.id} and finish_reason is null`
    await settleInterruptedCalls(sql, run, interrupted)
  })
}

function requireStanding({ clock }: RunParts, { run }: Work, standing: Standing | undefined): void {
  const expiresAt = run.holder.end_user?.identity_expires_at ?? Number.POSITIVE_INFINITY
  if (standing !== 'stands' || expiresAt + clockSkewMs < clock()) {
    throw new RunFailed('ACCESS_ENDED', 'Your access has ended or expired. Sign in again, then continue.')
  }
}

/** The same tolerance as for sessions. */
const clockSkewMs = 60_000

function requireWithinLimits({ limits }: RunParts, { startedAt }: Work, { run, steps }: RunStory): void {
  // Also if the run itself is what stops the servers that work on it.
  if (run.epoch > limits.beginnings) {
    throw new RunFailed('TOO_LONG', 'The agent was interrupted too often, so it stopped. Try again later.')
  }
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
const rest = (parts: RunParts, work: Work, status: 'waiting' | 'succeeded'): Promise<boolean> =>
  work.lease.write((sql) => restRun(sql, parts, work, status))

/** The answer is complete, and stored. */
async function leaveAnswered(parts: RunParts, work: Work): Promise<void> {
  work.log.append({ type: 'finish-step' }, await describeFinish(parts, work))
  leave(work, { status: 'succeeded', error: null })
}

/** The last chunk of an answer says what it cost. */
async function describeFinish({ database }: RunParts, { run }: Work): Promise<Chunk> {
  const usage = await database.asOrg(
    run.organizationId,
    (sql) => sql<{ model: string; prompt_tokens: number; completion_tokens: number }>`
      select model, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens
      from model_calls where run_id = ${run.id} and settled_at is not null group by model order by min(started_at)`,
  )
  return { type: 'finish', finishReason: 'stop', messageMetadata: { usage } }
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
        update tool_calls set state = case when state = 'running' then 'unknown' else 'cancelled' end, ended_at = now()
        where run_id = ${run.id} and state in ('new', 'asking', 'approved', 'running') returning *`
      const interrupted = await selectInterruptedCalls(sql, run)
      // What a stopped model wrote so far stays part of the conversation.
      await sql`update steps set finish_reason = ${status} where run_id = ${run.id} and finish_reason is null`
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
