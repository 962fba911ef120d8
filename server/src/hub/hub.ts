import type { z } from 'zod'
import type { OrgCaller } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import type { Relayed, ToolCall } from '../foundation/tool.ts'
import { failure, notFound } from '../lib/errors.ts'
import type { ConnectorTool, RemoteTool, RemoteTools } from '../remote-tools/remote-tools.ts'
import { type FoundSource, type Owner, type PageResponse, topics } from '../stores/bus-messages.ts'
import { describeAnswer, type ToolCallRecorder } from '../tool-calls/recorder.ts'
import type { PageTool } from '../untrusted/definitions.ts'
import { readPageResponse } from '../untrusted/results.ts'
import { askUser } from './approvals.ts'
import type * as contract from './contract.ts'
import { createGovernor } from './governor.ts'
import { unpack } from './kept-definitions.ts'
import { callFailure, createSwitchboard, type Switchboard } from './switchboard.ts'

/** Key in a result's `_meta` that names the page or connector the result comes from. */
const sourceKey = 'inlay/source'

type HubSource = z.input<typeof contract.HubSource>
type HubTool = z.input<typeof contract.HubTool>

/** Gives callers the tools of their own open pages and of their organization's connectors. */
export interface Hub {
  listSources(caller: OrgCaller): Promise<HubSource[]>
  listTools(
    caller: OrgCaller,
    filter: { search?: string | undefined; source_id?: string | undefined; include_sources: boolean },
  ): Promise<HubTool[]>
  /** Resolves even if the tool itself failed; throws a Failure if the tool returned no result. */
  callTool(
    caller: OrgCaller,
    wanted: { tool_name: string; args: Record<string, unknown>; source_id?: string | undefined },
    call: ToolCall,
  ): Promise<Relayed>
  switchboard: Switchboard
  /** Names that pages can't use for their tools. */
  builtInNames: ReadonlySet<string>
  close(): Promise<void>
}

export async function createHub(
  service: Service,
  builtInNames: ReadonlySet<string>,
  remoteTools: RemoteTools,
  toolCalls: ToolCallRecorder,
): Promise<Hub> {
  const switchboard = await createSwitchboard(service)
  const govern = createGovernor(service)

  const endWatch = endCallsWithAccess(service, switchboard)

  return {
    switchboard,
    builtInNames,
    listSources: async (caller) =>
      (await switchboard.find(ownerOfCaller(caller), 'sources')).map(({ source }) => source),

    async listTools(caller, { search = '', source_id, include_sources }) {
      const wanted = search.toLowerCase()
      const matches = ({ name, description }: PageTool) => `${name}\n${description}`.toLowerCase().includes(wanted)
      const show = ({ tool: { hash, bytes, ...shown }, sources }: OfferedTool) => ({
        ...shown,
        ...(include_sources && { sources }),
      })
      const asked = source_id === undefined ? remoteTools.list(caller) : undefined
      const found = onlyOf(await switchboard.find(ownerOfCaller(caller), 'tools'), source_id)
      const remote = (await asked) ?? { tools: [], isRemote: () => false }
      const paged = groupTools(found).filter(({ tool }) => matches(tool) && !remote.isRemote(tool.name))
      return [...paged, ...remote.tools.filter(matches).map((tool) => ({ tool, sources: [] }))].map(show)
    },

    callTool: (caller, { tool_name, args, source_id }, call) =>
      toolCalls.follow(caller, { tool_name, args }, async (record) => {
        // Checked first, so that a call that is already cancelled doesn't wait for anything.
        if (call.signal.aborted) throw callFailure('CALL_CANCELLED')
        // Connectors come first, so that a page can't shadow a connector's tool.
        const remote = source_id === undefined ? await remoteTools.find(caller, tool_name) : undefined
        const tool = remote
          ? askBeforeChanges(service, switchboard, caller, remote)
          : await findPageTool(service, switchboard, caller, tool_name, source_id)
        record.source_type = remote ? 'connector' : 'page'
        record.source = remote ? tool.source.title : tool.source.origin
        record.definition_hash = tool.definitionHash
        const context = {
          mcp_call_id: record.id,
          organization_id: caller.organization.id,
          caller_identity: caller.user.email,
          source: tool.source,
          tool: tool_name,
        }
        record.governance = await govern({ phase: 'request', context: { ...context, arguments: args } })
        const { relayed, approval, definitionHash } = await tool.call(args, call, record.id)
        if (definitionHash) record.definition_hash = definitionHash
        describeAnswer(record, relayed, approval)
        await govern({ phase: 'response', context: { ...context, result: relayed } })
        return { ...relayed, _meta: { [sourceKey]: { kind: remote ? 'connector' : 'page', ...tool.source } } }
      }),

    async close() {
      endWatch()
      await switchboard.close()
      await remoteTools.close()
    },
  }
}

