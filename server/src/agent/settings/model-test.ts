import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { fail } from '../../kernel/lib/errors.ts'
import { cleanText } from '../../kernel/untrusted/page-text.ts'
import { type Model, ModelFailed, type Models, type OwnModel } from '../models/models.ts'
import { type testAgentModel as contract, testErrors } from './contract.ts'
import { completeModel, openModels, readModels } from './own-models.ts'
import { noModelReason, selectSettings } from './settings.ts'

type Result = Output<typeof contract>

/** If a node dies during a test, the organization can test again after this time. */
const longestTestSeconds = 60

const maxMessageLength = 1000

export async function testAgentModel(
  service: Service & { models: Models },
  { organization: { id } }: OrgCaller,
  { model }: Input<typeof contract>,
): Promise<Result> {
  const { database, kv, models } = service
  const saved = await database.asOrg(id, selectSettings)
  const openSaved = () => openModels(service, id, saved)
  const own = model ? [completeModel(service, model, 'model', openSaved)] : readModels(service, id, saved)
  if ('problem' in own) return { ...untested, message: own.problem }
  const [chosen] = models.choose(own)
  if (!chosen) return { ...untested, message: noModelReason }

  const running = `agent-model-test:${id}`
  if (!(await kv.setIfAbsent(running, true, longestTestSeconds))) {
    throw fail(testErrors.MODEL_TEST_RUNNING, 'MODEL_TEST_RUNNING')
  }
  try {
    return await callModel(service, id, chosen, own)
  } finally {
    await kv.delete(running)
  }
}

const failed = { success: false, prompt_tokens: null, completion_tokens: null, is_estimated: false }
const untested = { ...failed, source: 'none' as const, provider: null, model: null, latency_ms: null }

/** Organizations don't learn where the operator's model runs. */
const operatorsProblem =
  'The operator’s model didn’t respond as expected. The operator finds the reason in the server’s log.'

async function callModel(
  { models, log }: Service & { models: Models },
  organizationId: string,
  model: Model,
  own: readonly OwnModel[],
): Promise<Result> {
  const { source, provider, name } = model
  const tested = { source, provider, model: name }
  const started = performance.now()
  try {
    const usage = await models.test(model)
    return { success: true, ...tested, ...usage, message: 'The model responded.' }
  } catch (error) {
    if (!(error instanceof ModelFailed)) throw error
    const latency_ms = Math.round(performance.now() - started)
    // Servers quote what they were sent, so the message can contain a key.
    const quoted = own.reduce((text, { key }) => text.replaceAll(key, '[API key]'), error.message)
    const message = cleanText(quoted, maxMessageLength)
    log.warn({ organization_id: organizationId, ...tested, reason: message }, 'the test of the agent’s model failed')
    return { ...failed, ...tested, latency_ms, message: source === 'organization' ? message : operatorsProblem }
  }
}
