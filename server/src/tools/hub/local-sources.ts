import type { Owner } from '../../kernel/foundation/tool-user.ts'
import type {
  Asker,
  CallFailure,
  CallOrder,
  Claim,
  FoundSource,
  Handover,
  KeptTool,
  PageFrame,
  Sight,
  SourceDescription,
  Wanted,
} from './messages.ts'

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

/** The pages that are connected to this node. */
export interface LocalSources {
  readonly size: number
  get(sourceId: string): LocalSource | undefined
  of(owner: Owner): Iterable<LocalSource>
  count(organizationId: string): number
  /** `node` is this node. */
  find(node: string, owner: Owner, wanted: Wanted): FoundSource[]
  add(source: LocalSource): void
  /** Returns false if it wasn't there. */
  remove(source: LocalSource): boolean
  /** Passes a call on to the page. Returns why that isn't possible. */
  deliver(sourceId: string, owner: Owner, order: CallOrder, replyTo: string): CallFailure | undefined
}

export function createLocalSources(): LocalSources {
  const sources = new Map<string, LocalSource>()
  const byOwner = new Map<string, Set<LocalSource>>()
  /** Number of sources per organization, so that counting them costs the same for any number. */
  const byOrganization = new Map<string, number>()

  const ofOwner = (owner: Owner) => byOwner.get(ownerKey(owner)) ?? new Set<LocalSource>()

  const count = (organizationId: string) => byOrganization.get(organizationId) ?? 0

  function changeCount({ organization_id }: Owner, change: 1 | -1): void {
    const next = count(organization_id) + change
    if (next > 0) byOrganization.set(organization_id, next)
    else byOrganization.delete(organization_id)
  }

  return {
    get size() {
      return sources.size
    },
    get: (sourceId) => sources.get(sourceId),
    of: ofOwner,
    count,

    find(node, owner, wanted) {
      const found: FoundSource[] = []
      for (const source of ofOwner(owner)) {
        if (!isWanted(source, wanted)) continue
        found.push({
          node,
          source: source.describe(),
          sight: source.sight(),
          frame: source.frame(),
          tools: wantedTools(source, wanted),
          ...(isQuestion(wanted) && { asker: source.asker(wanted.question) }),
        })
      }
      return found
    },

    add(source) {
      if (!sources.has(source.id)) changeCount(source.owner, 1)
      sources.set(source.id, source)
      byOwner.set(ownerKey(source.owner), ofOwner(source.owner).add(source))
    },

    remove(source) {
      if (!sources.delete(source.id)) return false
      changeCount(source.owner, -1)
      const rest = ofOwner(source.owner)
      rest.delete(source)
      if (rest.size === 0) byOwner.delete(ownerKey(source.owner))
      return true
    },

    deliver(sourceId, owner, order, replyTo) {
      const source = sources.get(sourceId)
      if (!source || ownerKey(source.owner) !== ownerKey(owner)) return 'SOURCE_GONE'
      if (order.question && !source.asker(order.question.key)) return 'SOURCE_GONE'
      if (!order.question && !hasTool(source, order)) return 'TOOL_CHANGED'
      return source.call(order, replyTo) ? undefined : 'SOURCE_BUSY'
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
