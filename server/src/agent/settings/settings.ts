import { isDeepStrictEqual } from 'node:util'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type { Model, Models } from '../models/models.ts'
import type * as contract from './contract.ts'
import { completeModel, type ModelInput, openModels, readModels, type SavedModels, sealModels } from './own-models.ts'

type Config = Output<typeof contract.getAgentConfig>
type Changes = Input<typeof contract.updateAgentConfig>

interface Settings
  extends SavedModels,
    Pick<
      Config,
      | 'name'
      | 'greeting'
      | 'starter_prompts'
      | 'instructions'
      | 'tool_policies'
      | 'origin_groups'
      | 'anonymous'
      | 'are_contents_visible'
      | 'retention_days'
      | 'updated_at'
    > {}

const defaults: Settings = {
  name: 'Assistant',
  greeting: '',
  starter_prompts: [],
  instructions: '',
  models: [],
  model_keys_sealed: null,
  tool_policies: {},
  origin_groups: [],
  anonymous: { is_enabled: false, runs_per_minute: 6 },
  are_contents_visible: false,
  retention_days: null,
  updated_at: null,
}

export async function getAgentConfig(
  service: Service & { models: Models },
  { organization }: OrgCaller,
): Promise<Config> {
  return describeSettings(service, organization.id, await service.database.asOrg(organization.id, selectSettings))
}

export async function updateAgentConfig(
  service: Service & { models: Models },
  caller: OrgCaller,
  { model, fallback_models, anonymous, ...changes }: Changes,
): Promise<Config> {
  const { id } = caller.organization
  const settings = await service.database.asOrg(id, async (sql) => {
    // Locks the organization, because the settings have no row before the first change.
    await sql`select from organizations where id = current_organization() for no key update`
    const before = await selectSettings(sql)
    const models = changeModels(service, id, before, { model, fallback_models })
    const after: Settings = {
      ...before,
      ...withoutUndefined(changes),
      anonymous: { ...before.anonymous, ...withoutUndefined(anonymous ?? {}) },
      ...models,
    }
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
      ...Object.fromEntries(
        recordedFields.filter((field) => changed.includes(field)).map((field) => [field, after[field]]),
      ),
      ...(changed.includes('tool_policies') && { tool_policies: comparePolicies(before, after) }),
    })
    return { ...after, updated_at }
  })
  service.changes.announce(topics.agentSettings(id))
  return describeSettings(service, id, settings)
}

/** Settings that decide who can do what. An audit event has their new values. */
const recordedFields = ['origin_groups', 'anonymous', 'are_contents_visible', 'retention_days'] as const

/** The policies that changed, with null for those that were removed. */
function comparePolicies(before: Settings, after: Settings): Record<string, string | null> {
  const old = new Map(Object.entries(before.tool_policies))
  const fresh = new Map(Object.entries(after.tool_policies))
  const changed = [...old.keys(), ...fresh.keys()].filter((tool) => old.get(tool) !== fresh.get(tool))
  return Object.fromEntries(changed.map((tool) => [tool, fresh.get(tool) ?? null]))
}

/** Fields that a request left out stay as they are. */
const withoutUndefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof T]?: Exclude<T[Name], undefined>
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
function fieldsOf({ models: [model, ...fallback_models], model_keys_sealed, updated_at, ...fields }: Settings) {
  return { ...fields, model: model ?? null, fallback_models }
}

function describeSettings(service: Service & { models: Models }, organizationId: string, settings: Settings): Config {
  return {
    ...fieldsOf(settings),
    effective_model: describeEffective(service, organizationId, settings),
    updated_at: settings.updated_at,
  }
}

function describeEffective(
  service: Service & { models: Models },
  organizationId: string,
  settings: Settings,
): Config['effective_model'] {
  const own = readModels(service, organizationId, settings)
  if ('problem' in own) return { source: 'none', provider: null, name: null, reason: own.problem }
  const [first] = own
  if (first) {
    const { provider, name } = first
    return { source: 'organization', provider, name, reason: reasons.organization }
  }
  const { model } = service.models.installation()
  if (!model) return { source: 'none', provider: null, name: null, reason: noModelReason }
  const { source, provider, name } = model
  return { source, provider, name, reason: reasons[source] }
}

export const noModelReason =
  'The operator hasn’t configured a model. Send your own as "model" to PATCH /agent/config, or ask the operator.'

/** Organizations don't learn where the operator's model runs. */
const reasons: Record<Model['source'], string> = {
  organization: 'The organization brought its own model.',
  operator: 'The operator configured this model for all organizations.',
  ollama: 'The operator hasn’t configured a model, so this development server uses its local Ollama.',
  demo: 'The operator hasn’t configured a model, so this development server uses the demo model.',
}

/** The organization's settings, or the defaults. */
export async function selectSettings(sql: Sql): Promise<Settings> {
  const [[saved], [retention]] = await Promise.all([
    sql<Omit<Settings, 'retention_days'>>`
      select name, greeting, starter_prompts, instructions, models, model_keys_sealed, tool_policies, origin_groups,
             jsonb_build_object('is_enabled', is_anonymous_enabled, 'runs_per_minute', anonymous_runs_per_minute)
               as anonymous,
             are_contents_visible, updated_at
      from agent_settings`,
    sql<{ days: number }>`select days from conversation_retention`,
  ])
  return { ...(saved ?? defaults), retention_days: retention?.days ?? null }
}

/** Whether members of the organization can read conversations. */
export async function areContentsVisible(sql: Sql): Promise<boolean> {
  const [saved] = await sql<{ are_contents_visible: boolean }>`select are_contents_visible from agent_settings`
  return saved?.are_contents_visible ?? defaults.are_contents_visible
}

export const conversationErasure = 'conversation_erasure'
export const eraseEverySeconds = 10 * 60

async function saveSettings(sql: Sql, settings: Settings): Promise<string> {
  const { name, greeting, starter_prompts, instructions, models, model_keys_sealed } = settings
  const { tool_policies, origin_groups, anonymous, are_contents_visible, retention_days } = settings
  if (retention_days === null) await sql`delete from conversation_retention`
  else {
    await sql`
      insert into conversation_retention (organization_id, days) values (current_organization(), ${retention_days})
      on conflict (organization_id) do update set days = excluded.days`
    await requestJob(sql, conversationErasure, { due: { inSeconds: eraseEverySeconds } })
  }
  const [row] = await sql<{ updated_at: string }>`
    insert into agent_settings
      (organization_id, name, greeting, starter_prompts, instructions, models, model_keys_sealed,
       tool_policies, origin_groups, is_anonymous_enabled, anonymous_runs_per_minute, are_contents_visible)
    values (current_organization(), ${name}, ${greeting}, ${starter_prompts}, ${instructions},
            ${JSON.stringify(models)}, ${model_keys_sealed}, ${JSON.stringify(tool_policies)},
            ${JSON.stringify(origin_groups)}, ${anonymous.is_enabled}, ${anonymous.runs_per_minute},
            ${are_contents_visible})
    on conflict (organization_id) do update set
      name = excluded.name, greeting = excluded.greeting, starter_prompts = excluded.starter_prompts,
      instructions = excluded.instructions, models = excluded.models, model_keys_sealed = excluded.model_keys_sealed,
      tool_policies = excluded.tool_policies, origin_groups = excluded.origin_groups,
      is_anonymous_enabled = excluded.is_anonymous_enabled,
      anonymous_runs_per_minute = excluded.anonymous_runs_per_minute,
      are_contents_visible = excluded.are_contents_visible, updated_at = now()
    returning updated_at`
  return row?.updated_at as string
}
