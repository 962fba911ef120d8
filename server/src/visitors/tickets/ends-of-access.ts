import type { Service } from '../../kernel/foundation/service.ts'
import { recheckMs, TopicIndex } from '../../kernel/stores/changes.ts'
import { parseTopic, topics } from '../../kernel/stores/topics.ts'
import { type FrameStanding, findFrameStandings } from './frames.ts'
import { judgeHolders } from './judge-holders.ts'
import type { TicketHolder } from './signed-tickets.ts'
import { checkStanding, type Standing } from './standing.ts'

/** Something that stays open because a ticket was valid, such as a socket. */
export interface Held {
  isConversation?: false
  /** The ticket's holder no longer may have it. After `terms_changed`, the ticket exchange decides. */
  accessEnded(why: EndOfAccess): void
  /** What the key in the ticket is worth now, for tickets with a frame's key. Called also if nothing has changed. */
  frameJudged?(frame: FrameStanding | undefined): void
}

/** Something that the agent works on or shows: a run, or an AG-UI stream. It can't be given a new ticket. */
export interface HeldConversation {
  isConversation: true
  accessEnded(why: EndOfConversation): void
}

export type EndOfAccess = Exclude<Standing, 'stands'>
/** `visitors_refused`: the organization no longer lets anonymous visitors talk to the agent. */
export type EndOfConversation = EndOfAccess | 'visitors_refused'

/** Ends what ticket holders hold open when their key, end user, identity provider or membership changes. */
export interface HeldAccess {
  /** Replaces what the same holder held before: an arrival becomes a socket, and a socket a session. */
  hold(holder: TicketHolder, held: Held | HeldConversation): void
  /** Does nothing if the holder holds something else by now. */
  release(holder: TicketHolder, held: Held | HeldConversation): void
  /** The number of changes so far. What was read before the last one may be outdated, and wasn't judged if not yet held. */
  changeCount(): number
  /** Changes that no message has announced take effect this way. */
  recheckIfDue(now: number): void
  close(): void
}

/** Ticket holders rechecked per transaction, and concurrent transactions. */
const recheckBatch = 1_000
const recheckConcurrency = 2

