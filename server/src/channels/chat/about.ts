import type { ServerMessage } from '@inlay/protocol'
import type { Models } from '../../agent/models/models.ts'
import type { Speaker } from '../../agent/runs/runs.ts'
import type { AgentSettings, AgentSettingsReader } from '../../agent/settings/agent-settings.ts'
import { selectActiveSkills } from '../../content/skills/agent-skills.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'

type Agent = Omit<Extract<ServerMessage, { type: 'chat/agent' }>, 'type' | 'request_id'>

export interface AboutAgent {
  agentSettings: AgentSettingsReader
  models: Models
}

const mostSkills = 100

/** What the agent's panel shows before the user writes. */
export async function describeAgent(service: Service & AboutAgent, { holder }: Speaker): Promise<Agent> {
  const settings = await service.agentSettings.of(holder.organization_id)
  const problem = findProblem(service, settings, holder)
  const { name, greeting, starter_prompts } = settings
  const shown = { name, greeting, starter_prompts, problem }
  // Visitors who aren't welcome learn no more than a visitor of the site.
  if (problem?.code === 'SIGN_IN_NEEDED') return { ...shown, skills: [], connector_count: 0 }
  const host = URL.parse(holder.origin ?? '')?.hostname ?? ''
  const [skills, connectors] = await service.database.asHolder(holder, (sql) =>
    Promise.all([selectActiveSkills(sql, host), holder.end_user ? countConnectors(sql) : 0]),
  )
  return { ...shown, skills: skills.slice(0, mostSkills), connector_count: connectors }
}

function findProblem({ models }: AboutAgent, settings: AgentSettings, { end_user }: Speaker['holder']) {
  const { anonymous, own_models } = settings
  if (!end_user && !anonymous.is_enabled) return signInNeeded
  const hasModel = !('problem' in own_models) && (own_models.length > 0 || models.installation().model !== null)
  return hasModel ? null : notConfigured
}

const signInNeeded: Agent['problem'] = { code: 'SIGN_IN_NEEDED', message: 'Sign in to talk to the assistant.' }

const notConfigured: Agent['problem'] = {
  code: 'NOT_CONFIGURED',
  message: 'The agent isn’t configured yet. An administrator needs to choose a model.',
}

/** Connectors only work with a user's identity. */
async function countConnectors(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }>`select count(*) as count from connectors where status = 'active'`
  return row?.count ?? 0
}
