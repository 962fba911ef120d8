import { isIP } from 'node:net'
import type { Service } from '../../kernel/foundation/service.ts'

type WithConfig = Pick<Service, 'config'>

/** Who browsers create passkeys for: the public URL's host. */
export function relyingParty({ config }: WithConfig): { origin: string; rpId: string } {
  return { origin: config.publicUrl, rpId: new URL(config.publicUrl).hostname }
}

/** Browsers don't create passkeys for IP addresses. */
export const hasPasskeys = (service: WithConfig): boolean =>
  isIP(relyingParty(service).rpId.replace(/[[\]]/g, '')) === 0

/** Authenticators store it with the passkey, and return it when a user signs in. */
export const userHandleOf = (userId: string): string => Buffer.from(userId).toString('base64url')

/** EdDSA, ES256 and RS256: together, all authenticators support one. */
const algorithms = [-8, -7, -257]

/** WebAuthn's options for a new passkey, as JSON. Binary values are base64url. */
export const creationOptions = (
  service: WithConfig,
  { id, email, name }: { id: string; email: string; name: string },
  { challenge, known }: { challenge: string; known: readonly { credential_id: string }[] },
) => ({
  challenge,
  rp: { id: relyingParty(service).rpId, name: 'Inlay' },
  user: { id: userHandleOf(id), name: email, displayName: name },
  pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
  excludeCredentials: known.map(({ credential_id }) => ({ type: 'public-key', id: credential_id })),
  authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
  attestation: 'none',
})

/** WebAuthn's options for a sign-in. The authenticator offers the passkeys that it has for this server. */
export const requestOptions = (service: WithConfig, challenge: string) => ({
  challenge,
  rpId: relyingParty(service).rpId,
  userVerification: 'required',
})
