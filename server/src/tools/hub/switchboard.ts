import { type Approval, answerWithinMs, callDeadlineMs, longestCallMs } from '@inlay/protocol'
import type { Service } from '../../kernel/foundation/service.ts'
import { CallerGone, type ToolCall } from '../../kernel/foundation/tool.ts'
import type { Owner, ToolUser } from '../../kernel/foundation/tool-user.ts'
import { type Failure, failure } from '../../kernel/lib/errors.ts'
import { PassingMap } from '../../kernel/lib/passing-map.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import type {
  Asker,
  CallFailure,
  CallOrder,
  Claim,
  FoundSource,
  Handover,
  HubMessage,
  KeptTool,
  Outcome,
  PageFrame,
  Progress,
  Sight,
  SourceDescription,
  Wanted,
} from './messages.ts'
import { createNodes } from './nodes.ts'

/** A page that is connected to this node. */
export interface LocalSource {
  id: string
  owner: Owner
  tools: ReadonlyMap<string, KeptTool>
  /** Undefined if the page can't ask the user. `question` is a `CallQuestion.key`. */
  asker(question: string): Asker | undefined
  describe(): SourceDescription
  sight(): Sight
  frame(): PageFrame
  /** Sends the call to the page. Returns false if the page is already running too many calls. */
  call(order: CallOrder, replyTo: string): boolean
  /** Runs a call that the user has allowed and that its caller still waits for. */
  run(callId: string): void
  cancel(callId: string, reason: string): void
  /** Another page was opened in the tab: a source of that tab without a socket has left. */
  tabOpened(tabId: string): void
  /** Hands the session to the node that the page reconnected to. Undefined if the claim isn't valid. */
  release(claim: Claim): Handover | undefined
}

/** Reasons why a call has no result. The tool may or may not have run, so the call is never retried. */
const callFailures = {
  SOURCE_GONE: [410, 'The user closed or left the page before the tool returned a result. The call was not retried.'],
  TOOL_CHANGED: [409, 'The page has changed the tool since it was listed. List the tools again before you call it.'],
  SOURCE_BUSY: [429, 'The page is already running too many calls. Try again when some have finished.'],
  CALL_TIMED_OUT: [504, 'The page did not return a result in time.'],
  APPROVAL_TIMED_OUT: [
    504,
    `The user did not answer within ${answerWithinMs / 1000} seconds, so nothing was done. Ask the user to look at the open page, where the agent’s panel asks for approval, and call the tool again.`,
  ],
  CALL_CANCELLED: [499, 'The call was cancelled.'],
} as const satisfies Record<CallFailure, readonly [status: number, message: string]>

interface PendingCall {
  user: ToolUser
  cancel(reason: string): void
  settle(outcome: Outcome): void
  progress(progress: Progress): void
  /** The page has started to ask the user. */
  asking(): void
  allowed(approval: Approval | undefined): void
  /** The page has reconnected to another node. */
  move(node: string): void
  node: string
  sourceId: string
  deadline: number
  latest: number
  /** Why the call ends when its deadline passes. */
  late: { failure: CallFailure; reason: string }
}

const notAnswered = { failure: 'CALL_TIMED_OUT', reason: 'The deadline has passed' } as const
const notApproved = {
  failure: 'APPROVAL_TIMED_OUT',
  reason: `The question was not answered within ${answerWithinMs / 1000} seconds`,
} as const

export type Switchboard = Awaited<ReturnType<typeof createSwitchboard>>

const sweepEveryMs = 1_000
/** How often a node that holds sources, or waits for another node, announces itself. */
const announceEveryMs = 2_000

/**
 * Connects callers with pages on any node. Each node knows only its own pages and asks the others for theirs, so there
 * is no shared state to synchronize. A call goes to the node that holds the page's socket.
 */
