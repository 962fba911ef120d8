import { hash } from 'node:crypto'
import type { Service } from '../../kernel/foundation/service.ts'
import type { ToolUser } from '../../kernel/foundation/tool-user.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { onlyReads, sortMembers } from '../../kernel/untrusted/definitions.ts'
import type { Hub } from '../../tools/hub/hub.ts'
import { pack, unpack } from '../../tools/hub/kept-definitions.ts'
import type { FoundSource, KeptTool } from '../../tools/hub/messages.ts'
import { isToolOf, type ListedConnector, type RemoteTools } from '../../tools/remote-tools/remote-tools.ts'
import { findFrameStandings } from '../../visitors/tickets/frames.ts'
import type { Run, ToolRef } from '../runs/run.ts'
import { originOfRun } from './agent-user.ts'
import { policyFor, type ToolRules } from './approval-rules.ts'
import { type Account, describeAccountTools } from './built-in-tools.ts'
import { nameTools } from './model-names.ts'
import type { AgentTool } from './toolbox.ts'

export type Offering = Service & { hub: Hub; remoteTools: RemoteTools }

type Unnamed = Omit<AgentTool, 'name' | 'policy'>

/** A connector with its definitions as text, which takes less memory. */
type CachedConnector = Omit<ListedConnector, 'tools'> & { tools: KeptTool[] }

interface CachedList {
  user: ToolUser
  connectors: CachedConnector[]
}

/** Lists of connectors' tools, one per user. Without a cache, each step of a run would ask all servers. */
const cachedLists = 500
const maxCachedBytes = 128 * 1024

/** Finds what a run's user can use now. `reserved` are the names of built-in tools. */
export function createOfferedTools(
  { changes, clock, config, database, hub, remoteTools }: Offering,
  reserved: readonly string[],
) {
  const lists = new FreshCache<CachedList>({
    changes,
    clock,
    limit: cachedLists,
    topicsOf: ({ user: { organizationId, id } }) => [
      topics.connectors(organizationId),
      topics.identityProvider(organizationId),
      topics.endUser(id),
      topics.consents(id),
    ],
    isKept: ({ connectors }) =>
      connectors.flatMap(({ tools }) => tools).reduce((sum, { bytes }) => sum + bytes, 0) <= maxCachedBytes,
  })

  async function listConnectors(user: ToolUser): Promise<CachedConnector[]> {
    const found = await lists.load(`${user.organizationId} ${user.id}`, async () => {
      const listed = await remoteTools.list(user)
      return { user, connectors: listed.map((connector) => ({ ...connector, tools: connector.tools.map(pack) })) }
    })
    return found?.connectors ?? []
  }

  /**
   * A program with the user's ID token can open pages that claim any of the organization's origins. So pages of another
   * frame than the run's only take part if both frames are confirmed as the user's.
   */
  async function pagesOf(run: Run, sources: FoundSource[]): Promise<FoundSource[]> {
    const key = run.holder.frame_key ?? null
    const isSame = ({ frame }: FoundSource) => (frame?.key ?? null) === key
    if (sources.every(isSame)) return sources
    const [own] = await database.asOrg(run.organizationId, (sql) => findFrameStandings(sql, config, [run.holder]))
    if (own?.has_other_sites === false) return sources
    const isConfirmed = own?.is_confirmed || run.holder.end_user?.previewer !== undefined
    return sources.filter((source) => isSame(source) || (isConfirmed && source.frame?.isConfirmed))
  }

  /** Users return to the page's origin after they have connected an account, so there must be one. */
  const accountsOf = (run: Run, connectors: readonly CachedConnector[]): readonly Account[] =>
    originOfRun(run) === '' ? [] : connectors

  async function find(run: Run, user: ToolUser, rules: ToolRules): Promise<AgentTool[]> {
    const [connectors, all] = await Promise.all([listConnectors(user), hub.switchboard.find(user.owner, 'tools')])
    const sources = await pagesOf(run, all)
    const isRemote = (name: string) => connectors.some((connector) => isToolOf(connector, name))
    // The first tool keeps a name that several have, so a page can't take the name of a connector's tool.
    const tools = [
      ...describeAccountTools(accountsOf(run, connectors)),
      ...connectors.flatMap(describeConnector),
      ...describePages(run, sources).filter(({ ref }) => !isRemote(ref.name)),
      ...describeClient(run),
    ]
    return nameTools(tools, reserved).map((tool) => ({ ...tool, policy: policyFor(rules, tool.ref) }))
  }

  return {
    /** All tools of pages, connectors and clients, and those for the user's accounts. */
    find,
    pagesOf,
    accounts: async (run: Run, user: ToolUser) => [...accountsOf(run, await listConnectors(user))],
  }
}