export function createHeldAccess(
  service: Pick<Service, 'changes' | 'clock' | 'config' | 'database' | 'log'>,
  mayVisitorsTalk: (organizationId: string) => Promise<boolean>,
): HeldAccess {
  const { changes, clock, log } = service
  const held = new Map<TicketHolder, Held | HeldConversation>()
  const holders = new TopicIndex<TicketHolder>()
  let changeCount = 0
  let recheckedAt = clock()
  let isRecheckDue = false
  let isRechecking = false

  /** Checks all ticket holders against the database, because change messages may have been lost. */
  function recheck(): void {
    recheckedAt = clock()
    isRecheckDue = true
    if (!isRechecking) void recheckWhileDue()
  }

  async function recheckWhileDue(): Promise<void> {
    isRechecking = true
    while (isRecheckDue) {
      isRecheckDue = false
      const batches = batchesOf(held.keys(), recheckBatch)
      const work = async () => {
        for (let batch = batches.pop(); batch; batch = batches.pop()) await recheckTogether(batch)
      }
      await Promise.all(Array.from({ length: recheckConcurrency }, work))
    }
    isRechecking = false
  }

  async function recheckTogether(batch: readonly TicketHolder[]): Promise<void> {
    try {
      await judgeTogether(batch)
    } catch (error) {
      // They stay open: the next round checks them again, and their tickets' identities still expire.
      log.warn({ err: error }, 'Could not recheck ticket holders; retrying in the next round')
    }
  }

  async function judgeTogether(batch: readonly TicketHolder[]): Promise<void> {
    const [first] = batch
    if (!first) return
    const { organization_id } = first
    const [checked, areVisitorsWelcome] = await Promise.all([
      judgeHolders(service, organization_id, batch),
      batch.some((holder) => !holder.end_user && held.get(holder)?.isConversation)
        ? mayVisitorsTalk(organization_id)
        : true,
    ])
    for (const [index, holder] of batch.entries()) {
      const { standing = 'stands', frame } = checked[index] ?? {}
      judge(holder, standing)
      judgeFrame(holder, frame)
      const one = held.get(holder)
      if (one?.isConversation && !holder.end_user && !areVisitorsWelcome) one.accessEnded('visitors_refused')
    }
  }

  /** An arrival may have become a socket during the check. A session with a new ticket has been checked with that. */
  function judge(holder: TicketHolder, standing: Standing): void {
    if (standing !== 'stands') held.get(holder)?.accessEnded(standing)
  }

  function judgeFrame(holder: TicketHolder, frame: FrameStanding | undefined): void {
    const one = held.get(holder)
    if (holder.end_user && one && !one.isConversation) one.frameJudged?.(frame)
  }

  /** Only what frames' keys are worth. */
  async function judgeFrames(organizationId: string, all: readonly TicketHolder[]): Promise<void> {
    const batch = all.filter(({ end_user }) => end_user !== undefined)
    if (batch.length === 0) return
    try {
      const frames = await service.database.asOrg(organizationId, (sql) =>
        findFrameStandings(sql, service.config, batch),
      )
      for (const [index, holder] of batch.entries()) judgeFrame(holder, frames[index])
    } catch (error) {
      log.warn({ err: error }, 'Could not recheck the frames of an organization; retrying in the next round')
    }
  }

  const judgeAll = (topic: string, standing: Standing) => {
    for (const holder of holders.of(topic)) judge(holder, standing)
  }

  function recheckAll(all: Iterable<TicketHolder>): void {
    for (const batch of batchesOf(all, recheckBatch)) void recheckTogether(batch)
  }

  /** The change may concern only some of them. Pages get a new ticket, if they may stay; conversations can't. */
  function termsChanged(topic: string): void {
    const isConversation = (holder: TicketHolder) => held.get(holder)?.isConversation === true
    const { true: conversations = [], false: pages = [] } = Object.groupBy(holders.of(topic), (holder) =>
      isConversation(holder) ? 'true' : 'false',
    )
    for (const holder of pages) judge(holder, 'terms_changed')
    recheckAll(conversations)
  }

  async function keyChanged(topic: string): Promise<void> {
    const [holder] = holders.of(topic)
    if (!holder) return
    const [standing] = await checkStanding(service, holder.organization_id, [{ ...holder, end_user: undefined }])
    if (standing === 'key_revoked') judgeAll(topic, standing)
    else termsChanged(topic)
  }

  const stop = changes.watch({
    changed(topic) {
      changeCount += 1
      const [kind, id] = parseTopic(topic)
      if (kind === 'key')
        keyChanged(topic).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed key; asking its pages for new tickets')
          termsChanged(topic)
        })
      else if (kind === 'end-user')
        // The tickets of one end user can have different verified addresses.
        judgeTogether(holders.of(topic)).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed end user; ending their sessions')
          judgeAll(topic, 'user_removed')
        })
      else if (kind === 'user' || kind === 'agent-settings') recheckAll(holders.of(topic))
      else if (kind === 'grant' || kind === 'session') judgeAll(topic, 'member_left')
      else if (kind === 'identity-provider') {
        termsChanged(topic)
        // Confirmations of another provider's users are void at once, and not only with the next ticket.
        void judgeFrames(id, [...holders.of(topic)])
      }
      // Also checks whether they still stand, because a revoked key changes the sites too, and its pages must hear of that.
      else if (kind === 'frames') recheckAll(holders.of(topic))
    },
    missed() {
      changeCount += 1
      recheck()
    },
  })

  return {
    hold(holder, one) {
      if (!held.has(holder)) holders.add(holder, topicsOf(holder, one))
      held.set(holder, one)
    },
    release(holder, one) {
      if (held.get(holder) !== one) return
      held.delete(holder)
      holders.delete(holder, topicsOf(holder, one))
    },
    changeCount: () => changeCount,
    recheckIfDue(now) {
      if (now - recheckedAt >= recheckMs) recheck()
    },
    close: stop,
  }
}

function topicsOf(
  { organization_id, publishable_key_id, end_user }: TicketHolder,
  { isConversation }: Held | HeldConversation,
): string[] {
  const found: string[] = [topics.key(publishable_key_id), topics.identityProvider(organization_id)]
  if (!end_user) return isConversation ? [...found, topics.agentSettings(organization_id)] : found
  const { id, previewer } = end_user
  found.push(topics.endUser(id))
  if (!isConversation) found.push(topics.frames(organization_id))
  if (!previewer) return found
  found.push(topics.user(previewer.user_id))
  if (previewer.grant_id) found.push(topics.grant(previewer.grant_id))
  if (previewer.sign_in) found.push(topics.session(previewer.sign_in.session))
  return found
}

/** Tells the user why they can't go on. */
export function explainEndOfAccess(why: EndOfConversation): string {
  if (why === 'visitors_refused') return 'Sign in to talk to the assistant.'
  return why === 'user_removed' || why === 'user_deactivated'
    ? 'Your access has ended: your organization has deactivated or deleted your account.'
    : 'Your access has ended or expired. Sign in again, then continue.'
}

/** Each batch belongs to one organization. */
function batchesOf(all: Iterable<TicketHolder>, size: number): TicketHolder[][] {
  const batches: TicketHolder[][] = []
  const open = new Map<string, TicketHolder[]>()
  for (const holder of all) {
    let batch = open.get(holder.organization_id)
    if (!batch || batch.length === size) {
      batch = []
      open.set(holder.organization_id, batch)
      batches.push(batch)
    }
    batch.push(holder)
  }
  return batches
}
