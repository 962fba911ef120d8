import {
  finishSignIn,
  leaveToSignIn,
  passOnFromPopup,
  refreshTokens,
  SignInFailed,
  signInInBackground,
  signInInPopup,
  type TokenResponse,
} from './sign-in.ts'

/** Tokens are only kept in memory: no other script, tab or later visitor can read them. */
interface Tokens {
  access: string
  refresh: string
  /** Milliseconds since the Unix epoch. */
  expiresAt: number
  userId: string
  organizationId: string | undefined
}

let tokens: Tokens | undefined

function readTokens({ access_token, refresh_token, expires_in }: TokenResponse): Tokens {
  const claims = JSON.parse(atob((access_token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')))
  return {
    access: access_token,
    refresh: refresh_token,
    expiresAt: Date.now() + expires_in * 1_000,
    userId: claims.sub,
    organizationId: claims.org_id,
  }
}

/** The organization that this tab works in. */
export const currentOrganizationId = (): string | undefined => tokens?.organizationId

const slugIn = (path: string) => /^\/o\/([^/]+)/.exec(path)?.[1]

/** Opens the session after a sign-in. Otherwise the browser leaves to sign in, or the page is a pop-up that is done. */
export async function openSession(): Promise<'open' | 'leaving' | 'passed on'> {
  const { pathname, search, hash } = location
  if (pathname === '/signed-in') {
    const query = new URLSearchParams(search)
    if (passOnFromPopup(query)) return 'passed on'
    const done = await finishSignIn(query)
    if (!done) return 'leaving'
    tokens = readTokens(done.tokens)
    history.replaceState(null, '', done.returnTo)
    return 'open'
  }
  await leaveToSignIn({ returnTo: pathname + search + hash, organization: slugIn(pathname), isSilent: true })
  return 'leaving'
}

/** A token is for one organization, so another one needs another token. */
export const switchOrganization = (slug: string, returnTo = `/o/${slug}`): Promise<void> =>
  leaveToSignIn({ returnTo, organization: slug, isSilent: true })

/** Opens or replaces the session without leaving the page. Returns false if the user has to sign in first. */
export async function openSessionInBackground(organization?: string): Promise<boolean> {
  const answer = await signInInBackground(organization)
  if (answer) tokens = readTokens(answer)
  return answer !== undefined
}

/** Opens the session by signing in in a window of its own. */
export async function openSessionInPopup(signal: AbortSignal): Promise<void> {
  tokens = readTokens(await signInInPopup(undefined, signal))
}

export const isSignedIn = (): boolean => tokens !== undefined

/** The token's last minute doesn't count, because clocks differ. */
const spareMs = 60_000

async function currentToken(): Promise<string> {
  if (!tokens || tokens.expiresAt - spareMs < Date.now()) await renew(tokens?.access)
  return tokens?.access ?? ''
}

let renewal: Promise<void> | undefined

/** Replaces a token that is no longer accepted. Concurrent requests share one renewal, which may wait for the user. */
function renew(used: string | undefined): Promise<void> {
  if (tokens && tokens.access !== used) return Promise.resolve()
  renewal ??= replaceTokens().finally(() => {
    renewal = undefined
  })
  return renewal
}

async function replaceTokens(): Promise<void> {
  try {
    if (tokens) tokens = readTokens(await refreshTokens(tokens.refresh))
  } catch (error) {
    if (!(error instanceof SignInFailed && error.code === 'invalid_grant')) throw error
    await new Promise<void>((resolve) => setEnding({ signedInAgain: resolve }))
  }
}

/** Sends a request as the signed-in user. If the session has ended, it waits until the user has signed in again. */
export async function authorizedFetch(request: Request): Promise<Response> {
  const token = await currentToken()
  const response = await send(request.clone(), token)
  if (response.status !== 401) return response
  await renew(token)
  return send(request, await currentToken())
}

function send(request: Request, token: string): Promise<Response> {
  request.headers.set('authorization', `Bearer ${token}`)
  return fetch(request)
}

let ending: { signedInAgain: () => void } | undefined
const listeners = new Set<() => void>()

function setEnding(next: typeof ending): void {
  ending = next
  for (const listener of listeners) listener()
}

/** Whether the session has ended while the dashboard was in use. */
export const sessionEnd = {
  subscribe(listener: () => void) {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
  hasEnded: () => ending !== undefined,
  /** Another user would see what this one has typed, so for another user the page starts again. */
  async signInAgain(slug: string | undefined, signal: AbortSignal): Promise<void> {
    const fresh = readTokens(await signInInPopup(slug, signal))
    if (fresh.userId !== tokens?.userId || fresh.organizationId !== tokens.organizationId) return location.assign('/')
    tokens = fresh
    ending?.signedInAgain()
    setEnding(undefined)
  },
}
