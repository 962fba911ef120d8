import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openConnector, selectStoredConnectors } from '../src/tools/connectors/connectors.ts'
import { startTestService, type TestResponse, type TestService } from './harness.ts'

/**
 * A secret must never be sent to a host other than the one that it was entered for. Every encrypted column of an
 * organization's tables is here: with a change that would send it elsewhere, or with the reason why there is none.
 */

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update organizations set plan_id = 'enterprise'`,
  )
})
afterAll(() => app.close())

const send = async (method: string, path: string, body: object): Promise<TestResponse> =>
  app.request(method, path, { token, body })
const save = async (method: string, path: string, body: object): Promise<TestResponse> => {
  const answer = await send(method, path, body)
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return answer
}

const connector = {
  kind: 'id_jag',
  server_url: 'http://127.0.0.1:9/mcp',
  client_id: 'hub',
  client_secret: 'for-the-server',
}
const idpClient = { idp_client_id: 'hub', idp_client_secret: 'for-the-provider' }
const trust = (idp_issuer: string) => ({ idp_type: 'custom_oidc', idp_issuer })
const model = (host: string) => ({ provider: 'openai_compatible', url: `http://${host}/v1`, name: 'some-model' })

/** The field that has to be sent again, by the column whose secret would go elsewhere. */
const moves: Record<string, { field: string; move: () => Promise<TestResponse> }> = {
  'governance_providers.api_key_sealed': {
    field: 'api_key',
    async move() {
      const config = { provider_key: 'byo', interceptor_url: 'http://127.0.0.1:9/a', interceptor_name: 'Mine' }
      await save('PATCH', '/governance/providers/config', { ...config, api_key: 'for-this-interceptor' })
      return send('PATCH', '/governance/providers/config', { interceptor_url: 'http://127.0.0.2:9/a' })
    },
  },
  'agent_settings.model_keys_sealed': {
    field: 'model.key',
    async move() {
      await save('PATCH', '/agent/config', { model: { ...model('127.0.0.1:9'), key: 'for-this-host' } })
      return send('PATCH', '/agent/config', { model: model('127.0.0.2:9') })
    },
  },
  'frame_sign_in.client_secret_sealed': {
    field: 'client_secret',
    async move() {
      await save('PATCH', '/identity-providers/config', trust('http://127.0.0.1:9/one'))
      await save('PUT', '/identity-providers/frame-sign-in', { client_id: 'inlay', client_secret: 'for-this-issuer' })
      await save('PATCH', '/identity-providers/config', trust('http://127.0.0.1:9/two'))
      return send('PUT', '/identity-providers/frame-sign-in', { client_id: 'inlay' })
    },
  },
  'sign_in_providers.client_secret_sealed': {
    field: 'client_secret',
    async move() {
      const provider = { issuer: 'https://one.example', client_id: 'inlay' }
      await save('PUT', '/organizations/current/sign-in', { ...provider, client_secret: 'for-this-issuer' })
      return send('PUT', '/organizations/current/sign-in', { ...provider, issuer: 'https://two.example' })
    },
  },
  'connectors.client_secret_sealed': {
    field: 'server_url',
    async move() {
      const { body } = await save('POST', '/connectors', { ...connector, name: 'moved' })
      return send('PATCH', `/connectors/${body.id}`, { server_url: 'http://127.0.0.2:9/mcp' })
    },
  },
}

describe.each(Object.entries(moves))('%s', (_, { field, move }) => {
  test('isn’t sent to another address: the change needs the secret again, or is refused', async () => {
    const { status, body } = await move()
    expect({ status, code: body.data?.code }).toEqual({ status: 400, code: 'VALIDATION_ERROR' })
    expect(body.data.field === field || JSON.stringify(body.data).includes(field), JSON.stringify(body)).toBe(true)
  })
})

/** Nothing refuses this change, because end users need the new provider: the secret stays closed instead. */
const closed = ['connectors.idp_client_secret_sealed']
test.each([
  ['connectors.idp_client_secret_sealed', idpClient],
  ['connectors.client_secret_sealed, which is also for the provider', {}],
])('%s isn’t opened for another identity provider', async (_, ofProvider) => {
  await save('PATCH', '/identity-providers/config', trust('http://127.0.0.1:9/one'))
  const { body } = await save('POST', '/connectors', {
    ...connector,
    ...ofProvider,
    name: `c-${'idp_client_id' in ofProvider}`,
  })
  await save('PATCH', '/identity-providers/config', trust('http://127.0.0.1:9/two'))
  const [stored] = await app.service.database.asOrg(await app.organization('demo'), (sql) =>
    selectStoredConnectors(sql, body.id),
  )
  const open = (issuer: string) => () => openConnector(app.service, stored as never, { issuer, audiences: null })
  expect(open('http://127.0.0.1:9/two')).toThrow('was entered for another identity provider')
  expect(open('http://127.0.0.1:9/one')).not.toThrow()
})

/** Secrets that are sent nowhere, or only to an address that no administrator of an organization can change. */
const staying: Record<string, string> = {
  'publishable_keys.key_sealed': 'shown to administrators, sent nowhere',
  'github_apps.client_secret_sealed': 'sent to GitHub, whose address the operator sets',
  'github_apps.private_key_sealed': 'signs requests to GitHub, whose address the operator sets',
  'github_apps.webhook_secret_sealed': 'checks requests, sent nowhere',
}

test('every encrypted column of an organization has a case or a reason', async () => {
  const columns = await app.service.database.asService(
    (sql) => sql<{ name: string }>`
      select c.table_name || '.' || c.column_name as name from information_schema.columns c
      where c.table_schema = 'public' and c.column_name like '%\\_sealed' and exists (
        select from information_schema.columns o
        where o.table_schema = 'public' and o.table_name = c.table_name and o.column_name = 'organization_id')`,
  )
  const known = [...Object.keys(moves), ...closed, ...Object.keys(staying)]
  expect(columns.map(({ name }) => name).toSorted()).toEqual(known.toSorted())
})
