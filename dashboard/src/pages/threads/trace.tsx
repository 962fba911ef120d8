import type { components } from '@inlay/client'
import { Bot, ChevronRight, Cpu, ShieldCheck, ThumbsDown, ThumbsUp, UserRound, Wrench } from 'lucide-react'
import type { ReactNode } from 'react'
import { formatDuration, formatMoney, formatNumber } from '../../lib/format.ts'
import { DataBlock } from '../../ui/display/code.tsx'
import { Badge } from '../../ui/display/layout.tsx'
import { Time } from '../../ui/display/time.tsx'
import { t } from './texts.ts'
import type { Run } from './thread-data.ts'

type Message = components['schemas']['Message']
type MessageCall = components['schemas']['MessageToolCall']
type Step = components['schemas']['RunStep']
type ModelCall = components['schemas']['RunModelCall']
/** The decisions about a call are only known to admins. */
type ToolCall = MessageCall & Partial<components['schemas']['RunToolCall']>

const statusTones = {
  sent: 'plain',
  queued: 'wait',
  running: 'plain',
  waiting: 'wait',
  succeeded: 'good',
  failed: 'bad',
  stopped: 'plain',
} as const

/** One message, with how it came about if it's the agent's. */
export function MessageItem({
  message,
  run,
  isVisible,
  isOpen = false,
}: {
  message: Message
  run: Run | undefined
  isVisible: boolean
  /** Shows the trace of every answer, not only of those that didn't succeed. */
  isOpen?: boolean
}) {
  const { role, created_at, status, text, replaced_at, feedback } = message
  const isUser = role === 'user'
  const Icon = isUser ? UserRound : Bot
  return (
    <li className={`grid grid-cols-[28px_minmax(0,1fr)] gap-3 ${replaced_at ? 'opacity-75' : ''}`}>
      <span
        aria-hidden
        className={`grid size-7 place-items-center rounded-full ${isUser ? 'bg-sunken text-muted' : 'bg-accent-soft text-accent'}`}
      >
        <Icon size={16} strokeWidth={1.5} />
      </span>
      <div className="min-w-0">
        <div className="mb-1 flex min-h-7 flex-wrap items-center gap-x-2 gap-y-1">
          <h3 className="font-semibold">{isUser ? t.user : t.agent}</h3>
          <span className="text-sm text-muted">
            <Time at={created_at} />
          </span>
          {status !== 'sent' && <Badge tone={statusTones[status]}>{t.status_[status]}</Badge>}
          {replaced_at && <Badge>{t.wasReplaced}</Badge>}
          {feedback && (
            <Badge
              tone={feedback.rating === 'up' ? 'good' : 'wait'}
              icon={feedback.rating === 'up' ? ThumbsUp : ThumbsDown}
            >
              {t[feedback.rating]}
            </Badge>
          )}
        </div>
        <MessageText text={text} isVisible={isVisible} />
        {feedback?.comment && (
          <blockquote className="mt-2 border-l-2 border-brass/50 pl-3 whitespace-pre-wrap wrap-anywhere text-muted">
            {feedback.comment}
          </blockquote>
        )}
        {message.error_code && (
          <p className="mt-2 rounded-control bg-danger-soft px-3 py-2 text-sm text-danger">
            <span className="mono">{message.error_code}</span> {run?.error_message}
          </p>
        )}
        {!isUser && <Trace message={message} run={run} isOpen={isOpen} />}
      </div>
    </li>
  )
}

function MessageText({ text, isVisible }: { text: string | null; isVisible: boolean }) {
  if (!isVisible) return <p className="text-sm text-faint italic">{t.hiddenText}</p>
  if (!text) return <p className="text-sm text-faint italic">{t.noText}</p>
  return <p className="whitespace-pre-wrap wrap-anywhere">{text}</p>
}