/** Cancels calls to pages when the caller's token is revoked or the caller is no longer a member. */
function endCallsWithAccess({ changes, database, log }: Service, switchboard: Switchboard): () => void {
  const reason = 'The caller’s access has ended'

  async function isMember({ user, organization, token: { sign_in } }: OrgCaller): Promise<boolean> {
    const [member] = await database.asUser(
      user.id,
      (sql) => sql<{ session_generation: number }>`
        select u.session_generation from members m join users u on u.id = m.user_id
        where m.user_id = ${user.id} and m.organization_id = ${organization.id}`,
    )
    return member !== undefined && (!sign_in || sign_in.generation === member.session_generation)
  }

  const recheck = (call: { caller: OrgCaller; cancel(reason: string): void }) =>
    isMember(call.caller)
      .then((isStill) => !isStill && call.cancel(reason))
      .catch((error) => log.warn({ err: error }, 'Could not recheck the caller of a tool call'))

  return changes.watch({
    changed(topic) {
      for (const call of switchboard.running()) {
        const { user, token } = call.caller
        if (topic === topics.user(user.id)) void recheck(call)
        else if (endsToken(token, topic)) call.cancel(reason)
      }
    },
    missed() {
      for (const call of switchboard.running()) void recheck(call)
    },
  })
}

const endsToken = ({ id, grant_id, sign_in }: OrgCaller['token'], topic: string): boolean =>
  topic === topics.token(id) ||
  (grant_id !== undefined && topic === topics.grant(grant_id)) ||
  (sign_in !== undefined && topic === topics.session(sign_in.session))

/** Pages ask about their own tools. For a connector's tool that may change something, the hub asks in an open page. */
const askBeforeChanges = (
  service: Service,
  switchboard: Switchboard,
  caller: OrgCaller,
  tool: ConnectorTool,
): RemoteTool => ({
  source: tool.source,
  definitionHash: tool.definitionHash,
  call: (args, call, callId) =>
    tool.share(async () => {
      const definition = await tool.findWriting()
      if (!definition) return tool.call(args, call, callId)
      const { source, name } = tool
      const connector = { name: source.title, origin: source.origin }
      const approval = { callId, toolName: name, tool: definition, connector, args }
      const answer = await askUser(service, switchboard, { caller, owner: ownerOfCaller(caller) }, approval, call)
      const asked = { approval: readApproval(answer), definitionHash: definition.hash }
      if ('error' in answer) return { relayed: readPageResponse(answer), ...asked }
      return { ...(await tool.call(args, call, callId)), ...asked }
    }),
})

/** Older widgets decline without `approval.how`. */
const readApproval = (answer: PageResponse): PageResponse['approval'] =>
  'error' in answer && answer.error.code === 'declined' ? { ...answer.approval, how: 'declined' } : answer.approval

/** Finds the open page that a call is for, and the tool in it. */
async function findPageTool(
  { clock }: Service,
  switchboard: Switchboard,
  caller: OrgCaller,
  toolName: string,
  sourceId: string | undefined,
): Promise<RemoteTool> {
  const owner = ownerOfCaller(caller)
  const found = await switchboard.find(owner, { toolName, sourceId })
  if (sourceId === undefined && found.length === 0) {
    const open = await switchboard.find(owner, 'sources')
    throw notFound('hub_tool', toolName, adviseOnMissingTool(caller, open.length))
  }
  const { target, tool } = chooseSource(found, toolName, sourceId, clock())
  const { tabId, origin, url, title } = target.source
  return {
    source: { tabId, origin, url, title },
    definitionHash: tool.hash,
    async call(args, call, callId) {
      const { client_name } = caller.token
      const order = {
        call_id: callId,
        name: tool.name,
        args,
        definition_hash: tool.hash,
        ...(client_name && { client_name }),
      }
      const answer = await switchboard.call(target, { caller, owner }, order, call)
      return { relayed: readPageResponse(answer), approval: readApproval(answer) }
    },
  }
}

function adviseOnMissingTool({ user, email_verified }: OrgCaller, openPages: number): string {
  if (!email_verified)
    return 'The user’s email address is not verified, so none of their open pages can be matched with them. Ask the user to verify it where they sign in.'
  if (openPages === 0)
    return `No page is open. Ask the user to open a page that has the Inlay widget, to sign in there as ${user.email}, and to leave the page open. Then call the tool again.`
  const pages =
    openPages === 1 ? 'The user’s open page doesn’t offer' : `None of the user’s ${openPages} open pages offer`
  return `${pages} this tool. List the tools that can be called now with hub_list_tools.`
}

