import type { RequestListener } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { clientId } from '../../../../examples/client.ts'
import { createIdentityProvider } from '../../../../examples/identity-provider/identity-provider.ts'
import { type NotesServer, startNotesServer } from '../../../../tool-server/test/notes-server.ts'
import { noWorkers } from '../../../../tool-server/test/workers.ts'
import { Browser } from '../../../test/browser.ts'
import { redirectUri, signInAtExample } from '../../../test/example-sign-in.ts'
import type { Email } from '../../../test/harness.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { useHttps } from '../../../test/https-server.ts'
import { cert, key } from '../../../test/localhost-certificate.ts'
import { callerFor } from '../../../test/shop.ts'
import { createPasswordLink } from '../../accounts/sign-in/password-pages.ts'
import { findLocalAccount } from '../../accounts/users/local-accounts.ts'

const asAdmin = async (app: HttpService, method: string, path: string, body?: unknown) =>
  app.request(method, path, { token: await app.tokenFor('admin@demo.test', 'demo'), body })

async function addConnector(app: HttpService, server: NotesServer, kind: string, more = {}): Promise<string> {
  // Marked read-only, because no page is open to ask in.
  const read_only_tools = ['list_notes', 'add_note']
  const body = { name: 'notes', kind, server_url: server.resource, read_only_tools, ...more }
  const answer = await asAdmin(app, 'POST', '/connectors', body)
  expect(answer).toMatchObject({ status: 200 })
  return answer.body.id
}

/** Continues from our page to the server's. */
async function goToServer(ours: Browser, { url }: NotesServer): Promise<Browser> {
  await ours.press('Connect')
  await ours.follow(`Continue to ${new URL(url).host}`)
  return new Browser(url).open(ours.left?.href ?? '')
}

/** Calls one of the server's tools and parses its result. */
async function ask(me: Awaited<ReturnType<typeof callerFor>>, tool: string, args = {}) {
  const { content } = await me.call(`notes.${tool}`, args)
  return JSON.parse((content[0] as { text: string }).text)
}

const failure = (step: string, message: unknown) =>
  expect.objectContaining({
    envelope: expect.objectContaining({ code: 'DELEGATION_FAILED', message, data: { connector: 'notes', step } }),
  })

