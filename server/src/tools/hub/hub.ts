import type { z } from 'zod'
import type { MemberCaller, OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Relayed, ToolCall } from '../../kernel/foundation/tool.ts'
import { memberAsToolUser, type ToolUser } from '../../kernel/foundation/tool-user.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type { PageTool } from '../../kernel/untrusted/definitions.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import { readPageResponse } from '../../kernel/untrusted/results.ts'
import { describeAnswer, type ToolCallRecorder } from '../call-records/recorder.ts'
import { type ConnectorTool, isToolOf, type RemoteTool, type RemoteTools } from '../remote-tools/remote-tools.ts'
import { askUser } from './ask-in-page.ts'
import type * as contract from './contract.ts'
import { createGovernor } from './governance-check.ts'
import { unpack } from './kept-definitions.ts'
import type { FoundSource, KeptTool } from './messages.ts'
import { callFailure, isCancelled } from './pending-calls.ts'
import { createSwitchboard, type Switchboard } from './switchboard.ts'

/** Key in a result's `_meta` that names the page or connector the result comes from. */
const sourceKey = 'inlay/source'

type HubSource = z.input<typeof contract.HubSource>
type HubTool = z.input<typeof contract.HubTool>

/** Gives users the tools of their own open pages and of their organization's connectors. */
export interface Hub {
  listSources(user: ToolUser): Promise<HubSource[]>
  listTools(
    user: ToolUser,
    filter: { search?: string | undefined; source_id?: string | undefined; include_sources: boolean },
  ): Promise<HubTool[]>
  /** Resolves even if the tool itself failed; throws a Failure if the tool returned no result. */
  callTool(user: ToolUser, wanted: WantedCall, call: ToolCall): Promise<Relayed>
  /** Reads the response of a page whose caller is gone. Governance judges it, and it's recorded, as in `callTool`. */
  readLateResponse(
    user: ToolUser,
    wanted: WantedCall & { approved: ApprovedCall },
    late: LateResponse,
    governed?: ToolCall['governed'],
  ): Promise<Relayed>
  switchboard: Switchboard
  /** Names that pages can't use for their tools. */
  builtInNames: ReadonlySet<string>
  close(): Promise<void>
}

interface WantedCall {
  tool_name: string
  args: Record<string, unknown>
  source_id?: string | undefined
  approved?: ApprovedCall | undefined
  /** Those of the user's pages that can be called. Without it, all. */
  pagesOf?(pages: FoundSource[]): Promise<FoundSource[]>
}

/** A response of a page to a call whose caller is gone. */
export interface LateResponse {
  source: RemoteTool['source']
  answer: PageResponse
}

/** For a call that was approved before it reached the hub: the user isn't asked again. */
interface ApprovedCall {
  /** ID of the call's record. The page and the governance provider get it too. */
  id: string
  approval: { id: string; how: 'not_needed' | 'allowed' | 'always_allowed' }
  /** What was approved: this definition, offered by this origin. The call fails if either has changed. */
  definition_hash: string
  origin: string
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
    listSources: async ({ owner }) => (await switchboard.find(owner, 'sources')).map(({ source }) => source),

    async listTools(user, { search = '', source_id, include_sources }) {
      const wanted = search.toLowerCase()
      const matches = ({ name, description }: PageTool) => `${name}\n${description}`.toLowerCase().includes(wanted)
      const show = ({ tool: { hash, bytes, ...shown }, sources }: OfferedTool) => ({
        ...shown,
        ...(include_sources && { sources }),
      })
      const asked = source_id === undefined ? remoteTools.list(user) : undefined
      const found = onlyOf(await switchboard.find(user.owner, 'tools'), source_id)
      const connectors = (await asked) ?? []
      const isRemote = (name: string) => connectors.some((connector) => isToolOf(connector, name))
      const paged = groupTools(found).filter(({ tool }) => matches(tool) && !isRemote(tool.name))
      const remote = connectors.flatMap(({ tools }) => tools.filter(matches)).map((tool) => ({ tool, sources: [] }))
      return [...paged, ...remote].map(show)
    },

