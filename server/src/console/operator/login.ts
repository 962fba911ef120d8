import { spawn } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeJwt } from 'jose'
import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  dynamicClientRegistration,
  None,
  ResponseBodyError,
  randomPKCECodeVerifier,
  randomState,
  refreshTokenGrant,
  type TokenEndpointResponse,
} from 'openid-client'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { CommandFailed } from './command-failed.ts'
import { type Credentials, credentialsFile, readCredentials, saveCredentials, whileLocked } from './credentials.ts'

const patienceMs = 10 * 60_000

/** The code flow for native apps (RFC 8252): the browser signs in and redirects to a local port. */
export async function login(text: string): Promise<void> {
  const url = readUrl(text)
  const listener = createServer()
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  try {
    const redirectUri = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/callback`
    const configuration = await register(url, redirectUri).catch((error) => {
      throw unreachable(url, error)
    })
    const [state, verifier] = [randomState(), randomPKCECodeVerifier()]
    const resource = resources(url).api
    const address = buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      resource,
      state,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    }).href
    console.log(`Sign in with your browser. If it doesn't open, go to:\n  ${address}`)
    openBrowser(address)
    const line = await waitForRedirect(listener, redirectUri, state, async (back) => {
      const tokens = await authorizationCodeGrant(
        configuration,
        back,
        { expectedState: state, pkceCodeVerifier: verifier },
        { resource },
      )
      const line = await describeCaller(url, tokens.access_token)
      const credentials = describeTokens(configuration.clientMetadata().client_id, tokens)
      await whileLocked(async () => saveCredentials(url, credentials))
      return line
    })
    console.log(`${line}. The tokens are stored in ${credentialsFile()}`)
  } finally {
    listener.close()
    listener.closeAllConnections()
  }
}

/** Ends the session, including in the browser. The stored tokens are deleted even if the server can't be reached. */
export async function endLogin(text: string): Promise<void> {
  const url = readUrl(text)
  await whileLocked(async () => {
    const credentials = requireCredentials(url)
    saveCredentials(url, undefined)
    try {
      const { access_token } = await renew(url, credentials)
      const headers = { authorization: `Bearer ${access_token}` }
      const { status } = await fetch(`${url}/api/auth/logout`, { method: 'POST', headers })
      if (status !== 200 && status !== 401) throw new Error(`it responded with status ${status}`)
    } catch (error) {
      if (hasEnded(error)) return
      throw new CommandFailed(
        `Deleted the tokens from ${credentialsFile()}, but couldn't revoke them at ${url} (${(error as Error).message}). They stay valid until they expire.`,
        { cause: error },
      )
    }
  })
  console.log(`Signed out of ${url}`)
}

/** Prints only the token, so that it can be used in a command substitution. */
export async function printLoginToken(text: string): Promise<void> {
  const url = readUrl(text)
  const { access_token } = await whileLocked(async () => {
    const credentials = requireCredentials(url)
    const fresh = await renew(url, credentials).catch((error) => {
      throw hasEnded(error)
        ? new CommandFailed(`Your sign-in has ended. Sign in again with: npx inlay login --url ${url}`, {
            cause: error,
          })
        : unreachable(url, error)
    })
    if (fresh !== credentials) saveCredentials(url, fresh)
    return fresh
  })
  process.stdout.write(`${access_token}\n`)
}

function requireCredentials(url: string): Credentials {
  const credentials = readCredentials()[url]
  if (!credentials)
    throw new CommandFailed(`You aren't signed in to ${url}. Sign in with: npx inlay login --url ${url}`)
  return credentials
}

/** Renews an access token that is about to expire. */
async function renew(url: string, credentials: Credentials): Promise<Credentials> {
  const { client_id, refresh_token, expires_at } = credentials
  if (Date.parse(expires_at) - Date.now() > 60_000 || !refresh_token) return credentials
  const configuration = await discovery(new URL(url), client_id, undefined, None(), options(url))
  return describeTokens(client_id, await refreshTokenGrant(configuration, refresh_token))
}