/**
 * A verified email address identifies the same user in the dashboard and in the organization's pages. End users without
 * one are identified by their end user ID, and visitors by their session.
 */
export function ownerOf(
  organizationId: string,
  who: { verified_email?: string | undefined; end_user_id?: string | undefined; session: string },
): Owner {
  const { verified_email, end_user_id, session } = who
  if (verified_email) return byEmail(organizationId, verified_email)
  return { organization_id: organizationId, identity: end_user_id ? `user:${end_user_id}` : `session:${session}` }
}

/** A caller whose email address isn't verified owns no pages. */
const ownerOfCaller = ({ organization, user, email_verified }: OrgCaller): Owner =>
  email_verified
    ? byEmail(organization.id, user.email)
    : { organization_id: organization.id, identity: `member:${user.id}` }

const byEmail = (organizationId: string, email: string): Owner => ({
  organization_id: organizationId,
  identity: `email:${email.toLowerCase()}`,
})

function onlyOf(found: FoundSource[], sourceId: string | undefined): FoundSource[] {
  if (sourceId === undefined) return found
  const only = found.filter(({ source }) => source.sourceId === sourceId)
  if (only.length === 0)
    throw notFound(
      'hub_source',
      sourceId,
      'No open page has this source_id. The user may have closed or reloaded the page. List the open pages with hub_list_sources.',
    )
  return only
}

interface OfferedTool {
  tool: PageTool
  sources: HubSource[]
}

/** Lists a tool once if several pages define it identically. Different tools that share a name stay separate. */
function groupTools(found: FoundSource[]): OfferedTool[] {
  const groups = new Map<string, OfferedTool>()
  for (const { source, tools } of found) {
    for (const kept of tools) {
      const key = `${kept.hash} ${kept.name}`
      const group = groups.get(key) ?? { tool: unpack(kept), sources: [] }
      group.sources.push(source)
      groups.set(key, group)
    }
  }
  return [...groups.values()]
}

function chooseSource(found: FoundSource[], toolName: string, sourceId: string | undefined, now: number) {
  const holders = onlyOf(found, sourceId).flatMap((target) => target.tools.map((tool) => ({ target, tool })))
  const [first, ...others] = holders
  if (!first)
    throw notFound(
      'hub_tool',
      toolName,
      'This page has no tool with that name. List its tools with hub_list_tools and this source_id.',
    )
  if (others.length > 0)
    throw ambiguous(
      toolName,
      holders.map(({ target }) => target),
      now,
    )
  return first
}

const ambiguous = (toolName: string, found: FoundSource[], now: number) =>
  failure(
    409,
    'AMBIGUOUS_TOOL',
    `Several open pages offer "${toolName}". Choose one with source_id: ${found
      .map((page) => describePage(page, now))
      .join('; ')}`,
    {
      data: {
        sources: found.map(({ source, sight: { inFront, lastInFrontAt } = {} }) => ({
          ...source,
          ...(inFront !== undefined && { inFront }),
          ...(lastInFrontAt !== undefined && { lastInFrontAt: new Date(lastInFrontAt).toISOString() }),
        })),
      },
    },
  )

/** Tabs of one shop often share a title, so this also states which tab is, or was last, in front. */
function describePage({ source, sight: { inFront, lastInFrontAt } = {} }: FoundSource, now: number): string {
  const { sourceId, title, origin, connectedAt } = source
  const opened = `opened ${ageOf(now - Date.parse(connectedAt))}`
  const place = inFront === undefined ? [] : [inFront ? 'in front' : 'in the background']
  const seen = !inFront && lastInFrontAt !== undefined ? [`last in front ${ageOf(now - lastInFrontAt)}`] : []
  // Sources outside a browser have no origin.
  const words = [title || 'untitled', origin, ...place, ...seen, opened].filter(Boolean)
  return `${sourceId} (${words.join(', ')})`
}

const ages = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

function ageOf(ms: number): string {
  const [unit, size] = ages.find(([, length]) => ms >= length) ?? ['second', 1_000]
  return new Intl.RelativeTimeFormat('en').format(-Math.max(0, Math.floor(ms / size)), unit)
}

export async function listSources(
  { hub }: { hub: Hub },
  caller: OrgCaller,
): Promise<Output<typeof contract.listSources>> {
  const sources = await hub.listSources(caller)
  return { count: sources.length, sources }
}

export async function listTools(
  { hub }: { hub: Hub },
  caller: OrgCaller,
  { include_sources, ...filter }: Input<typeof contract.listTools>,
): Promise<Output<typeof contract.listTools>> {
  const tools = await hub.listTools(caller, { ...filter, include_sources: include_sources === 'true' })
  return { count: tools.length, tools }
}
