import { createPublicKey, type KeyObject, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { jwtVerify, SignJWT } from 'jose'
import type { Provider } from 'oidc-provider'
import { errors } from '../../server/src/accounts/authorization-server/library.ts'

export const tokenExchange = 'urn:ietf:params:oauth:grant-type:token-exchange'
export const idJag = 'urn:ietf:params:oauth:token-type:id-jag'
const idToken = 'urn:ietf:params:oauth:token-type:id_token'
/** Lifetime of an assertion, in seconds. */
const lifetime = 300

/**
 * A row of the administrator's list: the client can act for users who signed in to the application `id_token_audience`,
 * at this server, with these scopes.
 */
export interface AllowedExchange {
  client_id: string
  id_token_audience: string
  audience: string
  resource: string
  scopes: string[]
}

/** Reads the list from its file, with the tool server's URL filled in. */
export async function readAllowList(toolServerUrl: string): Promise<AllowedExchange[]> {
  const text = await readFile(new URL('allow-list.json', import.meta.url), 'utf8')
  return JSON.parse(text.replaceAll('{tool_server}', toolServerUrl))
}

interface TokenExchangeOptions {
  issuer: string
  privateKey: KeyObject
  kid: string
  allowed: readonly AllowedExchange[]
  findSignedInUser(sub: unknown): { sub: string; email: string } | undefined
}

const parameters = ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope']

/** RFC 8693, but only for ID tokens, which are exchanged for assertions (ID-JAG) for a tool server. */
export function addTokenExchange(provider: Provider, options: TokenExchangeOptions): void {
  const { issuer, privateKey, kid, allowed, findSignedInUser } = options
  const publicKey = createPublicKey(privateKey)

  provider.registerGrantType<Record<string, string | undefined>>(
    tokenExchange,
    async (ctx) => {
      const { client, params } = ctx.oidc
      if (params.subject_token_type !== idToken) throw new errors.InvalidRequest('subject_token_type must be id_token')
      if (params.requested_token_type !== idJag) throw new errors.InvalidRequest('requested_token_type must be id-jag')
      const rows = allowed.filter(({ client_id }) => client_id === client.clientId)
      const row = rows.find(({ audience, resource }) => audience === params.audience && resource === params.resource)
      if (!row) throw new errors.InvalidTarget('the administrator does not allow this audience and resource')
      const person = await readPerson(String(params.subject_token), row.id_token_audience)
      const scope = (params.scope?.split(' ') ?? []).filter((each) => row.scopes.includes(each)).join(' ')
      if (!scope) throw new errors.InvalidScope('the administrator allows none of these scopes', params.scope ?? '')

      ctx.body = {
        access_token: await assert({ ...row, scope }, person),
        issued_token_type: idJag,
        // An assertion isn't an access token.
        token_type: 'N_A',
        expires_in: lifetime,
        scope,
      }
    },
    parameters,
  )

  async function readPerson(token: string, audience: string) {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, publicKey, { issuer, audience })
      const person = findSignedInUser(payload.sub)
      // Other tokens that this provider signs have another type.
      if (person && (protectedHeader.typ ?? 'JWT') === 'JWT') return person
    } catch {}
    throw new errors.InvalidGrant('subject_token is not a valid ID token')
  }

  function assert({ client_id, audience, resource, scope }: AllowedExchange & { scope: string }, person: Person) {
    return new SignJWT({ client_id, resource, scope, email: person.email })
      .setProtectedHeader({ typ: 'oauth-id-jag+jwt', alg: 'ES256', kid })
      .setIssuer(issuer)
      .setSubject(person.sub)
      .setAudience(audience)
      .setIssuedAt()
      .setExpirationTime(`${lifetime} seconds`)
      .setJti(randomUUID())
      .sign(privateKey)
  }
}

type Person = NonNullable<ReturnType<TokenExchangeOptions['findSignedInUser']>>
