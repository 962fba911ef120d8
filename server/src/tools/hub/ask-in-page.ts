import { hash } from 'node:crypto'
import type { Service } from '../../kernel/foundation/service.ts'
import type { ToolCall } from '../../kernel/foundation/tool.ts'
import type { ToolUser } from '../../kernel/foundation/tool-user.ts'
import { Failure, failure } from '../../kernel/lib/errors.ts'
import { sortMembers } from '../../kernel/untrusted/definitions.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import type { Asker, FoundSource } from './messages.ts'
import type { Switchboard } from './switchboard.ts'

/** A connector's tool that may change something, and the call that the user has to allow. */
export interface Approval {
  callId: string
  /** `<connector>.<tool>`, the name that callers use. */
  toolName: string
  tool: { title?: string; description: string; hash: string }
  connector: { name: string; origin: string }
  args: Record<string, unknown>
}

/** Maximum number of sites suggested to a user who has no page open. */
const mostPages = 3

/**
 * Asks the user in one of their open tabs, preferably the one in front, and moves on to the next if that tab closes.
 * Resolves with an error if the user declines. Throws a Failure if no tab can ask or the user doesn't answer in time.
 */
export async function askUser(
  service: Pick<Service, 'clock' | 'database'>,
  switchboard: Switchboard,
  user: ToolUser,
  { callId, toolName, tool, connector, args }: Approval,
  call: ToolCall,
): Promise<PageResponse> {
  const { client_name } = user
  const { title, description } = tool
  const key = hash('sha256', JSON.stringify([toolName, sortMembers(args), client_name ?? null]), 'base64url')
  const order = {
    call_id: callId,
    name: toolName,
    args,
    definition_hash: tool.hash,
    question: { connector, description, key, ...(title !== undefined && { title }) },
    ...(client_name && { client_name }),
  }
  const startedAt = service.clock()
  const asked = new Set<string>()
  for (;;) {
    const found = await switchboard.find(user.owner, { question: key })
    const [tab] = found.filter(({ source }) => !asked.has(source.sourceId)).sort(inFrontFirst)
    if (!tab) throw await describeNeed(service, user, toolName)
    asked.add(tab.source.sourceId)
    try {
      return await switchboard.call(tab, user, order, call, startedAt)
    } catch (error) {
      const isGone = error instanceof Failure && error.envelope.code === 'SOURCE_GONE'
      if (!isGone) throw error
    }
  }
}

/** In a tab where the user can answer. A retry is asked where the first question is still open, so that the user sees one. */
function inFrontFirst({ asker: one }: FoundSource, { asker: other }: FoundSource): number {
  const rank = (asker: Asker | undefined) =>
    (asker?.isConfirmed ? 4 : 0) + (asker?.isAsking ? 2 : 0) + (asker?.isVisible ? 1 : 0)
  return rank(other) - rank(one) || (other?.shownAt ?? 0) - (one?.shownAt ?? 0)
}

async function describeNeed(
  { database }: Pick<Service, 'database'>,
  { organizationId, email, member }: ToolUser,
  toolName: string,
): Promise<Failure> {
  const pages = await database.asOrg(
    organizationId,
    (sql) => sql<{ origin: string }>`
      select origin from sites where is_allowed and origin not like '%*%'
      order by last_seen_at desc nulls last, created_at limit ${mostPages}`,
  )
  const origins = pages.map(({ origin }) => origin)
  const name = member?.organization.name ?? 'the organization'
  const where = origins.length > 0 ? origins.join(' or ') : `a page of ${name} with the agent’s panel`
  return failure(
    403,
    'APPROVAL_NEEDED',
    `${toolName} may change something, so the user has to approve the call, but no page is open in which they can. Nothing was done. Ask the user to open ${where}, signed in as ${email}, then call the tool again: the agent’s panel there asks for approval.`,
    { data: { tool: toolName, pages: origins } },
  )
}
