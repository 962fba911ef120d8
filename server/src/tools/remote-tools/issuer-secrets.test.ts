import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Delegation, hub, hubAtIdp, memberClaims, startDelegation, startIdp } from '../../../test/delegation.ts'

let world: Delegation
let me: Awaited<ReturnType<Delegation['caller']>>
beforeAll(async () => {
  world = await startDelegation()
  me = await world.caller()
})
afterAll(() => world.close())
beforeEach(() => world.reset())

const trust = (idp_issuer: string) => world.asAdmin('PATCH', '/identity-providers/config', { idp_issuer })

/** Makes the organization trust another provider, which the member signs in with. */
async function replaceProvider() {
  const other = await startIdp(() => Math.floor(world.clock.now / 1000))
  await trust(other.url)
  onTestFinished(async () => {
    await trust(world.idp.url)
    await other.stop()
  })
  const { body: key } = await world.asAdmin('POST', '/publishable-keys', { name: 'Shop' })
  const signIn = async () => {
    const id_token = await other.idToken(memberClaims)
    const { status } = await world.request('POST', '/auth/pk-ticket', { body: { publishable_key: key.key, id_token } })
    expect(status).toBe(200)
  }
  return { other, signIn }
}

const basic = (id: string, secret: string) =>
  `Basic ${btoa(`${id}:${new URLSearchParams({ '': secret }).toString().slice(1)}`)}`

describe.each([
  ['a secret of its own', {}, 'idp_client_secret', hubAtIdp.idp_client_id],
  [
    'the tool server’s secret',
    { idp_client_id: undefined, idp_client_secret: undefined },
    'client_secret',
    hub.client_id,
  ],
] as const)('a connector with %s for the identity provider', (_, changes, field, clientId) => {
  test('sends it only to the provider that it was entered for', async () => {
    const { id } = await world.addConnector(changes)
    await world.connect()
    await me.call('crm.whoami')
    const { other, signIn } = await replaceProvider()
    await signIn()

    await expect(me.call('crm.whoami')).rejects.toThrow(`Enter ${field} again for this one`)
    expect(other.tokenRequests(), 'the new provider got neither the secret nor the ID token').toEqual([])
    await world.service.activity.flush()
    expect(await world.refusals()).toMatchObject([
      { step: 'provider_exchange', expected: world.idp.url, seen: other.url },
    ])
    const tested = await world.asAdmin('POST', `/connectors/${id}/test`)
    expect(tested.body.success).toBe(false)
    expect(other.tokenRequests()).toEqual([])

    const isOwn = field === 'idp_client_secret'
    const secret = isOwn ? 'entered-for-the-new-provider' : hub.client_secret
    await world.asAdmin('PATCH', `/connectors/${id}`, { [field]: secret })
    await me.call('crm.whoami').catch(() => 'The tool server doesn’t trust the new provider')
    expect(other.tokenRequests()[0]?.headers.get('authorization')).toBe(basic(clientId, secret))
  })
})

test('a connector that was created before the provider was configured needs its secret again', async () => {
  await world.asAdmin('PATCH', '/identity-providers/config', { idp_type: null })
  const { id } = await world.addConnector()
  await world.asAdmin('PATCH', '/identity-providers/config', { idp_type: 'custom_oidc' })
  await world.connect()
  await expect(me.call('crm.whoami')).rejects.toThrow('Enter idp_client_secret again')
  expect(world.idp.tokenRequests()).toEqual([])
  await world.asAdmin('PATCH', `/connectors/${id}`, { idp_client_secret: hubAtIdp.idp_client_secret })
  await me.call('crm.whoami')
})

test.each([
  ['another name', { name: 'tracker' }],
  ['other scopes', { scopes: ['mcp:tools:read'] }],
  ['the tool server’s secret, if it has one of its own for the provider', { client_secret: hub.client_secret }],
])('a change of a connector to %s doesn’t give its secret to a new provider', async (_, change) => {
  const { id } = await world.addConnector()
  const { other, signIn } = await replaceProvider()
  await signIn()
  await world.asAdmin('PATCH', `/connectors/${id}`, change)
  const call = me.call(`${'name' in change ? change.name : 'crm'}.whoami`)
  await expect(call).rejects.toThrow('Enter idp_client_secret again')
  expect(other.tokenRequests()).toEqual([])
})
