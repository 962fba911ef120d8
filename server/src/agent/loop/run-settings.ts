import type { Model, Models } from '../models/models.ts'
import type { AgentSettings, AgentSettingsReader } from '../settings/agent-settings.ts'
import type { RunSettings } from './work.ts'

/** Reads the settings of a run's organization, with the models that they choose. */
export function createRunSettings(
  agentSettings: AgentSettingsReader,
  models: Models,
): (organizationId: string) => Promise<RunSettings> {
  /** Settings are cached, so their models are created once. */
  const chosen = new WeakMap<AgentSettings, Model[]>()
  return async (organizationId) => {
    const settings = await agentSettings.of(organizationId)
    const known = chosen.get(settings) ?? choose(models, settings)
    chosen.set(settings, known)
    return { ...settings, models: known }
  }
}

/** With keys that can't be read, there is no model: the installation's must not get the conversations instead. */
const choose = (models: Models, { own_models }: AgentSettings): Model[] =>
  'problem' in own_models ? [] : models.choose(own_models)
