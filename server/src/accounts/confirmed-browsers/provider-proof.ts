import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  randomNonce,
  randomPKCECodeVerifier,
} from 'openid-client'
import type { Service } from '../../kernel/foundation/service.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { discover } from '../../visitors/identity-provider/discovery.ts'
import { type VerifiedIdentity, verifyIdToken } from '../../visitors/identity-provider/id-tokens.ts'
import { createIssuerKeys } from '../../visitors/identity-provider/issuer-keys.ts'
import { createConfigurations } from '../sign-in/external.ts'
import { confirmBrowser, type FrameClaim } from './browsers.ts'
import { type ConfirmingProvider, confirmRedirectUri, findConfirmingProvider } from './sign-in-client.ts'

/** Checked when the provider redirects back: the response must belong to this browser and this request. */
interface Pending {
  claim: FrameClaim
  browser: string
  issuer: string
  clientId: string
  nonce: string
  verifier: string
}

const lifetimeSeconds = 10 * 60
/** Per organization, so that one whose users begin many can't end those of others. */
const mostPending = 5_000
const pendingProofs = (organizationId: string) =>
  oneTime<Pending>(`frame-sign-in:${organizationId}`, lifetimeSeconds, mostPending)

export type ProofOutcome =
  | { is: 'confirmed' }
  /** The state is unknown, or was issued to another browser. */
  | { is: 'ended' }
  | { is: 'failed'; error?: unknown }
  /** The user is signed in at the provider as another user. `again` is the address to sign in as another one. */
  | { is: 'another_user'; again: string }

/** A sign-in of the end user at the identity provider that the organization's pages use. */
export function createProviderProof(service: Service) {
  const { clock, config, database, kv } = service
  const configure = createConfigurations(service)
  const keys = createIssuerKeys(service)

  const findProvider = (organizationId: string): Promise<ConfirmingProvider | undefined> =>
    database.asOrg(organizationId, (sql) => findConfirmingProvider(service, sql, organizationId))

  async function configurationOf({ trusted, client }: ConfirmingProvider) {
    // The issuer of a Microsoft tenant that was entered by name is in its discovery document.
    const issuer = trusted.issuerPattern ? (await discover(service, trusted)).issuer : trusted.issuer
    return configure({ issuer, ...client })
  }

  async function addressOf(
    provider: ConfirmingProvider,
    claim: FrameClaim,
    browser: string,
    { asks = false } = {},
  ): Promise<string> {
    const { client, trusted } = provider
    const configuration = await configurationOf(provider)
    const [nonce, verifier] = [randomNonce(), randomPKCECodeVerifier()]
    const pending = { claim, browser, issuer: trusted.issuer, clientId: client.id, nonce, verifier }
    const address = buildAuthorizationUrl(configuration, {
      redirect_uri: confirmRedirectUri({ config }, claim.organizationId),
      scope: 'openid',
      state: await pendingProofs(claim.organizationId).issue(kv, pending),
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(asks && { prompt: 'login' }),
    })
    return address.href
  }

  async function verify(
    provider: ConfirmingProvider,
    pending: Pending,
    search: URLSearchParams,
  ): Promise<VerifiedIdentity> {
    const redirectUri = confirmRedirectUri({ config }, pending.claim.organizationId)
    const { id_token } = await authorizationCodeGrant(
      await configurationOf(provider),
      new URL(`${redirectUri}?${search}`),
      {
        expectedState: search.get('state') ?? '',
        expectedNonce: pending.nonce,
        pkceCodeVerifier: pending.verifier,
        idTokenExpected: true,
      },
    )
    // With the rules for the ID tokens of the pages: the same keys, and the same domain of the organization's users.
    const trusted = { ...provider.trusted, audiences: [provider.client.id] }
    return verifyIdToken(id_token ?? '', { trusted, keys, now: clock() })
  }

  async function isEndUser(
    { organizationId, endUserId }: FrameClaim,
    { issuer, subject }: VerifiedIdentity,
  ): Promise<boolean> {
    const found = await database.asOrg(
      organizationId,
      (sql) => sql`
        select from end_users where id = ${endUserId} and issuer = ${issuer} and external_id = ${subject}`,
    )
    return found.length > 0
  }

  return {
    /** The address at the provider. Undefined if the organization has no client for it. */
    async begin(claim: FrameClaim, browser: string): Promise<string | undefined> {
      const provider = await findProvider(claim.organizationId)
      return provider && addressOf(provider, claim, browser)
    },

    /** `browser` is the fingerprint of the browser that the provider sent back, if it has one. */
    async finish(organizationId: string, search: URLSearchParams, browser: string | undefined): Promise<ProofOutcome> {
      const pending = await pendingProofs(organizationId).take(kv, search.get('state') ?? '')
      if (!pending || pending.browser !== browser || pending.claim.organizationId !== organizationId)
        return { is: 'ended' }
      const { claim, issuer, clientId } = pending
      const provider = await findProvider(organizationId)
      if (!provider || provider.trusted.issuer !== issuer || provider.client.id !== clientId) return { is: 'ended' }
      try {
        if (!(await isEndUser(claim, await verify(provider, pending, search))))
          return { is: 'another_user', again: await addressOf(provider, claim, browser, { asks: true }) }
      } catch (error) {
        return { is: 'failed', error }
      }
      const isConfirmed = await confirmBrowser(service, claim, { browser, how: 'provider', issuer })
      return { is: isConfirmed ? 'confirmed' : 'failed' }
    },
  }
}
