import type { OrgCaller } from '../access.ts'
import { recordAudit, trailOf } from '../audit/audit.ts'
import { notFound } from '../errors.ts'
import type { Input, Output } from '../operation.ts'
import type { Service } from '../service.ts'
import { openConnector } from './connectors.ts'
import { type testConnector as contract, testSteps } from './contract.ts'
import { readSetup, requireIdentity, type Setup } from './delegates.ts'
import { answerWithinMs, connectClient, explain, withBearer } from './remote-clients.ts'
import { readServerMetadata } from './server-metadata.ts'
import { StepFailed } from './steps.ts'
import { redeemAssertion, requestAssertion } from './token-exchange.ts'

type TestStep = (typeof testSteps)[number]

export async function testConnector(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract>,
): Promise<Output<typeof contract>> {
  const setup = await service.database.asOrg(caller.organization.id, (sql) => readSetup(service, sql))
  const found = new Map<TestStep, string>()
  const problem = await takeSteps(service, caller, setup, id, found).catch((error) => {
    if (error instanceof StepFailed) return error
    throw error
  })
  const success = problem === undefined
  await service.database.asOrg(caller.organization.id, (sql) =>
    recordAudit(sql, trailOf(caller), 'connector.tested', id, { success }),
  )
  const failed = testSteps.find((step) => !found.has(step))
  const steps = testSteps.map((step) => {
    const message = found.get(step)
    if (message !== undefined) return { step, status: 'ok' as const, message }
    return step === failed && problem
      ? { step, status: 'failed' as const, message: describe(problem) }
      : { step, status: 'skipped' as const, message: '' }
  })
  return { success, steps }
}

/** The flow as it is for a call, but without anything remembered, telling what each step finds. */
async function takeSteps(
  service: Service,
  caller: OrgCaller,
  setup: Setup,
  id: string,
  found: Map<TestStep, string>,
): Promise<undefined> {
  const connector = setup.connectors.find((each) => each.id === id)
  if (!connector) throw notFound('connector', id)
  const { server_url } = connector
  const delegation = openConnector(service, connector)

  const metadata = await readServerMetadata(service, server_url)
  found.set('metadata', `Tokens come from ${metadata.token_endpoint}`)

  const { identity, trusted } = await requireIdentity(service, caller, setup)
  const assertion = await requestAssertion(service, trusted, identity.id_token, delegation, metadata)
  found.set('provider_exchange', `${trusted.issuer} vouches for you, for ${assertion.scopes.join(' ')}`)

  const { access_token, scopes } = await redeemAssertion(service, assertion, delegation, metadata)
  found.set('redemption', `The tool server gives you ${scopes.join(' ')}`)

  const tools = await listTools(service, server_url, access_token).catch((error) => {
    throw explain('tools_list', error)
  })
  found.set('tools_list', `${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}`)
}

async function listTools({ fetch }: Service, serverUrl: string, token: string) {
  const client = await connectClient(serverUrl, (input, init) => fetch(input, withBearer(init, token)))
  const { tools } = await client.listTools(undefined, { timeout: answerWithinMs, cacheMode: 'bypass' })
  return tools
}

const describe = ({ message, expected, seen }: StepFailed): string =>
  expected === undefined ? message : `${message}: expected ${expected}, but it is ${seen}`