    callTool(user, wanted, call) {
      const { tool_name, args, source_id, approved } = wanted
      const { governed } = call
      return toolCalls.follow(user, { tool_name, args, id: approved?.id, governed }, async (record) => {
        if (approved) record.approval = approved.approval.how
        // Checked first, so that a call that is already cancelled doesn't wait for anything.
        if (call.signal.aborted) throw callFailure('CALL_CANCELLED')
        // Connectors come first, so that a page can't shadow a connector's tool.
        const remote = source_id === undefined ? await remoteTools.find(user, tool_name) : undefined
        const tool = remote
          ? approved
            ? requireUnchanged(remote, approved)
            : askBeforeChanges(service, switchboard, user, remote)
          : await findPageTool(service, switchboard, user, wanted)
        record.source_type = remote ? 'connector' : 'page'
        record.source = remote ? tool.source.title : tool.source.origin
        record.definition_hash = tool.definitionHash
        const context = describeCall(user, record.id, tool_name, tool.source)
        record.governance = await govern({ phase: 'request', context: { ...context, arguments: args } })
        const { relayed, approval, definitionHash } = await tool.call(args, call, record.id)
        if (definitionHash) record.definition_hash = definitionHash
        describeAnswer(record, relayed, approval)
        await govern({ phase: 'response', context: { ...context, result: relayed } })
        return { ...relayed, _meta: { [sourceKey]: { kind: remote ? 'connector' : 'page', ...tool.source } } }
      })
    },

    readLateResponse(user, { tool_name, args, approved }, { source, answer }, governed) {
      return toolCalls.follow(user, { tool_name, args, id: approved.id, governed }, async (record) => {
        record.source_type = 'page'
        record.source = source.origin
        record.definition_hash = approved.definition_hash
        const relayed = readPageResponse(answer)
        describeAnswer(record, relayed, approved.approval)
        const context = describeCall(user, record.id, tool_name, source)
        record.governance = await govern({ phase: 'response', context: { ...context, result: relayed } })
        return { ...relayed, _meta: { [sourceKey]: { kind: 'page', ...source } } }
      })
    },

    async close() {
      endWatch()
      await switchboard.close()
      await remoteTools.close()
    },
  }
}

/** What the governance provider learns about every call. */
const describeCall = (user: ToolUser, callId: string, tool: string, source: RemoteTool['source']) => ({
  mcp_call_id: callId,
  organization_id: user.organizationId,
  caller_identity: user.email || user.id,
  source,
  tool,
})

/** Cancels a member's calls to pages when the member's token is revoked or the membership ends. */
function endCallsWithAccess({ changes, database, log }: Service, switchboard: Switchboard): () => void {
  const reason = 'The caller’s access has ended'

  async function isMember({ user, organization, token: { sign_in } }: MemberCaller): Promise<boolean> {
    const [member] = await database.asUser(
      user.id,
      (sql) => sql<{ session_generation: number }>`
        select u.session_generation from members m join users u on u.id = m.user_id
        where m.user_id = ${user.id} and m.organization_id = ${organization.id}`,
    )
    return member !== undefined && (!sign_in || sign_in.generation === member.session_generation)
  }

  const recheck = (member: MemberCaller, cancel: (reason: string) => void) =>
    isMember(member)
      .then((isStill) => !isStill && cancel(reason))
      .catch((error) => log.warn({ err: error }, 'Could not recheck the caller of a tool call'))

  return changes.watch({
    changed(topic) {
      for (const { user, cancel } of switchboard.running()) {
        const { member } = user
        if (!member) continue
        if (topic === topics.user(member.user.id)) void recheck(member, cancel)
        else if (endsToken(member.token, topic)) cancel(reason)
      }
    },
    missed() {
      for (const { user, cancel } of switchboard.running()) if (user.member) void recheck(user.member, cancel)
    },
  })
}

const endsToken = ({ id, grant_id, sign_in }: OrgCaller['token'], topic: string): boolean =>
  topic === topics.token(id) ||
  (grant_id !== undefined && topic === topics.grant(grant_id)) ||
  (sign_in !== undefined && topic === topics.session(sign_in.session))

/** Calls a connector's tool only if it's still what was approved. */
const requireUnchanged = (tool: ConnectorTool, { approval, definition_hash, origin }: ApprovedCall): RemoteTool => ({
  source: tool.source,
  definitionHash: definition_hash,
  call: (args, call, callId) =>
    tool.share(async () => {
      const { hash } = await tool.findDefinition()
      if (hash !== definition_hash || tool.source.origin !== origin) throw callFailure('TOOL_CHANGED')
      if (isCancelled(call)) throw callFailure('CALL_CANCELLED')
      const { relayed } = await tool.call(args, call, callId)
      return { relayed, approval }
    }),
})

