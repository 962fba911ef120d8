import type { Approval } from '@inlay/protocol'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Owner } from '../../kernel/foundation/tool-user.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import { createLocalSources, type LocalSource } from './local-sources.ts'
import type { Claim, FoundSource, Handover, HubMessage, Outcome, Progress, Wanted } from './messages.ts'
import { createNodes } from './nodes.ts'
import { createPendingCalls } from './pending-calls.ts'

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
  const sources = createLocalSources()
  const isHere = (node: string) => node === nodes.self
  const calls = createPendingCalls({ clock, isHere, isAlive: (node) => nodes.isAlive(node), post })
  // Last, because other nodes may send messages as soon as it listens.
  const nodes = await createNodes(service, receive)
  let announcedAt = 0

  function post(node: string, message: HubMessage): void {
    if (isHere(node)) receive(message, node)
    else nodes.send(node, message)
  }

  function receive(message: HubMessage, from: string): void {
    switch (message.kind) {
      case 'find':
        nodes.answer(from, message.ask, sources.find(nodes.self, message.owner, message.wanted))
        break
      case 'count':
        nodes.answer(from, message.ask, sources.count(message.organizationId))
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
        calls.get(message.callId)?.asking()
        break
      case 'allowed':
        confirm(message, from)
        break
      case 'run':
        sources.get(message.sourceId)?.run(message.callId)
        break
      case 'progress':
        calls.get(message.callId)?.progress(message.progress)
        break
      case 'settled': {
        const isWaiting = settle(message.callId, message.outcome)
        if (message.ask !== undefined) nodes.answer(from, message.ask, isWaiting)
        break
      }
      case 'moved':
        calls.get(message.callId)?.move(from)
        break
      case 'tab opened':
        for (const source of sources.of(message.owner)) {
          if (source.id !== message.sourceId) source.tabOpened(message.tabId)
        }
    }
  }

  /** Returns whether the caller was waiting on this node. */
  function settle(callId: string, outcome: Outcome): boolean {
    const call = calls.get(callId)
    call?.settle(outcome)
    return call !== undefined
  }

  /** Only the caller's node knows whether the caller still waits, so it decides whether an allowed call runs. */
  function confirm({ sourceId, callId, approval }: HubMessage & { kind: 'allowed' }, from: string): void {
    const call = calls.get(callId)
    call?.allowed(approval)
    if (call) post(from, { kind: 'run', sourceId, callId })
    else post(from, { kind: 'cancel', sourceId, callId, reason: 'The call has ended' })
  }

  function deliver({ sourceId, owner, order }: HubMessage & { kind: 'call' }, from: string): void {
    const problem = sources.deliver(sourceId, owner, order, from)
    if (problem) post(from, { kind: 'settled', callId: order.call_id, outcome: { failure: problem } })
  }

  function sweep(): void {
    const waitsForOthers = calls.sweep()
    if ((sources.size > 0 || waitsForOthers) && clock() - announcedAt >= announceEveryMs) announce()
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
      const found = [...told.flatMap((answer) => answer ?? []), ...sources.find(nodes.self, owner, wanted)]
      if (found.length < 2) return found
      // Two nodes may both report a page that is moving between them.
      const distinct = new Map(found.map((entry) => [entry.source.sourceId, entry]))
      return [...distinct.values()].sort((a, b) => (a.source.sourceId < b.source.sourceId ? -1 : 1))
    },

    /** Counts an organization's pages on all nodes. A node that doesn't reply in time isn't counted. */
    async count(organizationId: string): Promise<{ count: number; isComplete: boolean }> {
      const question = (ask: string): HubMessage => ({ kind: 'count', ask, organizationId })
      const told = await Promise.all(nodes.others().map((node) => nodes.ask<number>(node, question)))
      const count = told.reduce<number>((sum, one) => sum + (one ?? 0), sources.count(organizationId))
      return { count, isComplete: !told.includes(undefined) }
    },

    call: calls.make,

    /** Pending calls that were made on this node. */
    running: calls.all,

    add(source: LocalSource, tabId: string): void {
      sources.add(source)
      const opened: HubMessage = { kind: 'tab opened', owner: source.owner, tabId, sourceId: source.id }
      receive(opened, nodes.self)
      if (sources.size === 1) announce()
      if (nodes.others().length > 0) nodes.broadcast(opened)
    },

    remove(source: LocalSource): void {
      if (sources.remove(source) && sources.size === 0) announce()
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
      calls.close()
      await nodes.close()
    },
  }
}