function describeConnector({ name: connector, origin, readOnlyTools, tools }: CachedConnector): Unnamed[] {
  return tools.map((kept) => {
    const { name } = kept
    const isReadOnly = readOnlyTools.includes(name.slice(connector.length + 1))
    return describe(kept, { kind: 'connector', name, origin, connector }, isReadOnly)
  })
}

/** The run's own page comes first, then the page that the user saw last. Identical tools of an origin are listed once. */
function describePages({ page }: Run, sources: readonly FoundSource[]): Unnamed[] {
  const rank = ({ source, sight }: FoundSource) =>
    source.sourceId === page?.source_id ? Number.POSITIVE_INFINITY : (sight?.lastInFrontAt ?? 0)
  const tools = new Map<string, Unnamed>()
  for (const { source, tools: offered } of [...sources].sort((one, other) => compare(rank(other), rank(one)))) {
    const { origin, sourceId: source_id, title } = source
    for (const kept of offered) {
      const key = bindHash(kept.hash, origin)
      if (!tools.has(key)) tools.set(key, describe(kept, { kind: 'page', name: kept.name, origin, source_id, title }))
    }
  }
  return [...tools.values()]
}

/**
 * The client runs these tools, and decides when to ask its user. They stay the client's if the run is continued from a
 * page of another origin.
 */
function describeClient(run: Run): Unnamed[] {
  const origin = run.client?.origin ?? originOfRun(run)
  return (run.client?.tools ?? []).map((tool) => {
    const { name, description, inputSchema } = tool
    const definition = hash('sha256', JSON.stringify(sortMembers(tool)), 'base64url')
    return {
      title: undefined,
      description,
      inputSchema: asObject(inputSchema),
      ref: { kind: 'client', name, origin },
      definitionHash: bindHash(definition, origin),
      isWriting: false,
    }
  })
}

function describe(kept: KeptTool, ref: ToolRef & { origin: string }, isReadOnly = false): Unnamed {
  const tool = unpack(kept)
  return {
    title: tool.title ?? tool.annotations?.title,
    description: tool.description,
    inputSchema: asObject(tool.inputSchema),
    ref,
    definitionHash: bindHash(kept.hash, ref.origin),
    isWriting: !isReadOnly && !onlyReads(tool),
  }
}

/** Models only accept schemas of objects. */
const asObject = (schema: Record<string, unknown>): Record<string, unknown> => ({
  ...schema,
  type: 'object',
  properties: schema.properties ?? {},
})

/** Includes the origin, so that a permission for a tool isn't one for its copy elsewhere. */
const bindHash = (definition: string, origin: string): string => `${definition}@${origin}`

/** The hash that the hub compares; undefined if it's for a tool of another origin. */
export function unbindHash(definitionHash: string, origin: string): string | undefined {
  const [definition = ''] = definitionHash.split('@', 1)
  return bindHash(definition, origin) === definitionHash ? definition : undefined
}

const compare = (one: number, other: number): number => (one === other ? 0 : one < other ? -1 : 1)