/** What the agent did for its message. Without the run, as for members, only what the message itself tells. */
function Trace({ message, run, isOpen }: { message: Message; run: Run | undefined; isOpen: boolean }) {
  const { tool_calls, prompt_tokens, completion_tokens, cost_micro_usd, model } = message
  const known = new Map(tool_calls.map((call) => [call.id, call]))
  const steps: Step[] = run?.steps ?? []
  const durations = [...steps.flatMap((step) => [...step.model_calls, ...step.tool_calls]), ...tool_calls].map(
    durationOf,
  )
  const longest = Math.max(1, ...durations.map((ms) => ms ?? 0))
  const totals = [
    ...(run ? [t.steps(steps.length, formatNumber(steps.length))] : []),
    ...(tool_calls.length > 0 ? [t.calls(tool_calls.length, formatNumber(tool_calls.length))] : []),
    ...(prompt_tokens ? [t.inAndOut(formatNumber(prompt_tokens), formatNumber(completion_tokens ?? 0))] : []),
    ...(cost_micro_usd === null ? [] : [formatMoney(cost_micro_usd)]),
    ...(run && run.worked_ms > 0 ? [formatDuration(run.worked_ms)] : []),
    ...(!run && model ? [model] : []),
  ]
  const hasMore = run !== undefined || tool_calls.length > 0
  if (!hasMore) return totals.length > 0 && <p className="mt-2 text-sm text-muted">{totals.join(' · ')}</p>
  const isOfInterest = isOpen || message.status !== 'succeeded'
  return (
    <details className="group/trace mt-2 rounded-control border border-line" open={isOfInterest}>
      <summary className="flex items-center gap-2 rounded-control px-3 py-2 text-sm text-muted hover:bg-sunken">
        <ChevronRight
          size={14}
          strokeWidth={1.5}
          aria-hidden
          className="shrink-0 transition-transform duration-150 group-open/trace:rotate-90"
        />
        <span className="font-[550] text-text">{t.trace}</span>
        <span className="min-w-0">{totals.join(' · ')}</span>
      </summary>
      <div className="border-t border-line px-3 py-1">
        {run
          ? steps.map((step, index) => (
              <div key={step.step} className="py-2">
                <h4 className="mb-1 text-xs font-[550] text-faint">{t.step(index + 1)}</h4>
                <ul className="grid gap-2">
                  {step.model_calls.map((call) => (
                    <ModelCallItem key={call.id} call={call} longest={longest} />
                  ))}
                  {step.tool_calls.map((call) => (
                    <ToolCallItem
                      key={call.id}
                      call={{ args: null, result: null, ...known.get(call.id), ...call }}
                      longest={longest}
                    />
                  ))}
                </ul>
              </div>
            ))
          : tool_calls.length > 0 && (
              <ul className="grid gap-2 py-2">
                {tool_calls.map((call) => (
                  <ToolCallItem key={call.id} call={call} longest={longest} />
                ))}
              </ul>
            )}
      </div>
    </details>
  )
}

const durationOf = ({ started_at, ended_at }: { started_at: string | null; ended_at: string | null }) =>
  started_at && ended_at ? Date.parse(ended_at) - Date.parse(started_at) : undefined

const expectedEnds = new Set(['stop', 'tool-calls', null])

function ModelCallItem({ call, longest }: { call: ModelCall; longest: number }) {
  const { model, purpose, is_estimated, finish_reason, prompt_tokens, completion_tokens, cost_micro_usd } = call
  const numbers = [
    ...(prompt_tokens === null ? [] : [t.inAndOut(formatNumber(prompt_tokens), formatNumber(completion_tokens ?? 0))]),
    ...(prompt_tokens === null ? [] : [cost_micro_usd === null ? t.noPrice : formatMoney(cost_micro_usd)]),
  ]
  return (
    <TraceItem icon={Cpu} name={model} note={numbers.join(' · ')} duration={durationOf(call)} longest={longest}>
      {purpose === 'summary' && <Badge>{t.summary}</Badge>}
      {is_estimated && <Badge tone="wait">{t.estimated}</Badge>}
      {!expectedEnds.has(finish_reason) && <Badge tone="bad">{finish_reason}</Badge>}
    </TraceItem>
  )
}

