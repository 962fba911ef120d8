import { setTimeout as delay } from 'node:timers/promises'
import { type Approval, callDeadlineMs, longestCallMs, maxTitleLength, ToolDefinition } from '@inlay/protocol'
import { type Progress, ProtocolError } from '@modelcontextprotocol/client'
import type { StoredConnector } from '../connectors/connectors.ts'
import { keepFailure, StepFailed } from '../connectors/steps.ts'
import { consentKey } from '../consent/consent.ts'
import type { OrgCaller } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import type { Relayed, ToolCall } from '../foundation/tool.ts'
import { failure, notFound } from '../lib/errors.ts'
import { topics } from '../stores/changes.ts'
import { FreshCache } from '../stores/fresh-cache.ts'
import { addDefinitions, OverLimit, onlyReads, type PageTool } from '../untrusted/definitions.ts'
import { cleanLine } from '../untrusted/page-text.ts'
import { type PageAnswer, readAnswer } from '../untrusted/results.ts'
import { createAccessTokens } from './connector-tokens.ts'
import { type Delegate, readSetup, requireDelegate, type Setup } from './delegates.ts'
import { answerWithinMs, createRemoteClients, listRemoteTools } from './remote-clients.ts'

/** The tools of an organization's connectors, called as the person who asks. They are named `<connector>.<tool>`. */
export interface RemoteTools {
  /** No tools for whom no identity is held. A server that cannot be asked is left out, and the administrator told. */
  list(caller: OrgCaller): Promise<{ tools: PageTool[]; isRemote(toolName: string): boolean }>
  /** Undefined when the name is that of no connector's tool. */
  find(caller: OrgCaller, toolName: string): Promise<ConnectorTool | undefined>
  close(): Promise<void>
}

export interface RemoteTool {
  /** For whoever decides on calls. */
  source: { tabId: string; origin: string; url: string; title: string }
  /** Null if the definition isn't known when the tool is called. */
  definitionHash: string | null
  /** Resolves also when the tool itself failed, or the user declined; throws a Failure when there is no response. */
  call(
    args: Record<string, unknown>,
    call: ToolCall,
    callId: string,
  ): Promise<{ relayed: Relayed; approval: Approval | undefined; definitionHash?: string }>
}

export interface ConnectorTool extends RemoteTool {
  /** With its connector's. */
  name: string
  /** The definition of a tool that may change something; undefined for one that only reads. */
  findWriting(): Promise<PageTool | undefined>
  /** The requests of `work` share one access token, even one that is too short-lived to cache. */
  share<T>(work: () => Promise<T>): Promise<T>
}

const cachedOrganizations = 1_000
/** Users at connectors whose read-only tools are cached; at most 512 names each. */
const cachedReaders = 1_000

