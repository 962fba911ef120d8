import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import * as oidc from 'openid-client'
import { clientId } from '../client.ts'

export interface ShopOptions {
  url: string
  /** The identity provider where users of the shop sign in. */
  issuer: string
  /** Inlay's URL, which the page needs together with the publishable key. */
  inlayUrl: string
  publishableKey: string
}

interface Session {
  idToken: string
  name: string
  expiresAt: number
}

const files: Record<string, { file: URL; type: string }> = {
  '/shop.js': { file: new URL('shop.js', import.meta.url), type: 'text/javascript' },
  '/shop.css': { file: new URL('shop.css', import.meta.url), type: 'text/css' },
  '/webmcp-polyfill.js': {
    file: new URL(import.meta.resolve('@mcp-b/webmcp-polyfill/iife')),
    type: 'text/javascript',
  },
}

/** A separate web application. It signs users in, and gives the page the ID token for the widget. */
export function createShop({ url, issuer, inlayUrl, publishableKey }: ShopOptions): RequestListener {
  const sessions = new Map<string, Session>()
  const attempts = new Map<string, string>()
  let discovered: Promise<oidc.Configuration> | undefined
  const provider = () => {
    discovered ??= oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), {
      execute: [oidc.allowInsecureRequests],
    })
    return discovered
  }

  const pages: Record<string, (request: IncomingMessage, response: ServerResponse) => Promise<void>> = {
    async 'GET /'(_, response) {
      const html = await readFile(new URL('shop.html', import.meta.url), 'utf8')
      const filled = html.replaceAll('{{inlay}}', inlayUrl).replaceAll('{{key}}', publishableKey)
      response.setHeader('content-type', 'text/html; charset=utf-8').end(filled)
    },

    async 'GET /sign-in'(_, response) {
      const verifier = oidc.randomPKCECodeVerifier()
      const state = oidc.randomState()
      attempts.set(state, verifier)
      const address = oidc.buildAuthorizationUrl(await provider(), {
        redirect_uri: `${url}/callback`,
        scope: 'openid',
        // The provider's session outlives the shop's, and a user who signed out may want to sign in as another user.
        prompt: 'login',
        state,
        code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      })
      redirect(response, address.href)
    },

    async 'GET /callback'(request, response) {
      const address = new URL(request.url ?? '/', url)
      const state = address.searchParams.get('state') ?? ''
      const verifier = attempts.get(state)
      attempts.delete(state)
      if (!verifier) return redirect(response, '/')
      const tokens = await oidc.authorizationCodeGrant(await provider(), address, {
        pkceCodeVerifier: verifier,
        expectedState: state,
        idTokenExpected: true,
      })
      const claims = tokens.claims()
      if (!tokens.id_token || !claims) throw new Error('The identity provider returned no ID token')
      const id = randomUUID()
      sessions.set(id, { idToken: tokens.id_token, name: String(claims.name), expiresAt: claims.exp * 1000 })
      redirect(response, '/', `shop-session=${id}; Path=/; HttpOnly; SameSite=Lax`)
    },

    async 'POST /sign-out'(request, response) {
      sessions.delete(sessionIdOf(request))
      redirect(response, '/', 'shop-session=; Path=/; Max-Age=0')
    },

    async 'GET /session'(request, response) {
      const session = sessions.get(sessionIdOf(request))
      const answer = session && session.expiresAt > Date.now() ? { name: session.name, idToken: session.idToken } : {}
      response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' })
      response.end(JSON.stringify(answer))
    },
  }

  return async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', url)
    const file = files[pathname]
    const page = pages[`${request.method} ${pathname}`]
    if (file) response.setHeader('content-type', file.type).end(await readFile(file.file))
    else if (page) await page(request, response)
    else response.writeHead(404).end('Not found')
  }
}

const sessionIdOf = ({ headers }: IncomingMessage) => /shop-session=([\w-]+)/.exec(headers.cookie ?? '')?.[1] ?? ''

function redirect(response: ServerResponse, location: string, cookie?: string): void {
  response.writeHead(303, { location, ...(cookie && { 'set-cookie': cookie }) }).end()
}
