import { type MemberCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { memberAsToolUser, type ToolUser } from '../../kernel/foundation/tool-user.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { openConnector, type StoredConnector } from '../connectors/connectors.ts'
import { type testConnector as contract, testSteps } from '../connectors/contract.ts'
import { readServerMetadata } from '../connectors/server-metadata.ts'
import { StepFailed } from '../connectors/steps.ts'
import { checkAuthorizationServer } from '../consent/consent.ts'
import { findAssertionIssuer, redeemAssertion, requestAssertion } from '../delegation/token-exchange.ts'
import { createAccessTokens } from './connector-tokens.ts'
import { readSetup, requireDelegate, requireIdentity, type Setup } from './delegates.ts'
import { answerWithinMs, connectClient, explainRemoteFailure, withBearer } from './remote-clients.ts'

type TestStep = (typeof testSteps)[keyof typeof testSteps][number]

export async function testConnector(
  service: Service,
  caller: MemberCaller,
  { id }: Input<typeof contract>,
): Promise<Output<typeof contract>> {
  const setup = await readSetup(service, caller.organization.id)
  const connector = setup.connectors.find((each) => each.id === id)
  if (!connector) throw notFound('connector', id)
  const found = new Map<TestStep, string>()
  const takeSteps = connector.kind === 'id_jag' ? takeAssertionSteps : takeConsentSteps
  const problem = await takeSteps(service, memberAsToolUser(caller), setup, connector, found).catch((error) => {
    if (error instanceof StepFailed) return error
    throw error
  })
  const success = problem === undefined
  await service.database.asOrg(caller.organization.id, (sql) =>
    recordAudit(sql, trailOf(caller), 'connector.tested', id, { success }),
  )
  const order = testSteps[connector.kind]
  const failed = order.find((step) => !found.has(step))
  const steps = order.map((step) => {
    const message = found.get(step)
    if (message !== undefined) return { step, status: 'ok' as const, message }
    return step === failed && problem
      ? { step, status: 'failed' as const, message: describe(problem) }
      : { step, status: 'skipped' as const, message: '' }
  })
  return { success, steps }
}

/** Runs the same flow as a call but without caches, and records the result of each step. */
async function takeAssertionSteps(
  service: Service,
  user: ToolUser,
  setup: Setup,
  connector: StoredConnector,
  found: Map<TestStep, string>,
): Promise<undefined> {
  const { server_url } = connector
  const metadata = await readServerMetadata(service, server_url)
  found.set('metadata', `The token endpoint is ${metadata.token_endpoint}`)

  const { identity, trusted } = await requireIdentity(service, user, setup)
  const delegation = openConnector(service, connector, trusted)
  const provider = await findAssertionIssuer(service, trusted)
  const assertion = await requestAssertion(service, provider, identity.id_token, delegation, metadata)
  found.set('provider_exchange', `${trusted.issuer} issued an assertion with the scopes ${assertion.scopes.join(' ')}`)

  const { access_token, scopes } = await redeemAssertion(service, assertion, delegation, metadata)
  found.set('redemption', `The tool server issued an access token with the scopes ${scopes.join(' ')}`)

  found.set('tools_list', await countTools(service, server_url, access_token))
}

/** Uses the consent that the caller gave earlier, and renews an expired token. */
async function takeConsentSteps(
  service: Service,
  user: ToolUser,
  setup: Setup,
  connector: StoredConnector,
  found: Map<TestStep, string>,
): Promise<undefined> {
  const delegate = await requireDelegate(service, user, setup, connector)
  await checkAuthorizationServer(service, delegate)
  const token = await createAccessTokens(service).get(delegate)
  found.set('consent', 'You have connected your account')
  found.set('tools_list', await countTools(service, connector.server_url, token))
}

async function countTools({ fetch }: Service, serverUrl: string, token: string): Promise<string> {
  try {
    const client = await connectClient(serverUrl, (input, init) => fetch(input, withBearer(init, token)))
    const { tools } = await client.listTools(undefined, { timeout: answerWithinMs, cacheMode: 'bypass' })
    return `${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}`
  } catch (error) {
    throw explainRemoteFailure('tools_list', error)
  }
}

const describe = ({ message, expected, seen }: StepFailed): string =>
  expected === undefined ? message : `${message}: expected ${expected}, found ${seen}`
