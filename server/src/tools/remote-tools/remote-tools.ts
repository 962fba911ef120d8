import { setTimeout as delay } from 'node:timers/promises'
import { type Approval, callDeadlineMs, longestCallMs, maxTitleLength, ToolDefinition } from '@inlay/protocol'
import { type Progress, ProtocolError } from '@modelcontextprotocol/client'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Relayed, ToolCall } from '../../kernel/foundation/tool.ts'
import type { ToolUser } from '../../kernel/foundation/tool-user.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { OverLimit, onlyReads, type PageTool, readDefinitions } from '../../kernel/untrusted/definitions.ts'
import { cleanLine } from '../../kernel/untrusted/page-text.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import { readPageResponse } from '../../kernel/untrusted/results.ts'
import type { StoredConnector } from '../connectors/connectors.ts'
import { ConsentNeeded, keepFailure, StepFailed } from '../connectors/steps.ts'
import { consentKey } from '../consent/consent.ts'
import { createAccessTokens } from './connector-tokens.ts'
import { type Delegate, readSetup, requireDelegate, type Setup } from './delegates.ts'
import { answerWithinMs, createRemoteClients, listRemoteTools } from './remote-clients.ts'

/** The tools of an organization's connectors, named `<connector>.<tool>` and called on behalf of the user. */
export interface RemoteTools {
  /**
   * All active connectors. Those that fail have no tools, and the failure is recorded for the administrator. None has
   * tools without a held identity.
   */
  list(user: ToolUser): Promise<ListedConnector[]>
  /** Undefined if no connector has this name. */
  find(user: ToolUser, toolName: string): Promise<ConnectorTool | undefined>
  close(): Promise<void>
}

export interface ListedConnector {
  id: string
  name: string
  origin: string
  /** Names of tools that an administrator marked as read-only, without the connector's name. */
  readOnlyTools: readonly string[]
  /** Whether the user has connected their account, if the server needs that. `none` also if the server fails. */
  consent: 'given' | 'needed' | 'none'
  tools: PageTool[]
}

export const isToolOf = ({ name }: Pick<ListedConnector, 'name'>, toolName: string): boolean =>
  toolName.startsWith(`${name}.`)

export interface RemoteTool {
  /** Sent to the governance provider, recorded, and returned in the result's `_meta`. */
  source: { tabId: string; origin: string; url: string; title: string }
  /** Null if the definition isn't known before the call. */
  definitionHash: string | null
  /** Resolves even if the tool failed or the user declined; throws a Failure if there is no result. */
  call(
    args: Record<string, unknown>,
    call: ToolCall,
    callId: string,
  ): Promise<{ relayed: Relayed; approval: Approval | undefined; definitionHash?: string }>
}

export interface ConnectorTool extends RemoteTool {
  /** `<connector>.<tool>`. */
  name: string
  /** The server's current definition. */
  findDefinition(): Promise<PageTool>
  /** The definition if the tool may change something; undefined if it only reads. */
  findWriting(): Promise<PageTool | undefined>
  /** The requests of `work` share one access token, even one that is too short-lived to cache. */
  share<T>(work: () => Promise<T>): Promise<T>
}

const cachedOrganizations = 1_000
/** Cached sets of read-only tools, one per user and connector, with at most 512 names each. */
const cachedReaders = 1_000

