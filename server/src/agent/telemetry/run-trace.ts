import { randomBytes } from 'node:crypto'
import type { Log } from '../../kernel/lib/log.ts'
import type { Model } from '../models/models.ts'
import type { Prompt, Tokens } from '../models/tokens/tokens.ts'
import type { Run, RunError, RunStatus, ToolCallRow } from '../runs/run.ts'
import { describeArguments, describePrompt, describeReply, describeResult, type Written } from './contents.ts'
import type { Histograms } from './histograms.ts'
import { type Finish, nameFinish, nameProvider, nameSpan, names, nameToolType, operations } from './names.ts'
import type { Attributes, Span } from './otlp.ts'

/**
 * This node's work on a run. If the run waits and continues, or another node takes it over, that work is another span
 * of the same trace.
 */
export interface RunTrace {
  nameAgent(name: string): void
  startModelCall(model: Model, prompt: Prompt, maxOutputTokens: number): ModelCallTrace
  startToolCall(call: ToolCallRow): ToolCallTrace
  /** Without a status if another node continues the run. */
  end(rest?: { status: RunStatus; error: RunError | null }): void
}

interface ModelCallTrace {
  end(reply: Written & { tokens: Tokens; finish: Finish; failure?: string | undefined }): void
}

interface ToolCallTrace {
  end(outcome: { state: 'succeeded' | 'failed' | 'refused'; result: string }): void
}

interface Parts {
  log: Log
  histograms: Histograms
  areContentsSent: boolean
  add(span: Span): void
}

/** A span that hasn't ended. */
interface OpenSpan {
  id: Uint8Array
  start: bigint
  /** The first call counts. */
  end(more: Attributes, name?: string): void
}

export function startRunTrace({ log, histograms, areContentsSent, add }: Parts, run: Run): RunTrace {
  const now = createRunClock()
  // So that the trace of a run in the log can be found.
  const traceId = Buffer.from(run.id.replaceAll('-', ''), 'hex')
  const ofAllSpans: Attributes = {
    [names.conversation]: run.threadId,
    [names.session]: run.threadId,
    [names.user]: run.holder.end_user?.id,
    [names.organization]: run.organizationId,
    [names.run]: run.id,
  }
  const open = new Set<OpenSpan>()
  let agentName: string | undefined
  let provider: string | undefined

  function startSpan(span: Pick<Span, 'name' | 'kind' | 'attributes' | 'parentId'>): OpenSpan {
    const id = randomBytes(8)
    const start = now()
    const started: OpenSpan = {
      id,
      start,
      end(more, name = span.name) {
        if (!open.delete(started)) return
        const attributes = { ...span.attributes, ...ofAllSpans, ...more }
        const hasFailed = attributes[names.error] !== undefined
        add({ ...span, name, traceId, spanId: id, start, end: now(), attributes, hasFailed })
      },
    }
    open.add(started)
    return started
  }

  /** A fault in here must not end a run. */
  function safely(work: () => void): void {
    try {
      work()
    } catch (error) {
      log.error({ err: error, run_id: run.id }, 'Could not record telemetry')
    }
  }

  function recordMetrics(about: Attributes, { start }: OpenSpan, tokens: Tokens, failure: string | undefined): void {
    const { prompt_tokens, completion_tokens } = tokens
    histograms.record('duration', Number(now() - start) / 1e9, { ...about, [names.error]: failure })
    // A provider that refused the request used none, which isn't a measurement.
    if (prompt_tokens === 0) return
    histograms.record('tokens', prompt_tokens, { ...about, [names.tokenType]: 'input' })
    histograms.record('tokens', completion_tokens, { ...about, [names.tokenType]: 'output' })
  }

  const root = startSpan({
    name: operations.run,
    kind: 'internal',
    parentId: undefined,
    attributes: { [names.operation]: operations.run },
  })

  return {
    nameAgent(name) {
      agentName = name
    },
    startModelCall(model, { prompt }, maxOutputTokens) {
      provider = nameProvider(model)
      const about = {
        [names.operation]: operations.modelCall,
        [names.provider]: provider,
        [names.model]: model.name,
        ...describeServer(model),
      }
      const span = startSpan({
        name: nameSpan(operations.modelCall, model.name),
        kind: 'client',
        parentId: root.id,
        attributes: { ...about, [names.maxTokens]: maxOutputTokens, [names.isStreamed]: true },
      })
      return {
        end: ({ tokens, finish, failure, ...written }) =>
          safely(() => {
            recordMetrics(about, span, tokens, failure)
            span.end({
              [names.inputTokens]: tokens.prompt_tokens,
              [names.outputTokens]: tokens.completion_tokens,
              [names.isEstimated]: tokens.is_estimated,
              [names.finishReasons]: [nameFinish(finish)],
              [names.error]: failure,
              ...(areContentsSent && { ...describePrompt(prompt), ...describeReply(written, finish) }),
            })
          }),
      }
    },
    startToolCall({ id, name, tool, args, edited_args }) {
      const span = startSpan({
        name: nameSpan(operations.toolCall, name),
        kind: 'internal',
        parentId: root.id,
        attributes: {
          [names.operation]: operations.toolCall,
          [names.toolName]: name,
          [names.toolCall]: id,
          [names.toolType]: nameToolType(tool?.kind),
          [names.toolKind]: tool?.kind,
          [names.toolOrigin]: tool && 'origin' in tool ? tool.origin : undefined,
        },
      })
      return {
        end: ({ state, result }) =>
          safely(() =>
            span.end({
              [names.error]: state === 'succeeded' ? undefined : state,
              ...(areContentsSent && { ...describeArguments(edited_args ?? args), ...describeResult(result) }),
            }),
          ),
      }
    },
    end: (rest) =>
      safely(() => {
        // Calls that the end of the run interrupted.
        for (const span of open) if (span !== root) span.end({ [names.error]: 'interrupted' })
        const about = {
          [names.agentName]: agentName,
          [names.provider]: provider,
          [names.runStatus]: rest?.status ?? 'running',
          [names.error]: rest?.error?.code,
        }
        root.end(about, nameSpan(operations.run, agentName))
      }),
  }
}

/** Doesn't go backwards during a run when the computer's clock is set, so that spans nest. */
function createRunClock(): () => bigint {
  const start = BigInt(Date.now()) * 1_000_000n
  const from = process.hrtime.bigint()
  return () => start + process.hrtime.bigint() - from
}

function describeServer({ url }: Model): Attributes {
  if (url === undefined) return {}
  const { hostname, port, protocol } = new URL(url)
  return { [names.serverAddress]: hostname, [names.serverPort]: Number(port) || (protocol === 'https:' ? 443 : 80) }
}
