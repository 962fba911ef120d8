import type { Input } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { ignoreUnreadable } from '../../kernel/lib/secrets.ts'
import type { OwnModel } from '../models/models.ts'
import type * as contract from './contract.ts'

/** The organization's own models as they are stored. */
export interface SavedModels {
  models: SavedModel[]
  model_keys_sealed: string | null
}

interface SavedModel extends Omit<OwnModel, 'key'> {
  key_last4: string
}

export type ModelInput = NonNullable<Input<typeof contract.testAgentModel>['model']>

/** Associated data for sealing the keys, so that their ciphertext can't be moved to another organization. */
const keysPlace = (organizationId: string) => `agent_settings.model_keys_sealed:${organizationId}`

export function sealModels({ secrets }: Service, organizationId: string, own: readonly OwnModel[]): SavedModels {
  const keys = JSON.stringify(own.map(({ key }) => key))
  return {
    models: own.map(({ key, ...model }) => ({ ...model, key_last4: key.slice(-4) })),
    model_keys_sealed: own.length > 0 ? secrets.seal(keys, keysPlace(organizationId)) : null,
  }
}

export function openModels(
  { secrets }: Service,
  organizationId: string,
  { models, model_keys_sealed }: SavedModels,
): OwnModel[] {
  if (model_keys_sealed === null) return []
  const keys: string[] = JSON.parse(secrets.open(model_keys_sealed, keysPlace(organizationId)))
  return models.map(({ key_last4, ...model }, index) => ({ ...model, key: keys[index] as string }))
}

/** Why an organization's own models can't be used: a sentence for its administrators. */
export interface ModelProblem {
  problem: string
}

const unreadableKeys: ModelProblem = {
  problem:
    'The saved API keys can’t be decrypted, because the operator’s secret has changed. Send each model again with its key, or remove them.',
}

/** Like `openModels`, but keys that can't be decrypted are a value instead of an error. */
export function readModels(service: Service, organizationId: string, saved: SavedModels): OwnModel[] | ModelProblem {
  try {
    return openModels(service, organizationId, saved)
  } catch (error) {
    return ignoreUnreadable(error) ?? unreadableKeys
  }
}

/**
 * Adds the saved key to a model that was sent without one. The key of the same model comes first, so that models on the
 * same host can have different keys.
 */
export function completeModel(
  { config }: Service,
  { key, ...model }: ModelInput,
  field: string,
  openSaved: () => readonly OwnModel[],
): OwnModel {
  // In development, safe-fetch allows plain http to the networks that the operator has allowed.
  if (config.mode === 'production' && model.url.startsWith('http:')) {
    throw invalid(`${field}.url`, 'Must start with https://')
  }
  if (key !== undefined) return { ...model, key }
  const onHost = openSaved().filter(({ url }) => new URL(url).origin === new URL(model.url).origin)
  const same = onHost.filter(({ provider, url, name }) => isEqual({ provider, url, name }, model))
  const keys = new Set((same.length > 0 ? same : onHost).map((saved) => saved.key))
  const [saved] = keys
  if (saved === undefined) {
    throw invalid(
      `${field}.key`,
      'Enter the API key, because none is saved for this host. A saved key is only sent to the host it was saved for.',
    )
  }
  if (keys.size > 1) throw invalid(`${field}.key`, 'Enter the API key, because several are saved for this host.')
  return { ...model, key: saved }
}

const isEqual = (one: Omit<OwnModel, 'key'>, other: Omit<OwnModel, 'key'>): boolean =>
  one.provider === other.provider && one.url === other.url && one.name === other.name