export async function createSwitchboard(service: Service) {
  const { clock, log } = service
  const sources = new Map<string, LocalSource>()
  const byOwner = new Map<string, Set<LocalSource>>()
  /** Number of sources per organization, so that counting them costs the same for any number. */
  const byOrganization = new Map<string, number>()
  const pending = new PassingMap<PendingCall>()
  const nodes = await createNodes(service, receive)
  let announcedAt = 0

  const ownSources = (owner: Owner) => byOwner.get(ownerKey(owner)) ?? new Set<LocalSource>()

  const countHere = (organizationId: string) => byOrganization.get(organizationId) ?? 0

  function changeCount({ organization_id }: Owner, change: 1 | -1): void {
    const count = countHere(organization_id) + change
    if (count > 0) byOrganization.set(organization_id, count)
    else byOrganization.delete(organization_id)
  }

  function findHere(owner: Owner, wanted: Wanted): FoundSource[] {
    const found: FoundSource[] = []
    for (const source of ownSources(owner)) {
      if (!isWanted(source, wanted)) continue
      found.push({
        node: nodes.self,
        source: source.describe(),
        sight: source.sight(),
        frame: source.frame(),
        tools: wantedTools(source, wanted),
        ...(isQuestion(wanted) && { asker: source.asker(wanted.question) }),
      })
    }
    return found
  }

  function post(node: string, message: HubMessage): void {
    if (node === nodes.self) receive(message, node)
    else nodes.send(node, message)
  }

  function receive(message: HubMessage, from: string): void {
    switch (message.kind) {
      case 'find':
        nodes.answer(from, message.ask, findHere(message.owner, message.wanted))
        break
      case 'count':
        nodes.answer(from, message.ask, countHere(message.organizationId))
        break
      case 'claim':
        nodes.answer(from, message.ask, sources.get(message.claim.session)?.release(message.claim))
        break
      case 'call':
        deliver(message, from)
        break
      case 'cancel':
        sources.get(message.sourceId)?.cancel(message.callId, message.reason)
        break
      case 'asking':
        pending.get(message.callId)?.asking()
        break
      case 'allowed':
        confirm(message, from)
        break
      case 'run':
        sources.get(message.sourceId)?.run(message.callId)
        break
      case 'progress':
        pending.get(message.callId)?.progress(message.progress)
        break
      case 'settled': {
        const isWaiting = settle(message.callId, message.outcome)
        if (message.ask !== undefined) nodes.answer(from, message.ask, isWaiting)
        break
      }
      case 'moved':
        pending.get(message.callId)?.move(from)
        break
      case 'tab opened':
        for (const source of ownSources(message.owner)) {
          if (source.id !== message.sourceId) source.tabOpened(message.tabId)
        }
    }
  }

  /** Returns whether the caller was waiting on this node. */
  function settle(callId: string, outcome: Outcome): boolean {
    const call = pending.get(callId)
    call?.settle(outcome)
    return call !== undefined
  }

  /** Only the caller's node knows whether the caller still waits, so it decides whether an allowed call runs. */
  function confirm({ sourceId, callId, approval }: HubMessage & { kind: 'allowed' }, from: string): void {
    const call = pending.get(callId)
    call?.allowed(approval)
    if (call) post(from, { kind: 'run', sourceId, callId })
    else post(from, { kind: 'cancel', sourceId, callId, reason: 'The call has ended' })
  }

  function deliver({ sourceId, owner, order }: HubMessage & { kind: 'call' }, from: string): void {
    const source = sources.get(sourceId)
    let problem: CallFailure | undefined
    if (!source || ownerKey(source.owner) !== ownerKey(owner)) problem = 'SOURCE_GONE'
    else if (order.question ? !source.asker(order.question.key) : !hasTool(source, order))
      problem = order.question ? 'SOURCE_GONE' : 'TOOL_CHANGED'
    else if (!source.call(order, from)) problem = 'SOURCE_BUSY'
    if (problem) post(from, { kind: 'settled', callId: order.call_id, outcome: { failure: problem } })
  }

  function sweep(): void {
    const now = clock()
    let waitsForOthers = false
    for (const [callId, { node, sourceId, deadline, late, settle }] of pending) {
      waitsForOthers ||= node !== nodes.self
      if (now >= deadline) {
        post(node, { kind: 'cancel', sourceId, callId, reason: late.reason })
        settle({ failure: late.failure })
      } else if (!nodes.isAlive(node)) settle({ failure: 'SOURCE_GONE' })
    }
    if ((sources.size > 0 || waitsForOthers) && now - announcedAt >= announceEveryMs) announce()
  }

  function announce(): void {
    announcedAt = clock()
    nodes.announce(sources.size > 0)
  }

  const timer = setInterval(() => {
    try {
      sweep()
    } catch (error) {
      // An error in one call must not crash the server.
      log.error({ err: error }, 'Could not check the hub’s pending calls')
    }
  }, sweepEveryMs)
  timer.unref()

  return {
    self: nodes.self,
    isAlive: nodes.isAlive,

    /** Finds an owner's pages, oldest first. */
    async find(owner: Owner, wanted: Wanted): Promise<FoundSource[]> {
      const question = (ask: string): HubMessage => ({ kind: 'find', ask, owner, wanted })
      const asked = nodes.others().map((node) => nodes.ask<FoundSource[]>(node, question))
      // Most installations have one node, which doesn't need to wait.
      const told = asked.length > 0 ? await Promise.all(asked) : []
      const found = [...told.flatMap((answer) => answer ?? []), ...findHere(owner, wanted)]
      if (found.length < 2) return found
      // Two nodes may both report a page that is moving between them.
      const distinct = new Map(found.map((entry) => [entry.source.sourceId, entry]))
      return [...distinct.values()].sort((a, b) => (a.source.sourceId < b.source.sourceId ? -1 : 1))
    },

    /** Counts an organization's pages on all nodes. A node that doesn't reply in time isn't counted. */
    async count(organizationId: string): Promise<{ count: number; isComplete: boolean }> {
      const question = (ask: string): HubMessage => ({ kind: 'count', ask, organizationId })
      const told = await Promise.all(nodes.others().map((node) => nodes.ask<number>(node, question)))
      const count = told.reduce<number>((sum, one) => sum + (one ?? 0), countHere(organizationId))
      return { count, isComplete: !told.includes(undefined) }
    },

    /**
     * Delivers the call once. Throws a Failure if the page returns no result. A question resolves with an empty result
     * when the user has allowed the call.
     */
    call(
      target: FoundSource,
      user: ToolUser,
      order: Omit<CallOrder, 'deadline'>,
      call: ToolCall,
      startedAt = clock(),
    ): Promise<PageResponse> {
      const callId = order.call_id
      const { sourceId } = target.source
      return new Promise((resolve, reject) => {
        const cancel = () => {
          if (call.signal.reason instanceof CallerGone) entry.settle({ failure: 'CALL_CANCELLED' })
          else entry.cancel(reasonOf(call.signal))
        }
        const entry: PendingCall = {
          user,
          cancel(reason) {
            post(entry.node, { kind: 'cancel', sourceId, callId, reason })
            entry.settle({ failure: 'CALL_CANCELLED' })
          },
          node: target.node,
          sourceId,
          deadline: startedAt + callDeadlineMs,
          latest: startedAt + longestCallMs,
          late: notAnswered,
          settle(outcome) {
            pending.delete(callId)
            call.signal.removeEventListener('abort', cancel)
            if ('failure' in outcome) reject(callFailure(outcome.failure))
            else resolve(outcome)
          },
          progress(progress) {
            // Progress doesn't extend the user's time to answer.
            if (entry.late === notAnswered) entry.deadline = Math.min(clock() + callDeadlineMs, entry.latest)
            call.progress(progress)
          },
          asking() {
            // Counted from the start, because a page that reconnects reports again that it's asking.
            entry.deadline = startedAt + answerWithinMs
            entry.late = notApproved
            call.progress({ progress: 0, message: 'Waiting for the user to approve' })
          },
          allowed(approval) {
            entry.late = notAnswered
            entry.progress({ progress: 0, message: 'The user has approved' })
            if (order.question) entry.settle({ result: undefined, approval })
          },
          move(node) {
            entry.node = node
          },
        }
        if (isCancelled(call)) return reject(callFailure('CALL_CANCELLED'))
        pending.set(callId, entry)
        call.signal.addEventListener('abort', cancel)
        if (order.question) entry.asking()
        post(entry.node, { kind: 'call', sourceId, owner: user.owner, order: { ...order, deadline: entry.deadline } })
      })
    },

    /** Pending calls that were made on this node. */
    *running(): Iterable<Pick<PendingCall, 'user' | 'cancel'>> {
      for (const [, call] of pending) yield call
    },

    add(source: LocalSource, tabId: string): void {
      if (!sources.has(source.id)) changeCount(source.owner, 1)
      sources.set(source.id, source)
      const key = ownerKey(source.owner)
      byOwner.set(key, ownSources(source.owner).add(source))
      const opened: HubMessage = { kind: 'tab opened', owner: source.owner, tabId, sourceId: source.id }
      receive(opened, nodes.self)
      if (sources.size === 1) announce()
      if (nodes.others().length > 0) nodes.broadcast(opened)
    },

    remove(source: LocalSource): void {
      if (!sources.delete(source.id)) return
      changeCount(source.owner, -1)
      const rest = ownSources(source.owner)
      rest.delete(source)
      if (rest.size === 0) byOwner.delete(ownerKey(source.owner))
      if (sources.size === 0) announce()
    },

    /** Fetches the session of a page that reconnected to this node from the node that holds it. */
    claim: (node: string, claim: Claim): Promise<Handover | undefined> =>
      nodes.others().includes(node)
        ? nodes.ask<Handover>(node, (ask) => ({ kind: 'claim', ask, claim }))
        : Promise.resolve(undefined),

    settled: (replyTo: string, callId: string, answer: PageResponse) =>
      post(replyTo, { kind: 'settled', callId, outcome: answer }),
    /** Returns false if the caller is gone, or if its node doesn't reply. */
    async settleIfWaiting(replyTo: string, callId: string, answer: PageResponse): Promise<boolean> {
      if (replyTo === nodes.self) return settle(callId, answer)
      const settled = (ask: string): HubMessage => ({ kind: 'settled', callId, outcome: answer, ask })
      return (await nodes.ask<boolean>(replyTo, settled, { evenIfSilent: true })) ?? false
    },
    left: (replyTo: string, callId: string) =>
      post(replyTo, { kind: 'settled', callId, outcome: { failure: 'SOURCE_GONE' } }),
    asking: (replyTo: string, callId: string) => post(replyTo, { kind: 'asking', callId }),
    allowed: (replyTo: string, callId: string, sourceId: string, approval: Approval | undefined) =>
      post(replyTo, { kind: 'allowed', callId, sourceId, approval }),
    progress: (replyTo: string, callId: string, progress: Progress) =>
      post(replyTo, { kind: 'progress', callId, progress }),
    moved(replyTo: string, callId: string): void {
      nodes.expect(replyTo)
      post(replyTo, { kind: 'moved', callId })
    },

    sweep,
    async close(): Promise<void> {
      clearInterval(timer)
      for (const [callId, { node, sourceId, settle }] of pending) {
        post(node, { kind: 'cancel', sourceId, callId, reason: 'The server is restarting' })
        settle({ failure: 'SOURCE_GONE' })
      }
      await nodes.close()
    },
  }
}

