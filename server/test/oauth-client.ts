import * as oauth from 'openid-client'
import { Browser } from './browser.ts'

export const nativeUri = 'http://127.0.0.1/callback'
export const webUri = 'https://app.example.com/callback'

type Metadata = Partial<oauth.ClientMetadata>

/** Registers a client dynamically, without a secret by default. */
export async function register(url: string, metadata: Metadata = {}): Promise<oauth.Configuration> {
  return oauth.dynamicClientRegistration(
    new URL(url),
    { client_name: 'Tool', redirect_uris: [webUri], token_endpoint_auth_method: 'none', ...metadata },
    undefined,
    { execute: [oauth.allowInsecureRequests] },
  )
}

/** A client identified by the URL of its metadata document. */
export const introduce = (url: string, id: string): Promise<oauth.Configuration> =>
  oauth.discovery(new URL(url), id, { token_endpoint_auth_method: 'none' }, oauth.None(), {
    execute: [oauth.allowInsecureRequests],
  })

export interface Attempt {
  browser: Browser
  url: URL
  verifier: string
}

/** Builds an authorization request with openid-client. */
export async function prepare(
  config: oauth.Configuration,
  parameters: Record<string, string | undefined> = {},
  browser = new Browser(config.serverMetadata().issuer),
): Promise<Attempt> {
  const verifier = oauth.randomPKCECodeVerifier()
  const all = {
    redirect_uri: webUri,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state: 'state',
    ...parameters,
  }
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return { browser, verifier, url: oauth.buildAuthorizationUrl(config, Object.fromEntries(given)) }
}

/** Registers a client and opens its authorization request in a browser. */
export async function begin(url: string, metadata: Metadata = {}, parameters = {}, browser = new Browser(url)) {
  const config = await register(url, metadata)
  const attempt = await prepare(config, parameters, browser)
  await browser.open(attempt.url)
  return { config, attempt, browser }
}

/** Signs in as a demo user, chooses an organization and allows the request. */
export async function allow(attempt: Attempt, email: string, organization = 'Demo'): Promise<URL> {
  const { browser, url } = attempt
  await browser.open(url)
  if (browser.text.includes('to continue to')) await browser.press(email)
  if (browser.html.includes('<h1>Choose an organization</h1>')) await browser.follow(organization)
  if (!browser.left) await browser.press('Allow')
  if (!browser.left) throw new Error(`The browser was not redirected: ${browser.text}`)
  return browser.left
}

export const exchange = (config: oauth.Configuration, { verifier }: Attempt, answer: URL) =>
  oauth.authorizationCodeGrant(config, answer, { pkceCodeVerifier: verifier, expectedState: 'state' })

/** Runs the whole flow, from registration to tokens. */
export async function obtain(
  config: oauth.Configuration,
  email: string,
  { organization, ...parameters }: Record<string, string> = {},
) {
  const attempt = await prepare(config, parameters)
  return exchange(config, attempt, await allow(attempt, email, organization))
}

// biome-ignore lint/suspicious/noExplicitAny: claims of every kind
export const claimsOf = (token: string): any =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
