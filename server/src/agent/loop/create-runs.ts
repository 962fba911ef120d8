import type { Service } from '../../kernel/foundation/service.ts'
import { failure } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { fitResult } from '../../kernel/untrusted/long-results.ts'
import type { AnonymousLimits } from '../../plans/budgets/anonymous.ts'
import type { HeldAccess } from '../../visitors/tickets/ends-of-access.ts'
import { createFeeds, feedOf } from '../feeds/feeds.ts'
import type { Models } from '../models/models.ts'
import type { Prices } from '../models/prices.ts'
import { createLateResults, findLateCall, saveLateResult } from '../runs/late-results.ts'
import { selectStories } from '../runs/rows.ts'
import type { Run, RunHolder } from '../runs/run.ts'
import type { LateResult, Runs, Speaker } from '../runs/runs.ts'
import { lockThread, requireThread } from '../runs/speakers.ts'
import { createTextSaver } from '../runs/text-saver.ts'
import type { AgentSettingsReader } from '../settings/agent-settings.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Toolbox } from '../toolbox/toolbox.ts'
import { createAnswers } from './answers.ts'
import { createEnds } from './end-runs.ts'
import { createNodeRuns } from './node-runs.ts'
import { createRunSettings } from './run-settings.ts'
import { findFreeRun, lockActiveRun, stopWaiting, tooManyRuns } from './run-writes.ts'
import { createStarts } from './start-runs.ts'
import { addOrigins } from './tool-calls.ts'
import { type RunParts, runLimits } from './work.ts'

interface Needs extends Service {
  models: Models
  prices: Prices
  toolbox: Toolbox
  agentSettings: AgentSettingsReader
  anonymous: AnonymousLimits
  telemetry: Telemetry | undefined
  heldAccess: HeldAccess
}

export async function createRuns(service: Needs): Promise<Runs> {
  const { database } = service
  const feeds = await createFeeds(service)
  const texts = createTextSaver(service)
  const limits = { ...runLimits, silenceMs: service.config.modelSilenceSeconds * 1000 }
  const settingsOf = createRunSettings(service.agentSettings, service.models)
  const parts: RunParts = { ...service, settingsOf, texts, limits }
  const nodeRuns = createNodeRuns({ ...service, feeds, parts })
  const { begin, claim } = nodeRuns
  const { showRested, ...ends } = createEnds({ ...service, feeds, nodeRuns })
  const lateResults = createLateResults(service, acceptLate)
  const now = () => new Date(service.clock()).toISOString()

  function holderOf({ holder, visitor, address }: Speaker): RunHolder {
    if (holder.end_user || visitor === undefined) return holder
    const { organization_id: organizationId } = holder
    return { ...holder, subjects: service.anonymous.subjectsOf({ organizationId, address, visitor }) }
  }

  async function settleClientCalls(...[speaker, threadId, results, client]: Parameters<Runs['settleClientCalls']>) {
    const { organization_id } = speaker.holder
    const started = await database.asHolder(speaker.holder, async (sql) => {
      await requireThread(sql, speaker, threadId)
      const [isRunFree] = await Promise.all([findFreeRun(sql, speaker), lockThread(sql, speaker, threadId)])
      const run = await lockActiveRun(sql, threadId)
      if (!run) return undefined
      if (run.status === 'waiting' && !isRunFree) throw tooManyRuns()
      for (const { call_id, content, is_error } of results) {
        if (!isId(call_id)) continue
        const result = await fitResult(sql, run.id, content)
        await sql`
          update tool_calls set state = ${is_error ? 'failed' : 'succeeded'}, result = ${result}, ended_at = now()
          where id = ${call_id} and run_id = ${run.id} and state = 'running' and tool->>'kind' = 'client'`
      }
      return run.status === 'waiting' ? claim(sql, { ...run, holder: holderOf(speaker), client }) : undefined
    })
    if (started) begin(organization_id, started)
  }

  /** Returns false if the node that made the call may still store the result itself. */
  async function acceptLate({ speaker, call_id, source, answer }: LateResult): Promise<boolean> {
    const { holder } = speaker
    const { organization_id } = holder
    const call = await database.asHolder(holder, (sql) => findLateCall(sql, speaker, call_id))
    if (!call || call.is_early) return call === undefined
    const { run_id: id, thread_id: threadId } = call
    const run: Run = { id, organizationId: organization_id, threadId, holder, page: null, client: null }
    const outcome = await service.toolbox.readLateResponse(run, call, { source, answer })
    const isSaved = await database.asHolder(holder, async (sql) => {
      const isSaved = await saveLateResult(sql, speaker, call, outcome)
      if (isSaved) await addOrigins(sql, threadId, outcome.origins)
      return isSaved
    })
    if (isSaved) feeds.changed({ id, feed: feedOf(holder, threadId) })
    // Otherwise, the call has ended or the run was taken over meanwhile: the next attempt finds out which.
    return isSaved
  }

  async function adopt(speaker: Speaker, threadId: string, visitor: string): Promise<void> {
    const { holder } = speaker
    const { organization_id, end_user } = holder
    if (!end_user) throw failure(403, 'SIGN_IN_NEEDED', 'Sign in to keep the conversation.')
    const stopped = await database.asOrg(organization_id, async (sql) => {
      const asVisitor = { ...speaker, holder: { ...holder, end_user: undefined, frame_key: undefined }, visitor }
      await lockThread(sql, asVisitor, threadId)
      const run = await lockActiveRun(sql, threadId)
      if (run?.status === 'running') {
        throw failure(409, 'RUN_ACTIVE', 'The agent is still answering. Wait for it, or stop it first.')
      }
      if (run) await stopWaiting(sql, run, now())
      await sql`
        update threads set end_user_id = ${end_user.id}, frame_key = ${holder.frame_key ?? null}, visitor_fingerprint = null, visitor_expires_at = null,
          allowed_tools = '{}', allowed_choices = '[]', updated_at = now()
        where id = ${threadId}`
      return run
    })
    if (stopped) await showRested(stopped)
  }

  const watch: Runs['watch'] = async (speaker, threadId, viewer, have) => {
    const thread = {
      check: () => database.asHolder(speaker.holder, (sql) => requireThread(sql, speaker, threadId)),
      readLast: () =>
        database.asHolder(speaker.holder, async (sql) => {
          const [[last]] = await Promise.all([
            selectStories(sql, threadId, { limit: 1 }),
            requireThread(sql, speaker, threadId),
          ])
          return last
        }),
    }
    const { last, end } = feeds.watch(feedOf(speaker.holder, threadId), viewer, have, thread)
    try {
      return { run: (await last) ?? null, end }
    } catch (error) {
      end()
      throw error
    }
  }

  return {
    ...createStarts({ ...service, feeds, nodeRuns, parts, holderOf }),
    ...ends,
    decide: createAnswers({ ...service, feeds, claim, holderOf, begin }),
    settleClientCalls,
    addLateResult: lateResults.add,
    adopt,
    watch,
    async close() {
      await lateResults.close()
      await nodeRuns.close()
      texts.close()
      await feeds.close()
    },
  }
}
