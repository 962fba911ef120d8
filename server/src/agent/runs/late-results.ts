import type { Service } from '../../kernel/foundation/service.ts'
import type { Governed } from '../../kernel/foundation/tool.ts'
import { isId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { fitResult, shownLength } from '../../kernel/untrusted/long-results.ts'
import type { ToolCallRow } from './run.ts'
import type { LateResult, Speaker } from './runs.ts'
import { lockThread, ownsThread } from './speakers.ts'

/** Results that wait until they can be stored. */
export interface LateResults {
  add(result: LateResult): void
  close(): Promise<void>
}

const tryEveryMs = 1_000
/** A node takes over the runs of another within ten seconds, if one is there. */
const keptMs = 60_000
/** Limits the memory that pages can occupy. */
const mostCharacters = 32 * 1024 * 1024
const mostResults = 1_000
/** Results that are tried at the same time, because a governance provider can be slow. */
const mostAttempts = 32

interface Waiting {
  speaker: Speaker
  /** The `LateResponse` as JSON, whose size is known. */
  text: string
  until: number
  attempt: Promise<void> | undefined
}

/** `accept` returns false if it has to be tried again: the node that works on the run may still store an outcome itself. */
export function createLateResults(
  { log }: Pick<Service, 'log'>,
  accept: (result: LateResult) => Promise<boolean>,
): LateResults {
  const waiting = new Map<string, Waiting>()
  let characters = 0

  function forget(callId: string, { text }: Waiting): void {
    waiting.delete(callId)
    characters -= text.length
  }

  async function attempt(callId: string, entry: Waiting): Promise<void> {
    try {
      const isDone = await accept({ speaker: entry.speaker, call_id: callId, ...JSON.parse(entry.text) })
      if (isDone || performance.now() >= entry.until) forget(callId, entry)
    } catch (error) {
      const isLast = performance.now() >= entry.until
      log.warn({ err: error, call_id: callId, is_last: isLast }, 'Could not accept the late result of a tool call')
      if (isLast) forget(callId, entry)
    }
    entry.attempt = undefined
  }

  const timer = setInterval(() => {
    const idle = waiting.entries().filter(([, entry]) => entry.attempt === undefined)
    const busy = waiting.values().reduce((sum, entry) => sum + (entry.attempt ? 1 : 0), 0)
    for (const [callId, entry] of [...idle.take(mostAttempts - busy)]) {
      // Moves it to the end, so that all get their turn.
      waiting.delete(callId)
      waiting.set(callId, entry)
      entry.attempt = attempt(callId, entry)
    }
  }, tryEveryMs)
  timer.unref()

  return {
    add({ speaker, call_id, source, answer }) {
      if (waiting.has(call_id)) return
      const text = JSON.stringify({ source, answer })
      if (waiting.size >= mostResults || characters + text.length > mostCharacters) {
        log.warn({ call_id }, 'Too many late results of tool calls wait, so one was dropped')
        return
      }
      characters += text.length
      waiting.set(call_id, { speaker, text, until: performance.now() + keptMs, attempt: undefined })
    },
    async close() {
      clearInterval(timer)
      await Promise.all(Array.from(waiting.values(), (entry) => entry.attempt))
    },
  }
}

/** Calls that may get a late result: a page's, of unknown outcome or of a node whose lease has ended. */
const selectOpen = (sql: Sql, callId: string, { holder }: Speaker) => sql<
  ToolCallRow & { thread_id: string; is_early: boolean }
>`
  select c.*, r.thread_id, c.state = 'running' and r.lease_until >= now() as is_early
  from tool_calls c join runs r on r.id = c.run_id
  where c.id = ${callId} and c.tool->>'kind' = 'page' and c.tool->>'origin' = ${holder.origin ?? ''}
    and (c.state = 'unknown' or c.state = 'running' and r.status = 'running')`

/** Undefined if the call is not the speaker's, has ended otherwise, or no longer exists. */
export async function findLateCall(sql: Sql, speaker: Speaker, callId: string) {
  const [call] = isId(callId) ? await selectOpen(sql, callId, speaker) : []
  return call && (await ownsThread(sql, speaker, call.thread_id)) ? call : undefined
}

/** The results of these calls of a thread that arrived late. The caller must have checked whose thread it is. */
export const selectLateResults = (sql: Sql, threadId: string, callIds: readonly string[]) => sql<
  Pick<ToolCallRow, 'id' | 'state' | 'reason' | 'result' | 'result_length'>
>`
  select c.id, state, reason, left(result, ${shownLength}) as result, length(result) as result_length
  from tool_calls c join runs r on r.organization_id = c.organization_id and r.id = c.run_id
  where r.thread_id = ${threadId} and c.id = any(${callIds.filter(isId)}::uuid[]) and c.late_step is not null`

/**
 * Stores a late result once, whichever node works on the run: that one locks the thread too before it writes. Returns
 * false if the call is no longer open, or if it's too early again.
 */
export async function saveLateResult(
  sql: Sql,
  speaker: Speaker,
  { id, thread_id, run_id }: { id: string; thread_id: string; run_id: string },
  {
    state,
    result,
    governance = null,
  }: Pick<ToolCallRow, 'state' | 'result'> & { governance?: Governed | null | undefined },
): Promise<boolean> {
  await lockThread(sql, speaker, thread_id)
  const call = await findLateCall(sql, speaker, id)
  if (!call || call.is_early) return false
  const fitting = result === null ? null : await fitResult(sql, run_id, result)
  await sql`
    update tool_calls set state = ${state}, result = ${fitting}, governance = ${governance}, ended_at = now(),
      late_step = case when state = 'unknown' then (select max(step) from steps where run_id = ${run_id}) end
    where id = ${id}`
  // Clients discard what they have of the run. A node that works on it shows the result itself.
  await sql`update runs set attempt = attempt + 1 where id = ${run_id} and status <> 'running'`
  return true
}
