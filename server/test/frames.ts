import { hash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { confirmBrowser } from '../src/accounts/confirmed-browsers/browsers.ts'
import type { HttpService } from './http-server.ts'

/** The key of a widget's frame, without a browser. */
export interface FrameKey {
  thumbprint: string
  /** The headers with which the frame exchanges the ID token for a ticket. */
  headers(idToken: string, changes?: ProofChanges): Promise<Record<string, string>>
}

export interface ProofChanges {
  header?: Record<string, unknown>
  claims?: Record<string, unknown>
}

export async function createFrameKey(url: string, now: () => number = Date.now): Promise<FrameKey> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = await exportJWK(publicKey)
  return {
    thumbprint: await calculateJwkThumbprint(jwk),
    async headers(idToken, { header, claims } = {}) {
      const payload = {
        htm: 'POST',
        htu: `${url}/api/auth/pk-ticket`,
        ath: hash('sha256', idToken, 'base64url'),
        jti: randomUUID(),
        iat: Math.floor(now() / 1000),
        ...claims,
      }
      const dpop = await new SignJWT(payload)
        .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk, ...header })
        .sign(privateKey)
      return { origin: url, dpop }
    },
  }
}

/** Confirms a key as the sign-in at the provider does. Needs the trusted provider's issuer. */
export async function confirmFrame(
  app: Pick<HttpService, 'service' | 'organization'>,
  { thumbprint }: Pick<FrameKey, 'thumbprint'>,
  endUserId: string,
  { issuer, browser = randomUUID() }: { issuer: string; browser?: string },
): Promise<void> {
  const organizationId = await app.organization('demo')
  const claim = { organizationId, endUserId, thumbprint, verifiedEmail: null }
  if (!(await confirmBrowser(app.service, claim, { browser, how: 'provider', issuer })))
    throw new Error('The frame could not be confirmed')
}