const title = 'a server made with @cloudflare/workers-oauth-provider'
describe.skipIf(noWorkers)(noWorkers ? `${title}: ${noWorkers}` : title, () => {
  let app: HttpService
  let server: NotesServer
  let me: Awaited<ReturnType<typeof callerFor>>
  let connectorId = ''
  beforeAll(async () => {
    app = await startHttpService()
    server = await startNotesServer(cert)
    me = await callerFor(app, 'member@demo.test', 'demo')
  })
  afterAll(async () => {
    await app.close()
    await server.stop()
  })
  beforeEach(async () => {
    for (const { id } of (await asAdmin(app, 'GET', '/connectors')).body.connectors)
      await asAdmin(app, 'DELETE', `/connectors/${id}`)
    await server.forget('')
  })

  describe('that asks users for consent', () => {
    beforeEach(async () => {
      connectorId = await addConnector(app, server, 'oauth')
    })

    const openPage = async (email: Email = 'member@demo.test') =>
      (await new Browser(app.url).open(`/connect/${connectorId}`)).press(email)

    async function connect(user: string, email?: Email) {
      const ours = await openPage(email)
      const theirs = await goToServer(ours, server)
      const { text: shown, page } = theirs
      await theirs.press('Allow', { user })
      await ours.open(theirs.left?.href ?? '')
      expect(ours.text).toContain('You’re connected to notes')
      return { ours, shown, sent: Object.fromEntries(page?.url.searchParams ?? []) }
    }

    const consentNeeded = () => failure('consent', expect.stringContaining(`${app.url}/connect/${connectorId}`))

    test('registers Inlay and lets a member act with their account there', async () => {
      await expect(me.call('notes.list_notes')).rejects.toEqual(consentNeeded())
      const { shown, sent } = await connect('ada')
      expect(shown).toContain('Inlay, vouched for by nobody, asks for notes:read')
      expect(sent).toMatchObject({ resource: server.resource, code_challenge_method: 'S256' })
      expect((await me.tools()).map(({ name }) => name)).toEqual(['notes.list_notes', 'notes.add_note'])
      expect(await ask(me, 'list_notes')).toEqual({ user: 'ada', notes: [] })
      expect(await server.records('client:')).toHaveLength(1)
    })

    test('distinguishes members', async () => {
      await connect('ada')
      const admin = await callerFor(app, 'admin@demo.test', 'demo')
      await expect(admin.call('notes.list_notes')).rejects.toEqual(consentNeeded())
      await connect('bob', 'admin@demo.test')
      expect([await ask(me, 'list_notes'), await ask(admin, 'list_notes')]).toMatchObject([
        { user: 'ada' },
        { user: 'bob' },
      ])
      expect(await server.records('client:'), 'one registration for all').toHaveLength(1)
    })

    test.each<[string, () => unknown]>([
      [
        'according to the hub’s clock',
        () => {
          app.clock.now += 3600_000
          onTestFinished(() => {
            app.clock.now -= 3600_000
          })
        },
      ],
      ['according to the server', () => server.forget('token:')],
    ])('renews an access token that has expired %s', async (_, expire) => {
      await connect('ada')
      await ask(me, 'list_notes')
      const [before, [grant]] = [await server.records('token:'), await server.records('grant:')]
      await expire()
      expect(await ask(me, 'list_notes')).toMatchObject({ user: 'ada' })
      const after = await server.records('token:')
      expect(after.filter((name) => !before.includes(name))).toHaveLength(1)
      expect(await server.records('grant:'), 'without new consent').toEqual([grant])
    })

    test('asks for consent again after it was revoked there', async () => {
      await connect('ada')
      await ask(me, 'list_notes')
      await Promise.all([server.forget('grant:'), server.forget('token:')])
      await expect(me.call('notes.list_notes')).rejects.toEqual(consentNeeded())
      await connect('ada')
      expect(await ask(me, 'list_notes')).toMatchObject({ user: 'ada' })
    })

    test('registers Inlay again after losing its registration', async () => {
      await connect('ada')
      await Promise.all([server.forget('client:'), server.forget('token:')])
      await expect(me.call('notes.list_notes')).rejects.toEqual(consentNeeded())
      await connect('ada')
      expect(await ask(me, 'list_notes')).toMatchObject({ user: 'ada' })
    })

    test('is asked for a tool’s additional scope with the next consent', async () => {
      await connect('mel')
      await expect(me.call('notes.add_note', { text: 'Milk' })).rejects.toEqual(consentNeeded())
      const { shown } = await connect('mel')
      expect(shown).toContain('asks for notes:read offline_access notes:write')
      expect(await ask(me, 'add_note', { text: 'Milk' })).toEqual({ user: 'mel', notes: ['Milk'] })
    })

    test('is asked for the administrator’s scopes and issues a single token', async () => {
      await asAdmin(app, 'PATCH', `/connectors/${connectorId}`, { scopes: ['notes:read'] })
      const { shown } = await connect('ada')
      expect(shown).toContain('asks for notes:read offline_access')
      await ask(me, 'list_notes')
      await ask(me, 'list_notes')
      expect(await server.records('token:')).toHaveLength(1)
    })

    test('issues fewer scopes after an administrator reduces them', async () => {
      await asAdmin(app, 'PATCH', `/connectors/${connectorId}`, { scopes: ['notes:read', 'notes:write'] })
      await connect('sal')
      expect(await ask(me, 'add_note', { text: 'Salt' })).toEqual({ user: 'sal', notes: ['Salt'] })
      await asAdmin(app, 'PATCH', `/connectors/${connectorId}`, { scopes: ['notes:read'] })
      await expect(me.call('notes.add_note', { text: 'Sugar' })).rejects.toEqual(
        failure('tools_call', expect.anything()),
      )
      expect(await ask(me, 'list_notes')).toEqual({ user: 'sal', notes: ['Salt'] })
    })

    test('isn’t connected if the user declines', async () => {
      const ours = await openPage()
      const theirs = await goToServer(ours, server)
      await theirs.press('Deny')
      await ours.open(theirs.left?.href ?? '')
      expect(ours.text).toContain('The server denied access.')
    })

    test('can be disconnected', async () => {
      const { ours } = await connect('ada')
      await ours.press('Disconnect')
      expect(ours.text).toContain('Connect notes?')
      expect([await server.records('grant:'), await server.records('token:')], 'also revoked at the server').toEqual([
        [],
        [],
      ])
      await expect(me.call('notes.list_notes')).rejects.toEqual(consentNeeded())
    })
  })

  describe('that trusts an organization’s identity provider', () => {
    const scopes = ['notes:read', 'notes:write']
    const [secretAtProvider, jwtBearer] = ['hub-at-the-provider', 'urn:ietf:params:oauth:grant-type:jwt-bearer']

    /** Registers the hub as a client at the server, and lets that client act there at the identity provider. */
    async function setUp({ isTrusted = true, audience = server.url, audience_mode = 'issuer' } = {}) {
      const { client_id, client_secret } = await registerHub()
      let serve: RequestListener = () => undefined
      const issuer = await useHttps((request, response) => serve(request, response))
      const row = { client_id, id_token_audience: clientId, audience, resource: server.resource, scopes }
      serve = createIdentityProvider(issuer, [{ id: clientId, redirectUri }], {
        hub: { id: client_id, secret: secretAtProvider },
        allowed: [row],
      })
      if (isTrusted) await server.trust(issuer, `${issuer}/jwks`)
      const provider = { idp_type: 'custom_oidc', idp_issuer: issuer, allowed_audiences: [clientId] }
      await asAdmin(app, 'PATCH', '/identity-providers/config', provider)
      const hub = { client_id, client_secret, idp_client_secret: secretAtProvider, idp_client_id: client_id }
      connectorId = await addConnector(app, server, 'id_jag', { ...hub, scopes, audience_mode })
      const { body } = await asAdmin(app, 'POST', '/publishable-keys', { name: 'Shop' })
      return async (person: string) => {
        const id_token = await signInAtExample(issuer, person)
        // The provider uses the time of day, and the service's clock stands still.
        app.clock.now = Date.now()
        const ticket = await app.request('POST', '/auth/pk-ticket', { body: { publishable_key: body.key, id_token } })
        expect(ticket).toMatchObject({ status: 200 })
      }
    }

    async function registerHub() {
      const response = await fetch(`${server.url}/register`, {
        method: 'POST',
        body: JSON.stringify({
          client_name: 'The hub',
          redirect_uris: [redirectUri],
          grant_types: [jwtBearer],
          response_types: [],
          token_endpoint_auth_method: 'client_secret_post',
        }),
      })
      return (await response.json()) as { client_id: string; client_secret: string }
    }

    test('lets each user act as themselves without signing in there', async () => {
      const signIn = await setUp()
      await signIn('Demo Member member@demo.test')
      await signIn('Demo Admin admin@demo.test')
      expect((await me.tools()).map(({ name }) => name)).toEqual(['notes.list_notes', 'notes.add_note'])
      expect(await ask(me, 'add_note', { text: 'Eggs' })).toEqual({ user: 'member@demo.test', notes: ['Eggs'] })
      const admin = await callerFor(app, 'admin@demo.test', 'demo')
      expect(await ask(admin, 'list_notes')).toEqual({ user: 'admin@demo.test', notes: [] })
      expect(await server.records('token:'), 'one each').toHaveLength(2)
      expect((await asAdmin(app, 'POST', `/connectors/${connectorId}/test`)).body).toEqual({
        success: true,
        steps: [
          { step: 'metadata', status: 'ok', message: `The token endpoint is ${server.url}/token` },
          { step: 'provider_exchange', status: 'ok', message: expect.stringContaining(scopes.join(' ')) },
          {
            step: 'redemption',
            status: 'ok',
            message: `The tool server issued an access token with the scopes ${scopes.join(' ')}`,
          },
          { step: 'tools_list', status: 'ok', message: '2 tools' },
        ],
      })
    })

    test('gets a new assertion after it rejects an access token', async () => {
      const signIn = await setUp()
      await signIn('Demo Member member@demo.test')
      await ask(me, 'list_notes')
      await server.forget('token:')
      expect(await ask(me, 'list_notes')).toMatchObject({ user: 'member@demo.test' })
    })

    test.each<[string, () => Parameters<typeof setUp>[0], () => string]>([
      ['of an untrusted provider', () => ({ isTrusted: false }), () => ''],
      [
        'for the resource if it expects its issuer as the audience',
        () => ({ audience: server.resource, audience_mode: 'resource' }),
        () => `. If the server expects ${server.url} as the audience, set audience_mode to issuer`,
      ],
    ])('rejects assertions %s', async (_, options, advice) => {
      const signIn = await setUp(options())
      await signIn('Demo Member member@demo.test')
      const refusal = 'responded with status 400: invalid_grant, Invalid assertion'
      const message = `notes: ${server.url}/token ${refusal}${advice()}`
      await expect(me.call('notes.list_notes')).rejects.toEqual(failure('redemption', message))
    })
  })

  test('identifies Inlay by its metadata document if both use TLS', async () => {
    let passOn: RequestListener = () => undefined
    const url = await useHttps((request, response) => passOn(request, response))
    const production = await startHttpService({
      INLAY_PUBLIC_URL: url,
      INLAY_ALLOWED_PRIVATE_NETWORKS: '127.0.0.0/8,::1/128',
    })
    passOn = production.listener
    const tlsServer = await startNotesServer(cert, { key, cert })
    onTestFinished(async () => {
      await production.close()
      await tlsServer.stop()
    })
    const id = await addConnector(production, tlsServer, 'oauth')
    const [email, password] = ['member@demo.test' as const, 'correct horse battery']
    const account = await findLocalAccount(production.service, email)
    const ours = new Browser(url)
    if (account) await ours.open(await createPasswordLink(production.service, url, account))
    await ours.press('Set password', { password, repeated: password })
    await ours.open(`/connect/${id}`)
    await ours.press('Sign in', { email, password })
    const theirs = await goToServer(ours, tlsServer)
    expect(theirs.text).toContain('Inlay, vouched for by localhost, asks for notes:read')
    await theirs.press('Allow', { user: 'ada' })
    await ours.open(theirs.left?.href ?? '')
    const member = await callerFor(production, email, 'demo')
    expect(await ask(member, 'list_notes')).toEqual({ user: 'ada', notes: [] })
    await tlsServer.forget('token:')
    expect(await ask(member, 'list_notes'), 'with a renewed token').toEqual({ user: 'ada', notes: [] })
    expect(await tlsServer.records('client:'), 'no client is registered').toEqual([])
  })
})