const ownerKey = ({ organization_id, identity }: Owner) => `${organization_id} ${identity}`

const isQuestion = (wanted: Wanted): wanted is { question: string } =>
  typeof wanted === 'object' && 'question' in wanted

const hasTool = ({ tools }: LocalSource, { name, definition_hash }: CallOrder) =>
  tools.get(name)?.hash === definition_hash

function isWanted(source: LocalSource, wanted: Wanted): boolean {
  if (typeof wanted === 'string') return true
  if (isQuestion(wanted)) return source.asker(wanted.question) !== undefined
  const { id, tools } = source
  return wanted.sourceId === undefined ? tools.has(wanted.toolName) : id === wanted.sourceId
}

function wantedTools({ tools }: LocalSource, wanted: Wanted): KeptTool[] {
  if (wanted === 'sources' || isQuestion(wanted)) return []
  if (wanted === 'tools') return [...tools.values()]
  const tool = tools.get(wanted.toolName)
  return tool ? [tool] : []
}

export const isCancelled = ({ signal, mayStillCall }: ToolCall): boolean => signal.aborted || mayStillCall?.() === false

const reasonOf = ({ reason }: AbortSignal): string => (typeof reason === 'string' ? reason : 'The caller cancelled')

export function callFailure(code: CallFailure): Failure {
  const [status, message] = callFailures[code]
  return failure(status, code, message)
}