export function createRemoteTools(service: Service, builtInNames: ReadonlySet<string>): RemoteTools {
  const { changes, clock } = service
  const clients = createRemoteClients(service, createAccessTokens(service))
  const setups = new FreshCache<Setup>({
    changes,
    clock,
    limit: cachedOrganizations,
    topicsOf: ({ organizationId }) => [topics.connectors(organizationId), topics.identityProvider(organizationId)],
  })

  /** Names of the tools that only read, according to the server's annotations. */
  const readers = new FreshCache<{ organizationId: string; names: ReadonlySet<string> }>({
    changes,
    clock,
    limit: cachedReaders,
    topicsOf: ({ organizationId }) => [topics.connectors(organizationId), topics.identityProvider(organizationId)],
  })

  const setupOf = async (organizationId: string): Promise<Setup> =>
    setups.get(organizationId) ??
    ((await setups.load(organizationId, () => readSetup(service, organizationId))) as Setup)

  /** Records a failed step for the administrator and returns the error for the caller. */
  function report({ organizationId, member }: ToolUser, { id, name }: StoredConnector, error: unknown): unknown {
    if (!(error instanceof StepFailed)) return error
    const told = keepFailure(service, organizationId, name, error)
    // The agent gives its user a link.
    if (error instanceof ConsentNeeded && !member)
      return failure(502, 'CONSENT_NEEDED', told, { data: { connector: name, connector_id: id }, cause: error })
    const data = { connector: name, step: error.step }
    return failure(502, 'DELEGATION_FAILED', told, { data, cause: error })
  }

  async function listOf(delegate: Delegate): Promise<PageTool[]> {
    try {
      return await clients.use('tools_list', delegate, async (client) => {
        const { tools } = await listRemoteTools(client)
        return readTools(tools, delegate.connector.name, builtInNames)
      })
    } catch (error) {
      throw error instanceof ProtocolError ? new StepFailed('tools_list', refused(error)) : error
    }
  }

  /** Uses the cache only for tools that only read. For others, the user sees the server's current definition. */
  async function findWritingOf(delegate: Delegate, toolName: string): Promise<PageTool | undefined> {
    const { organizationId } = delegate
    let listed: PageTool[] | undefined
    const known = await readers.load(consentKey(delegate), async () => {
      listed = await inTime(listOf(delegate))
      return { organizationId, names: new Set(listed.filter(onlyReads).map(({ name }) => name)) }
    })
    if (known?.names.has(toolName)) return undefined
    const tool = findIn(listed ?? (await inTime(listOf(delegate))), toolName)
    return onlyReads(tool) ? undefined : tool
  }

  async function callOf(delegate: Delegate, name: string, args: Record<string, unknown>, call: ToolCall) {
    const { signal } = call
    try {
      const params = { name, arguments: args }
      const options = {
        signal,
        onprogress: (progress: Progress) => call.progress(readProgress(progress)),
        // The fetch times out slightly earlier, with a more specific error.
        timeout: callDeadlineMs + answerWithinMs,
        resetTimeoutOnProgress: true,
        maxTotalTimeout: longestCallMs + answerWithinMs,
      }
      return { result: await clients.use('tools_call', delegate, (client) => client.callTool(params, options)) }
    } catch (error) {
      if (signal.aborted) throw failure(499, 'CALL_CANCELLED', 'The call was cancelled.')
      if (error instanceof ProtocolError) return { error: { code: 'failed' as const, message: refused(error) } }
      throw error
    }
  }

  async function listFor(
    user: ToolUser,
    setup: Setup,
    connector: StoredConnector,
  ): Promise<Pick<ListedConnector, 'consent' | 'tools'>> {
    try {
      const tools = await inTime(listOf(await requireDelegate(service, user, setup, connector)))
      return { consent: connector.kind === 'oauth' ? 'given' : 'none', tools }
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error
      // A user who hasn't connected yet isn't a failure, so lists don't report it.
      if (error.step !== 'identity' && error.step !== 'consent') report(user, connector, error)
      return { consent: error instanceof ConsentNeeded ? 'needed' : 'none', tools: [] }
    }
  }

  return {
    async list(user) {
      const setup = await setupOf(user.organizationId)
      const listing = setup.connectors.filter(isActive).map(async (connector) => ({
        id: connector.id,
        name: connector.name,
        origin: originOf(connector),
        readOnlyTools: connector.read_only_tools,
        ...(await listFor(user, setup, connector)),
      }))
      return Promise.all(listing)
    },

    async find(user, toolName) {
      // Without a dot, the name can only be that of a page's tool.
      if (!toolName.includes('.')) return undefined
      const { organizationId } = user
      const setup = await setupOf(organizationId)
      const connector = findConnector(setup, toolName)
      if (!connector) return undefined
      const { server_url, name, read_only_tools } = connector
      const ownName = toolName.slice(name.length + 1)
      // The steps of a call look the user up once, because each lookup is a round trip to the key-value store.
      let delegate: Promise<Delegate> | undefined
      const asUser = async <T>(work: (delegate: Delegate) => Promise<T>): Promise<T> => {
        try {
          delegate ??= requireDelegate(service, user, setup, connector)
          return await work(await delegate)
        } catch (error) {
          throw report(user, connector, error)
        }
      }
      return {
        name: toolName,
        source: { tabId: '', origin: originOf(connector), url: server_url, title: name },
        definitionHash: null,
        share: (work) => asUser((delegate) => clients.share(delegate, work)),
        findDefinition: () => asUser(async (delegate) => findIn(await inTime(listOf(delegate)), toolName)),
        async findWriting() {
          if (read_only_tools.includes(ownName)) return undefined
          const writing = await asUser((delegate) => findWritingOf(delegate, toolName))
          // The user's identity may expire while the user is asked, so the call looks it up again.
          if (writing) delegate = undefined
          return writing
        },
        call: (args, call) =>
          asUser(async (delegate) => {
            const answer: PageResponse = await callOf(delegate, ownName, args, call)
            return { relayed: readPageResponse(answer), approval: { how: 'not_needed' } }
          }),
      }
    },

    close: () => clients.close(),
  }
}

/** Limits the total time of all steps, because the lists of other servers wait for this one. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  const stop = new AbortController()
  const late = delay(answerWithinMs, undefined, { signal: stop.signal }).then(() => {
    throw new StepFailed('tools_list', 'The tool server did not list its tools in time')
  })
  try {
    return await Promise.race([work, late])
  } finally {
    // Prevents an unhandled rejection of the promise that settles later.
    Promise.allSettled([work, late])
    stop.abort()
  }
}

const isActive = ({ status }: StoredConnector) => status === 'active'

/** Connector names contain no dots. */
const findConnector = ({ connectors }: Setup, toolName: string): StoredConnector | undefined =>
  connectors.find((connector) => isActive(connector) && isToolOf(connector, toolName))

const originOf = ({ server_url }: StoredConnector): string => new URL(server_url).origin

function findIn(tools: readonly PageTool[], toolName: string): PageTool {
  const tool = tools.find(({ name }) => name === toolName)
  if (!tool) throw notFound('hub_tool', toolName)
  return tool
}

const refused = ({ message }: Error) => `The tool server returned an error: ${message}`

const readProgress = ({ progress, total, message }: Progress) => ({
  progress,
  ...(total !== undefined && { total }),
  ...(message !== undefined && { message: cleanLine(message, maxTitleLength) }),
})

/** Applies the same limits and cleaning as for pages. Tools whose prefixed name is too long are left out. */
function readTools(tools: readonly unknown[], namespace: string, builtInNames: ReadonlySet<string>): PageTool[] {
  const definitions = tools.flatMap((tool) => {
    const { name, ...rest } = tool as { name: string }
    const read = ToolDefinition.safeParse({ ...rest, name: `${namespace}.${name}` })
    return read.success ? [read.data] : []
  })
  try {
    return [...readDefinitions<PageTool>(definitions, builtInNames, (tool) => tool).tools.values()]
  } catch (error) {
    if (error instanceof OverLimit)
      throw new StepFailed('tools_list', `The tool server lists too much: ${error.message}`)
    throw error
  }
}
