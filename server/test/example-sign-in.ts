import { createHash, randomBytes } from 'node:crypto'
import { clientId } from '../../examples/client.ts'
import { Browser } from './browser.ts'

export const redirectUri = 'http://localhost/callback'

/** Signs in at the example's identity provider with the code flow and PKCE, and returns the ID token. */
export async function signInAtExample(issuer: string, person: string): Promise<string> {
  const verifier = randomBytes(32).toString('base64url')
  const query = new URLSearchParams({
    client_id: clientId,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: redirectUri,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  const browser = await new Browser(issuer).open(`/auth?${query}`)
  await browser.press(person)
  const response = await fetch(`${issuer}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: browser.left?.searchParams.get('code') ?? '',
      client_id: clientId,
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }),
  })
  return ((await response.json()) as { id_token: string }).id_token
}
