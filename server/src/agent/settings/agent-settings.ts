import type { Service } from '../../kernel/foundation/service.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type { OwnModel } from '../models/models.ts'
import { type ModelProblem, readModels } from './own-models.ts'
import { selectSettings } from './settings.ts'

/** The settings that the agent works with. */
export interface AgentSettings
  extends Pick<
    Awaited<ReturnType<typeof selectSettings>>,
    'name' | 'greeting' | 'starter_prompts' | 'instructions' | 'tool_policies' | 'origin_groups' | 'anonymous'
  > {
  organization_id: string
  organization_name: string
  /** Empty to use the installation's model. With a problem, the agent has no model: it must not use another one. */
  own_models: OwnModel[] | ModelProblem
}

export interface AgentSettingsReader {
  of(organizationId: string): Promise<AgentSettings>
}

const cachedOrganizations = 1_000

export function createAgentSettings(service: Service): AgentSettingsReader {
  const { changes, clock, database } = service
  const known = new FreshCache<AgentSettings>({
    changes,
    clock,
    limit: cachedOrganizations,
    topicsOf: ({ organization_id }) => [topics.agentSettings(organization_id)],
  })

  async function read(organizationId: string): Promise<AgentSettings> {
    const [saved, [organization]] = await database.asOrg(organizationId, (sql) =>
      Promise.all([
        selectSettings(sql),
        sql<{ name: string }>`select name from organizations where id = current_organization()`,
      ]),
    )
    const { name, greeting, starter_prompts, instructions, tool_policies, origin_groups, anonymous } = saved
    return {
      organization_id: organizationId,
      organization_name: organization?.name ?? '',
      name,
      greeting,
      starter_prompts,
      instructions,
      own_models: readModels(service, organizationId, saved),
      tool_policies,
      origin_groups,
      anonymous,
    }
  }

  return {
    async of(organizationId) {
      return (await known.load(organizationId, () => read(organizationId))) as AgentSettings
    },
  }
}