/** Pages ask about their own tools. For a connector's tool that may change something, the hub asks in an open page. */
const askBeforeChanges = (
  service: Service,
  switchboard: Switchboard,
  user: ToolUser,
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
      const answer = await askUser(service, switchboard, user, approval, call)
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
  user: ToolUser,
  { tool_name: toolName, source_id, approved, pagesOf = async (pages) => pages }: WantedCall,
): Promise<RemoteTool> {
  const { owner, client_name } = user
  // An approved call may run in another page of the same origin, so it searches all of them.
  const sourceId = approved ? undefined : source_id
  const found = await pagesOf(await switchboard.find(owner, { toolName, sourceId }))
  if (!approved && sourceId === undefined && found.length === 0) {
    const open = await switchboard.find(owner, 'sources')
    throw notFound('hub_tool', toolName, adviseOnMissingTool(user, open.length))
  }
  const { target, tool } = approved
    ? chooseApproved(found, toolName, source_id, approved)
    : chooseSource(found, toolName, sourceId, clock())
  const { tabId, origin, url, title } = target.source
  return {
    source: { tabId, origin, url, title },
    definitionHash: tool.hash,
    async call(args, call, callId) {
      const order = {
        call_id: callId,
        name: tool.name,
        args,
        definition_hash: tool.hash,
        ...(client_name && { client_name }),
        ...(approved && { approval_id: approved.approval.id }),
      }
      const answer = await switchboard.call(target, user, order, call)
      const approval = readApproval(answer)
      // Older widgets don't know that the call is approved, and ask again.
      const isDeclined = approval?.how === 'declined'
      return { relayed: readPageResponse(answer), approval: approved && !isDeclined ? approved.approval : approval }
    },
  }
}

function adviseOnMissingTool({ email, email_verified }: ToolUser, openPages: number): string {
  if (!email_verified)
    return 'The user’s email address is not verified, so none of their open pages can be matched with them. Ask the user to verify it where they sign in.'
  if (openPages === 0)
    return `No page is open. Ask the user to open a page that has the Inlay widget, to sign in there as ${email}, and to leave the page open. Then call the tool again.`
  const pages =
    openPages === 1 ? 'The user’s open page doesn’t offer' : `None of the user’s ${openPages} open pages offer`
  return `${pages} this tool. List the tools that can be called now with hub_list_tools.`
}

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

/**
 * The page that offered the tool, or, if it's gone, another one of its origin with the same definition: a page that was
 * loaded again has another ID. A call without a page was approved for a connector, and never runs in a page.
 */
function chooseApproved(
  found: FoundSource[],
  toolName: string,
  sourceId: string | undefined,
  { definition_hash, origin }: ApprovedCall,
): { target: FoundSource; tool: KeptTool } {
  const offers = sourceId === undefined ? [] : found.filter(({ source }) => source.origin === origin)
  if (offers.length === 0) throw notFound('hub_tool', toolName)
  const original = offers.filter(({ source }) => source.sourceId === sourceId)
  const [chosen] = (original.length > 0 ? original : offers)
    .flatMap((target) => target.tools.map((tool) => ({ target, tool })))
    .filter(({ tool }) => tool.hash === definition_hash)
    .sort(lastSeenFirst)
  if (!chosen) throw callFailure('TOOL_CHANGED')
  return chosen
}

const lastSeenFirst = ({ target: one }: { target: FoundSource }, { target: other }: { target: FoundSource }): number =>
  (other.sight?.lastInFrontAt ?? 0) - (one.sight?.lastInFrontAt ?? 0)

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
  caller: MemberCaller,
): Promise<Output<typeof contract.listSources>> {
  const sources = await hub.listSources(memberAsToolUser(caller))
  return { count: sources.length, sources }
}

export async function countOpenTabs(
  { hub }: { hub: Hub },
  { organization }: OrgCaller,
): Promise<Output<typeof contract.countOpenTabs>> {
  const { count, isComplete } = await hub.switchboard.count(organization.id)
  return { open_tabs: count, is_complete: isComplete }
}

export async function listTools(
  { hub }: { hub: Hub },
  caller: MemberCaller,
  { include_sources, ...filter }: Input<typeof contract.listTools>,
): Promise<Output<typeof contract.listTools>> {
  const tools = await hub.listTools(memberAsToolUser(caller), {
    ...filter,
    include_sources: include_sources === 'true',
  })
  return { count: tools.length, tools }
}