export function createRemoteTools(service: Service, builtInNames: ReadonlySet<string>): RemoteTools {
  const { activity, changes, clock } = service
  const clients = createRemoteClients(service, createAccessTokens(service))
  const setups = new FreshCache<Setup>({
    changes,
    clock,
    limit: cachedOrganizations,
    topicsOf: ({ organizationId }) => [topics.connectors(organizationId), topics.provider(organizationId)],
  })

  /** The names of the tools that only read, by the server's own annotations. */
  const readers = new FreshCache<{ organizationId: string; names: ReadonlySet<string> }>({
    changes,
    clock,
    limit: cachedReaders,
    topicsOf: ({ organizationId }) => [topics.connectors(organizationId), topics.provider(organizationId)],
  })

  const setupOf = async (organizationId: string): Promise<Setup> =>
    setups.get(organizationId) ??
    ((await setups.load(organizationId, () => readSetup(service, organizationId))) as Setup)

  /** Tells the administrator, and gives back what the caller is told. */
  function report(organizationId: string, connector: StoredConnector, error: unknown): unknown {
    if (!(error instanceof StepFailed)) return error
    const told = keepFailure(activity, organizationId, connector.name, error)
    const data = { connector: connector.name, step: error.step }
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

  /** Tools that only read cost no list most of the time. About any other the user is told what the server says now. */
  async function findWritingOf(delegate: Delegate, toolName: string): Promise<PageTool | undefined> {
    const { organizationId } = delegate
    let listed: PageTool[] | undefined
    const known = await readers.load(consentKey(delegate), async () => {
      listed = await inTime(listOf(delegate))
      return { organizationId, names: new Set(listed.filter(onlyReads).map(({ name }) => name)) }
    })
    if (known?.names.has(toolName)) return undefined
    listed ??= await inTime(listOf(delegate))
    const tool = listed.find(({ name }) => name === toolName)
    if (!tool) throw notFound('hub_tool', toolName)
    return onlyReads(tool) ? undefined : tool
  }

  async function callOf(delegate: Delegate, name: string, args: Record<string, unknown>, call: ToolCall) {
    const { signal } = call
    try {
      const params = { name, arguments: args }
      const options = {
        signal,
        onprogress: (progress: Progress) => call.progress(readProgress(progress)),
        // The exchange itself ends a little earlier, and says more.
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

  async function listFor(caller: OrgCaller, setup: Setup, connector: StoredConnector): Promise<PageTool[]> {
    try {
      return await inTime(listOf(await requireDelegate(service, caller, setup, connector)))
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error
      // Whoever has not connected is not told of it with every list, nor is anybody else.
      if (error.step !== 'identity' && error.step !== 'consent') report(caller.organization.id, connector, error)
      return []
    }
  }

  return {
    async list(caller) {
      const setup = await setupOf(caller.organization.id)
      const isRemote = (toolName: string) => findConnector(setup, toolName) !== undefined
      const lists = setup.connectors.filter(isActive).map((connector) => listFor(caller, setup, connector))
      return { tools: (await Promise.all(lists)).flat(), isRemote }
    },

    async find(caller, toolName) {
      // Most names are those of pages' tools.
      if (!toolName.includes('.')) return undefined
      const organizationId = caller.organization.id
      const setup = await setupOf(organizationId)
      const connector = findConnector(setup, toolName)
      if (!connector) return undefined
      const { server_url, name, read_only_tools } = connector
      const ownName = toolName.slice(name.length + 1)
      // The steps of a call look the caller up once, because each lookup is a round trip to the key-value store.
      let delegate: Promise<Delegate> | undefined
      const asCaller = async <T>(work: (delegate: Delegate) => Promise<T>): Promise<T> => {
        try {
          delegate ??= requireDelegate(service, caller, setup, connector)
          return await work(await delegate)
        } catch (error) {
          throw report(organizationId, connector, error)
        }
      }
      return {
        name: toolName,
        source: { tabId: '', origin: new URL(server_url).origin, url: server_url, title: name },
        definitionHash: null,
        share: (work) => asCaller((delegate) => clients.share(delegate, work)),
        async findWriting() {
          if (read_only_tools.includes(ownName)) return undefined
          const writing = await asCaller((delegate) => findWritingOf(delegate, toolName))
          // The user is asked next. Until the call runs, the caller's identity may have ended.
          if (writing) delegate = undefined
          return writing
        },
        call: (args, call) =>
          asCaller(async (delegate) => {
            const answer: PageAnswer = await callOf(delegate, ownName, args, call)
            return { relayed: readAnswer(answer), approval: { how: 'not_needed' } }
          }),
      }
    },

    close: () => clients.close(),
  }
}

/** However many steps there are: the other tools are waited for too. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  const stop = new AbortController()
  const late = delay(answerWithinMs, undefined, { signal: stop.signal }).then(() => {
    throw new StepFailed('tools_list', 'The tool server did not list its tools in time')
  })
  try {
    return await Promise.race([work, late])
  } finally {
    // Whichever of the two fails later, nobody waits for it.
    Promise.allSettled([work, late])
    stop.abort()
  }
}

const isActive = ({ status }: StoredConnector) => status === 'active'

/** Names of connectors have no dot in them. */
const findConnector = ({ connectors }: Setup, toolName: string): StoredConnector | undefined =>
  connectors.find((connector) => isActive(connector) && toolName.startsWith(`${connector.name}.`))

const refused = ({ message }: Error) => `The tool server answers with an error: ${message}`

const readProgress = ({ progress, total, message }: Progress) => ({
  progress,
  ...(total !== undefined && { total }),
  ...(message !== undefined && { message: cleanLine(message, maxTitleLength) }),
})

/** The same limits and the same cleaning as for what pages say. A name that is too long with its connector's is left out. */
function readTools(tools: readonly unknown[], namespace: string, builtInNames: ReadonlySet<string>): PageTool[] {
  const definitions = tools.flatMap((tool) => {
    const { name, ...rest } = tool as { name: string }
    const read = ToolDefinition.safeParse({ ...rest, name: `${namespace}.${name}` })
    return read.success ? [read.data] : []
  })
  try {
    return [...addDefinitions<PageTool>(new Map(), definitions, builtInNames, (tool) => tool).tools.values()]
  } catch (error) {
    if (error instanceof OverLimit) throw new StepFailed('tools_list', `Too much to list: ${error.message}`)
    throw error
  }
}
