import { isDeepStrictEqual } from 'node:util'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { invalid } from '../lib/errors.ts'
import type { Models } from '../models/models.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import type { Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'
import { completeModel, type ModelInput, openModels, type SavedModels, sealModels } from './own-models.ts'

type Config = Output<typeof contract.getAgentConfig>
type Changes = Input<typeof contract.updateAgentConfig>

interface Settings extends SavedModels {
  name: string
  greeting: string
  starter_prompts: string[]
  instructions: string
  updated_at: string | null
}

const defaults: Settings = {
  name: 'Assistant',
  greeting: '',
  starter_prompts: [],
  instructions: '',
  models: [],
  model_keys_sealed: null,
  updated_at: null,
}

export async function getAgentConfig(
  service: Service & { models: Models },
  { organization }: OrgCaller,
): Promise<Config> {
  return describeSettings(service, await service.database.asOrg(organization.id, selectSettings))
}

export async function updateAgentConfig(
  service: Service & { models: Models },
  caller: OrgCaller,
  { model, fallback_models, ...texts }: Changes,
): Promise<Config> {
  const { id } = caller.organization
  const settings = await service.database.asOrg(id, async (sql) => {
    // Locks the organization, because the settings have no row before the first change.
    await sql`select from organizations where id = current_organization() for no key update`
    const before = await selectSettings(sql)
    const { name = before.name, greeting = before.greeting } = texts
    const { starter_prompts = before.starter_prompts, instructions = before.instructions } = texts
    const models = changeModels(service, id, before, { model, fallback_models })
    const after = { ...before, name, greeting, starter_prompts, instructions, ...models }
    const newKeys = listNewKeys({ model, fallback_models })
    const changed = listChanges(before, after, newKeys)
    if (changed.length === 0) return before
    const updated_at = await saveSettings(sql, after)
    const hasNewModels = changed.includes('model') || changed.includes('fallback_models')
    await recordAudit(sql, trailOf(caller), 'agent.config_updated', id, {
      changed,
      // Where the organization's conversations are sent from now on.
      ...(hasNewModels && { models: after.models.map(({ key_last4, ...shown }) => shown) }),
      ...(newKeys.length > 0 && { new_keys: newKeys }),
    })
    return { ...after, updated_at }
  })
  return describeSettings(service, settings)
}

/** Returns the new models with their keys sealed, or nothing if they stay as they are. */
function changeModels(
  service: Service,
  organizationId: string,
  saved: SavedModels,
  { model, fallback_models }: Pick<Changes, 'model' | 'fallback_models'>,
): SavedModels | undefined {
  if (model === undefined && fallback_models === undefined) return undefined
  // Only opened if a saved key is needed, so that keys that can't be read anymore can be replaced or removed.
  const openSaved = () => openModels(service, organizationId, saved)
  const keepFirst = () => (saved.models.length > 0 ? openSaved().slice(0, 1) : [])
  const keepRest = () => (saved.models.length > 1 ? openSaved().slice(1) : [])
  const complete = (each: ModelInput, field: string) => completeModel(service, each, field, openSaved)

  const first = model ? [complete(model, 'model')] : model === null ? [] : keepFirst()
  const rest = fallback_models?.map((each, index) => complete(each, `fallback_models.${index}`)) ?? keepRest()
  if (first.length === 0 && rest.length > 0) {
    throw fallback_models
      ? invalid('fallback_models', 'Needs a model: fallback models are only tried if it fails')
      : invalid('model', 'Remove the fallback models too, with "fallback_models": []')
  }
  return sealModels(service, organizationId, [...first, ...rest])
}

/** Fields of a request with a key in them. */
function listNewKeys({ model, fallback_models = [] }: Pick<Changes, 'model' | 'fallback_models'>): string[] {
  return [
    ...(model?.key === undefined ? [] : ['model']),
    ...(fallback_models.some(({ key }) => key !== undefined) ? ['fallback_models'] : []),
  ]
}

/** Fields that differ. A field with a new key counts as changed, because keys aren't compared. */
function listChanges(before: Settings, after: Settings, newKeys: readonly string[]): string[] {
  const [old, fresh] = [fieldsOf(before), fieldsOf(after)]
  return Object.entries(fresh)
    .filter(([field, value]) => newKeys.includes(field) || !isDeepStrictEqual(value, old[field as keyof typeof old]))
    .map(([field]) => field)
}

/** The settings as an administrator sees and changes them. */
function fieldsOf({ name, greeting, starter_prompts, instructions, models: [model, ...fallback_models] }: Settings) {
  return { name, greeting, starter_prompts, instructions, model: model ?? null, fallback_models }
}

function describeSettings(service: { models: Models }, settings: Settings): Config {
  return {
    ...fieldsOf(settings),
    effective_model: describeEffective(service, settings),
    updated_at: settings.updated_at,
  }
}

function describeEffective({ models }: { models: Models }, { models: [own] }: Settings): Config['effective_model'] {
  if (own) {
    const { provider, name } = own
    return { source: 'organization', provider, name, reason: 'The organization brought its own model.' }
  }
  const { model, reason } = models.installation()
  if (!model) return { source: 'none', provider: null, name: null, reason }
  const { source, provider, name } = model
  return { source, provider, name, reason }
}

/** The organization's settings, or the defaults. */
export async function selectSettings(sql: Sql): Promise<Settings> {
  const [saved] = await sql<Settings>`
    select name, greeting, starter_prompts, instructions, models, model_keys_sealed, updated_at from agent_settings`
  return saved ?? defaults
}

async function saveSettings(sql: Sql, settings: Settings): Promise<string> {
  const { name, greeting, starter_prompts, instructions, models, model_keys_sealed } = settings
  const [row] = await sql<{ updated_at: string }>`
    insert into agent_settings
      (organization_id, name, greeting, starter_prompts, instructions, models, model_keys_sealed)
    values (current_organization(), ${name}, ${greeting}, ${starter_prompts}, ${instructions},
            ${JSON.stringify(models)}, ${model_keys_sealed})
    on conflict (organization_id) do update set
      name = excluded.name, greeting = excluded.greeting, starter_prompts = excluded.starter_prompts,
      instructions = excluded.instructions, models = excluded.models, model_keys_sealed = excluded.model_keys_sealed,
      updated_at = now()
    returning updated_at`
  return row?.updated_at as string
}