const hasEnded = (error: unknown) => error instanceof ResponseBodyError && error.error === 'invalid_grant'

const describeTokens = (client_id: string, tokens: TokenEndpointResponse): Credentials => ({
  client_id,
  access_token: tokens.access_token,
  refresh_token: tokens.refresh_token,
  expires_at: new Date(Date.now() + (tokens.expires_in ?? 0) * 1000).toISOString(),
})

/** Requires https, except for loopback addresses, so that tokens are never sent in plain text. */
function readUrl(text: string): string {
  const url = URL.parse(text)
  const isLocal = url?.protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
  if (!url || (url.protocol !== 'https:' && !isLocal) || url.href !== `${url.origin}/`) {
    throw new CommandFailed(`--url must be an origin such as https://inlay.example.com, not "${text}"`)
  }
  return url.origin
}

const options = (url: string) => ({
  algorithm: 'oauth2' as const,
  execute: url.startsWith('http:') ? [allowInsecureRequests] : [],
})

const register = (url: string, redirectUri: string): Promise<Configuration> =>
  dynamicClientRegistration(
    new URL(url),
    {
      client_name: 'Inlay command line',
      application_type: 'native',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
    None(),
    options(url),
  )

const unreachable = (url: string, error: Error) =>
  new CommandFailed(`Can't sign in to ${url}: ${error.message}. Is an Inlay server running there?`, {
    cause: error,
  })

function openBrowser(address: string): void {
  const [program, ...args] =
    process.platform === 'darwin'
      ? ['open']
      : process.platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler']
        : ['xdg-open']
  const child = spawn(program, [...args, address], { stdio: 'ignore', detached: true })
  // Ignored, because the URL has been printed.
  child.on('error', () => undefined)
  child.unref()
}

/** Responds to the browser once the tokens are stored. Requests without our state are rejected. */
function waitForRedirect(
  listener: Server,
  redirectUri: string,
  state: string,
  finish: (back: URL) => Promise<string>,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const expiry = setTimeout(
      () => reject(new CommandFailed('Timed out: the sign-in was not completed within ten minutes')),
      patienceMs,
    )
    let isTaken = false
    listener.on('request', async (request, response) => {
      const back = new URL(request.url ?? '/', redirectUri)
      if (isTaken || back.pathname !== '/callback' || back.searchParams.get('state') !== state) {
        response.writeHead(404).end()
        return
      }
      isTaken = true
      clearTimeout(expiry)
      const show = (title: string, text: string) =>
        new Promise<void>((shown) => {
          const html = page(title, `<h1>${title}</h1><p>${escapeHtml(text)}. You can close this page.</p>`)
          response.writeHead(200, { ...pageHeaders, connection: 'close' }).end(html, shown)
        })
      try {
        const line = await finish(back)
        await show('You’re signed in', line)
        resolve(line)
      } catch (error) {
        await show('Sign-in failed', 'See the command line for the reason')
        reject(explain(error))
      }
    })
  })
}

function explain(error: unknown): unknown {
  if (!(error instanceof AuthorizationResponseError)) return error
  return new CommandFailed(
    error.error === 'access_denied'
      ? 'Access was denied'
      : `The server returned an error: ${error.error_description ?? error.error}`,
    { cause: error },
  )
}

async function describeCaller(url: string, token: string): Promise<string> {
  const response = await fetch(`${url}/api/users/me`, { headers: { authorization: `Bearer ${token}` } })
  if (!response.ok) throw new CommandFailed(`${url} rejected the token that it issued (status ${response.status})`)
  const me = (await response.json()) as { email: string; organizations: { id: string; name: string }[] }
  // Decoded without verification, because it is only displayed.
  const { org_id } = decodeJwt(token)
  const organization = me.organizations.find(({ id }) => id === org_id)
  return `Signed in as ${me.email}${organization ? ` for ${organization.name}` : ', without an organization'}`
}