const stateTones = {
  new: 'plain',
  asking: 'wait',
  approved: 'plain',
  running: 'plain',
  succeeded: 'good',
  failed: 'bad',
  unknown: 'wait',
  refused: 'bad',
  declined: 'wait',
  cancelled: 'plain',
} as const

function ToolCallItem({ call, longest }: { call: ToolCall; longest: number }) {
  const { name, source, source_type, state, decision, verdict, reason, is_edited, is_late, governance, args, result } =
    call
  const from = source ?? (source_type === 'built_in' ? t.builtIn : source_type === null ? t.unknownTool : '')
  const asked = verdict === 'ask' && decision === null
  return (
    <TraceItem
      icon={Wrench}
      name={name}
      note={from}
      duration={durationOf(call)}
      longest={longest}
      isWaiting={state === 'asking'}
    >
      <Badge tone={stateTones[state]}>{t.states[state]}</Badge>
      {decision && decision !== 'declined' && <Badge>{t.decisions[decision]}</Badge>}
      {verdict && verdict !== 'run' && (asked || verdict === 'refuse') && (
        <Badge tone="wait">{t.verdicts[verdict]}</Badge>
      )}
      {governance && governance !== 'none' && (
        <Badge tone={governance === 'allowed' ? 'good' : 'bad'} icon={ShieldCheck}>
          {t.governance[governance]}
        </Badge>
      )}
      {is_edited && <Badge tone="wait">{t.edited}</Badge>}
      {is_late && <Badge tone="wait">{t.late}</Badge>}
      {reason && <p className="w-full text-sm text-muted">{reason}</p>}
      {(args || result) && (
        <details className="group/contents w-full">
          <summary className="link inline-flex items-center gap-1 text-sm">
            <ChevronRight
              size={12}
              strokeWidth={2}
              aria-hidden
              className="transition-transform duration-150 group-open/contents:rotate-90"
            />
            {t.contents}
          </summary>
          <div className="mt-2 grid grid-cols-1 gap-2">
            {args && <DataBlock label={t.args} text={JSON.stringify(args)} />}
            {result && <DataBlock label={t.result} text={result} />}
          </div>
        </details>
      )}
    </TraceItem>
  )
}

/** A line of the trace. Its bar compares the time it took with the longest one of the message. */
function TraceItem({
  icon: Icon,
  name,
  note,
  duration,
  longest,
  isWaiting,
  children,
}: {
  icon: typeof Cpu
  name: string
  note: string
  duration: number | undefined
  longest: number
  isWaiting?: boolean
  children: ReactNode
}) {
  return (
    <li className={isWaiting ? 'rounded-control border border-brass/50 p-2' : ''}>
      <div className="flex flex-wrap items-baseline gap-x-2 text-sm">
        <Icon size={14} strokeWidth={1.5} aria-hidden className="shrink-0 self-center text-muted" />
        <span className="mono font-[550] wrap-anywhere">{name}</span>
        <span className="min-w-0 wrap-anywhere text-muted">{note}</span>
        {duration !== undefined && <span className="ml-auto text-muted tabular-nums">{formatDuration(duration)}</span>}
      </div>
      {duration !== undefined && (
        <div className="my-1 h-1 rounded-full bg-sunken" aria-hidden>
          <div
            className={`h-1 min-w-1 rounded-full ${Icon === Cpu ? 'bg-accent/70' : 'bg-brass/70'}`}
            style={{ width: `${(duration / longest) * 100}%` }}
          />
        </div>
      )}
      <div className="flex flex-wrap items-center gap-1.5 empty:hidden">{children}</div>
    </li>
  )
}
