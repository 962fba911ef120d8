const clientId = 'inlay-dashboard'
const redirectUri = `${location.origin}/signed-in`
const storageKey = 'inlay-sign-in'

/** A sign-in that this tab has started. It holds no token, so it may be stored until the browser returns. */
interface Attempt {
  state: string
  verifier: string
  /** Where the user was. */
  returnTo: string
  organization?: string | undefined
  isSilent?: boolean
}

export interface TokenResponse {
  access_token: string
  refresh_token: string
  expires_in: number
}

export class SignInFailed extends Error {
  override name = 'SignInFailed'
  readonly code: string
  constructor(code: string, description: string | null) {
    super(description ?? code)
    this.code = code
  }
}

const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)))

async function authorizationUrl({ state, verifier, organization, isSilent }: Attempt): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))
  const query = new URLSearchParams({
    client_id: clientId,
    response_type: 'code',
    scope: 'openid inlay',
    redirect_uri: redirectUri,
    state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: 'S256',
    ...(organization && { organization }),
    ...(isSilent && { prompt: 'none' }),
  })
  return `/oauth/authorize?${query}`
}

/** Leaves the dashboard to sign in. A silent sign-in shows nothing, and returns even if nobody is signed in. */
export async function leaveToSignIn(plan: Pick<Attempt, 'returnTo' | 'organization' | 'isSilent'>): Promise<void> {
  const attempt = { ...plan, state: random(), verifier: random() }
  sessionStorage.setItem(storageKey, JSON.stringify(attempt))
  location.replace(await authorizationUrl(attempt))
}

function takeAttempt(state: string | null): Attempt | undefined {
  const text = sessionStorage.getItem(storageKey)
  sessionStorage.removeItem(storageKey)
  const attempt = text ? (JSON.parse(text) as Attempt) : undefined
  return attempt?.state === state ? attempt : undefined
}

/**
 * Redeems what the authorization server answered. Returns undefined if the browser leaves again: after a silent attempt
 * without a session, the user signs in.
 */
export async function finishSignIn(
  query: URLSearchParams,
): Promise<{ returnTo: string; tokens: TokenResponse } | undefined> {
  const attempt = takeAttempt(query.get('state'))
  if (!attempt) return leaveToSignIn({ returnTo: '/', isSilent: true }).then(() => undefined)
  const { returnTo, organization, isSilent, verifier } = attempt
  const error = query.get('error')
  if (error && isSilent) return leaveToSignIn({ returnTo, organization }).then(() => undefined)
  if (error) throw new SignInFailed(error, query.get('error_description'))
  return { returnTo, tokens: await redeemCode(query.get('code') ?? '', verifier) }
}

const redeemCode = (code: string, verifier: string) =>
  requestTokens({ grant_type: 'authorization_code', code, code_verifier: verifier, redirect_uri: redirectUri })

export const refreshTokens = (refreshToken: string): Promise<TokenResponse> =>
  requestTokens({ grant_type: 'refresh_token', refresh_token: refreshToken })

async function requestTokens(parameters: Record<string, string>): Promise<TokenResponse> {
  const response = await fetch('/oauth/token', {
    method: 'POST',
    body: new URLSearchParams({ client_id: clientId, ...parameters }),
  })
  const answer = await response.json().catch(() => ({}))
  if (!response.ok) throw new SignInFailed(answer.error ?? `HTTP ${response.status}`, answer.error_description ?? null)
  return answer
}

/**
 * Signs in without leaving the page. The authorization server redirects to this origin, so the answer is in the address
 * that the request ended at. Returns undefined without a session in this browser.
 */
export async function signInInBackground(organization?: string): Promise<TokenResponse | undefined> {
  const attempt: Attempt = { state: random(), verifier: random(), returnTo: '', organization, isSilent: true }
  const { url } = await fetch(await authorizationUrl(attempt))
  const answer = new URL(url).searchParams
  const code = answer.get('code')
  return code && answer.get('state') === attempt.state ? redeemCode(code, attempt.verifier) : undefined
}

const popupPrefix = 'popup.'
const channelName = 'inlay-sign-in'

/** Signs in again in a window of its own, so that this page keeps everything that was typed into it. */
export async function signInInPopup(organization: string | undefined, signal: AbortSignal): Promise<TokenResponse> {
  const attempt: Attempt = { state: popupPrefix + random(), verifier: random(), returnTo: '', organization }
  // Opened right away: browsers block windows that open some time after a click.
  const popup = window.open('', 'inlay-sign-in', 'popup,width=480,height=720')
  if (!popup) throw new SignInFailed('popup_blocked', 'Allow pop-up windows for this site, and try again.')
  const channel = new BroadcastChannel(channelName)
  try {
    popup.location = await authorizationUrl(attempt)
    const answer = await new Promise<string>((resolve, reject) => {
      channel.onmessage = ({ data }) => data.state === attempt.state && resolve(data.query)
      signal.addEventListener('abort', () => reject(signal.reason))
    })
    const query = new URLSearchParams(answer)
    const error = query.get('error')
    if (error) throw new SignInFailed(error, query.get('error_description'))
    return await redeemCode(query.get('code') ?? '', attempt.verifier)
  } finally {
    channel.close()
  }
}

/** In the window that `signInInPopup` opened: passes the answer on. A code is worthless without its verifier. */
export function passOnFromPopup(query: URLSearchParams): boolean {
  const state = query.get('state')
  if (!state?.startsWith(popupPrefix)) return false
  const channel = new BroadcastChannel(channelName)
  channel.postMessage({ state, query: query.toString() })
  channel.close()
  window.close()
  return true
}
