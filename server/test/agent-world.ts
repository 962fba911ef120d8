import { type ClientMessageInput, goneAfterMs } from '@inlay/protocol'
import { expect } from 'vitest'
import type { Run, ThreadTrust, ToolCallRow } from '../src/agent/runs/run.ts'
import type { ToolRules } from '../src/agent/toolbox/approval-rules.ts'
import { createToolbox } from '../src/agent/toolbox/create-toolbox.ts'
import type { AgentTool, Toolbox } from '../src/agent/toolbox/toolbox.ts'
import { newId } from '../src/kernel/lib/ids.ts'
import { createRemoteTools } from '../src/tools/remote-tools/remote-tools.ts'
import { type Delegation, startDelegation } from './delegation.ts'
import { openPage, type Page, pageOrigin } from './page.ts'

type Definition = Extract<ClientMessageInput, { type: 'tools/list' }>['tools'][number]

/** Somebody in a page, or undefined for an anonymous visitor. */
type Person = { sub: string; email?: string; email_verified?: boolean } | undefined

/** A run's user, and the page where they wrote. */
export interface Conversation {
  page: Page
  run: Run
  /** The tool that the model gets under this name. */
  tool(name: string): Promise<AgentTool>
  names(calls?: ToolCallRow[]): Promise<string[]>
}

/** An organization with an identity provider, a tool server and pages of several origins, and the agent's tools. */
export interface AgentWorld extends Delegation {
  toolbox: Toolbox
  /** Tests change it. */
  rules: { -readonly [Key in keyof ToolRules]: ToolRules[Key] }
  converse(who: Person, options?: { origin?: string; tools?: Definition[]; title?: string }): Promise<Conversation>
}

export const ann: Person = { sub: 'ann', email: 'ann@example.com', email_verified: true }

export const noRules = (): ToolRules => ({ tool_policies: {}, origin_groups: [], name: 'Shopkeeper' })

export const noTrust: ThreadTrust = { origins: [], allowed_tools: [], allowed_choices: [] }

export async function startAgentWorld(): Promise<AgentWorld> {
  const world = await startDelegation()
  const remoteTools = createRemoteTools(world.service, new Set())
  const { body: key } = await world.asAdmin('POST', '/publishable-keys', { name: 'Everywhere' })
  const started: AgentWorld = {
    ...world,
    rules: noRules(),
    toolbox: createToolbox({ ...world.service, remoteTools }, async () => started.rules),
    async converse(who, { origin = pageOrigin, tools = [], title = 'Cart' } = {}) {
      const { status, body } = await world.request('POST', '/auth/pk-ticket', {
        headers: { origin },
        body: { publishable_key: key.key, ...(who && { id_token: await world.idp.idToken(who) }) },
      })
      expect(status, JSON.stringify(body)).toBe(200)
      const page = await openPage(world.local, body.ticket, { origin, hello: { tab_id: newId(), title } })
      page.send({ type: 'tools/list', tools })
      await page.next('tools/accepted')
      const organizationId = await world.organization('demo')
      const verified_email = who?.email_verified ? who.email : undefined
      const identity = { verified_email, identity_expires_at: Number.MAX_SAFE_INTEGER, provider: '' }
      const run: Run = {
        id: newId(),
        organizationId,
        threadId: newId(),
        holder: {
          organization_id: organizationId,
          publishable_key_id: key.id,
          origin,
          site_id: undefined,
          end_user: who && { id: page.ready.user.id, ...identity },
        },
        page: { source_id: page.ready.session, url: `${origin}/cart`, title },
        client: null,
      }
      const list = (calls: ToolCallRow[] = []) => started.toolbox.list(run, calls)
      return {
        page,
        run,
        names: async (calls) => (await list(calls)).map(({ name }) => name),
        async tool(name) {
          const tool = (await list()).find((each) => each.name === name)
          if (!tool) throw new Error(`There is no tool named ${name}`)
          return tool
        },
      }
    },
    async reset() {
      started.rules = noRules()
      // Closes the pages that tests left open.
      world.clock.now += goneAfterMs
      world.service.runtime.sweep()
      world.clock.now -= goneAfterMs
      await world.reset()
    },
    async close() {
      await remoteTools.close()
      await world.close()
    },
  }
  return started
}

/** A call that the run's loop has approved. */
export function callOf(run: Run, tool: AgentTool, changes: Partial<ToolCallRow> = {}): ToolCallRow {
  return {
    id: newId(),
    run_id: run.id,
    step: 1,
    position: 0,
    name: tool.name,
    model_call_id: 'model-1',
    tool: tool.ref,
    title: tool.title ?? null,
    definition_hash: tool.definitionHash,
    input_schema: null,
    args: {},
    edited_args: null,
    state: 'running',
    reason: null,
    asked_at: null,
    expires_at: null,
    decision: 'not_needed',
    decided_at: null,
    dispatched_at: null,
    result: null,
    ended_at: null,
    late_step: null,
    connect_to: null,
    reason_data: null,
    ...changes,
  }
}
