import type { components } from '@inlay/client'
import { ApiError } from '../../session/api.ts'
import { t } from './texts.ts'

export type Config = components['schemas']['AgentConfig']
type SavedModel = components['schemas']['OwnModel']
export type Policy = Config['tool_policies'][string]

/** Entries of lists have an id, so that they keep their focus when they're moved. */
let lastId = 0
const newId = () => ++lastId

export interface Entry {
  id: number
  text: string
}

export interface DraftModel {
  id: number
  provider: SavedModel['provider']
  url: string
  name: string
  /** Empty to keep the saved one. */
  key: string
}

/** The settings as they are in the form. */
export interface Draft {
  name: string
  greeting: string
  prompts: Entry[]
  instructions: string
  ownsModel: boolean
  model: DraftModel
  fallbacks: DraftModel[]
  policies: Record<string, Policy>
  groups: Entry[]
  isAnonymous: boolean
  runsPerMinute: string
  areContentsVisible: boolean
  isErased: boolean
  retentionDays: string
}

export const newEntry = (text = ''): Entry => ({ id: newId(), text })
export const newModel = (): DraftModel => ({
  id: newId(),
  provider: 'openai_compatible',
  url: 'https://api.openai.com/v1',
  name: '',
  key: '',
})

const toDraftModel = ({ provider, url, name }: SavedModel): DraftModel => ({
  id: newId(),
  provider,
  url,
  name,
  key: '',
})

/** Offered to organizations that don't erase conversations yet. */
const usualDays = 90

export const toDraft = (config: Config): Draft => ({
  name: config.name,
  greeting: config.greeting,
  prompts: config.starter_prompts.map(newEntry),
  instructions: config.instructions,
  ownsModel: config.model !== null,
  model: config.model ? toDraftModel(config.model) : newModel(),
  fallbacks: config.fallback_models.map(toDraftModel),
  policies: config.tool_policies,
  groups: config.origin_groups.map((origins) => newEntry(origins.join('\n'))),
  isAnonymous: config.anonymous.is_enabled,
  runsPerMinute: String(config.anonymous.runs_per_minute),
  areContentsVisible: config.are_contents_visible,
  isErased: config.retention_days !== null,
  retentionDays: String(config.retention_days ?? usualDays),
})

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)

const toModelInput = ({ provider, url, name, key }: DraftModel) => ({
  provider,
  url: url.trim(),
  name: name.trim(),
  ...(key.trim() && { key: key.trim() }),
})

/** The changed settings, as the API expects them. Settings that another admin saved in between aren't overwritten. */
export function changesOf(draft: Draft, config: Config) {
  const models = draft.ownsModel ? [draft.model, ...draft.fallbacks].map(toModelInput) : []
  const savedModels = [config.model, ...config.fallback_models].flatMap((model) =>
    model ? { provider: model.provider, url: model.url, name: model.name } : [],
  )
  const [model, ...fallback_models] = models
  const wanted = {
    name: draft.name.trim(),
    greeting: draft.greeting,
    starter_prompts: draft.prompts.map(({ text }) => text.trim()).filter(Boolean),
    instructions: draft.instructions,
    tool_policies: draft.policies,
    origin_groups: draft.groups.map(({ text }) => linesOf(text)).filter((group) => group.length > 0),
    anonymous: { is_enabled: draft.isAnonymous, runs_per_minute: Number(draft.runsPerMinute) },
    are_contents_visible: draft.areContentsVisible,
    retention_days: draft.isErased ? Number(draft.retentionDays) : null,
  }
  const changed = Object.entries(wanted).filter(([field, value]) => !isSame(value, config[field as keyof Config]))
  return {
    ...(Object.fromEntries(changed) as Partial<typeof wanted>),
    ...(!isSame(models, savedModels) && { model: model ?? null, fallback_models }),
  }
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other))
}

const sorted = (value: unknown): unknown =>
  value && typeof value === 'object' && !Array.isArray(value) ? Object.entries(value).sort() : value

const originOf = (url: string) => URL.parse(url.trim())?.origin

/** The saved model whose key the server would use for this one. */
export const savedKeyFor = ({ url, name }: DraftModel, config: Config): string | undefined => {
  const onHost = [config.model, ...config.fallback_models].filter(
    (saved): saved is SavedModel => saved !== null && originOf(saved.url) === originOf(url),
  )
  return (onHost.find((saved) => saved.name === name) ?? onHost[0])?.key_last4
}

export type Problems = Record<string, string>

const isWithin = (text: string, from: number, to: number) =>
  /^\d+$/.test(text) && Number(text) >= from && Number(text) <= to

const parsesAsOrigin = (text: string) =>
  /^https?:$/.test(URL.parse(text)?.protocol ?? '') && URL.parse(text)?.pathname === '/'

/** What is wrong with the form, by the field's name in the API. */
export function problemsOf(draft: Draft, config: Config): Problems {
  const problems: Problems = {}
  const check = (model: DraftModel, field: string) => {
    if (!/^https?:\/\/.+\/v1\/*$/.test(model.url.trim())) problems[`${field}.url`] = t.badUrl
    if (model.key && model.key.trim().length < 8) problems[`${field}.key`] = t.keyShort
    if (!model.key && !savedKeyFor(model, config)) problems[`${field}.key`] = t.keyNeeded
  }
  if (draft.ownsModel) {
    check(draft.model, 'model')
    for (const [place, model] of draft.fallbacks.entries()) check(model, `fallback_models.${place}`)
  }
  for (const [place, { text }] of draft.groups.entries()) {
    const origins = linesOf(text)
    const bad = origins.find((origin) => !parsesAsOrigin(origin))
    if (bad) problems[`origin_groups.${place}`] = t.badOrigin(bad)
    else if (new Set(origins).size === 1) problems[`origin_groups.${place}`] = t.twoOrigins
  }
  if (!isWithin(draft.runsPerMinute, 1, 60)) problems['anonymous.runs_per_minute'] = t.range(1, 60)
  if (draft.isErased && !isWithin(draft.retentionDays, 1, 3650)) problems.retention_days = t.range(1, 3650)
  return problems
}

/** The server's refusal, by its field. */
export function refusalOf(error: Error | null): Problems {
  if (!(error instanceof ApiError)) return {}
  const { field, details } = error.data
  return typeof field === 'string' && typeof details === 'string' ? { [field]: details } : {}
}

/** What each part of the form gets. */
export interface PartProps {
  draft: Draft
  config: Config
  problems: Record<string, string>
  change: (changes: Partial<Draft>) => void
}
