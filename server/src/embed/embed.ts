import { readFile } from 'node:fs/promises'
import { type Context, Hono } from 'hono'
import { serviceUnavailable } from '../errors.ts'
import { matchesOrigin } from '../lib/origins.ts'
import { fingerprint } from '../lib/secrets.ts'
import { allowedOrigins, type LiveKey } from '../publishable-keys/key-lookup.ts'
import type { Service } from '../service.ts'

const types = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8' }
const dist = new URL('../../../widget/dist/', import.meta.url)

interface BuiltFile {
  text: string
  version: string
}

/** What pages load: the element's script, and the frame that it opens, in which everything else happens. */
export function serveWidget(service: Service): Hono {
  const app = new Hono()
  const read = createReader(service)

  const send = (file: string, type: keyof typeof types) => async (c: Context) => {
    const { text, version } = await read(file)
    const headers = {
      'content-type': types[type],
      // An address with the version in it can be kept for good. The other one is asked for again, which costs little.
      'cache-control': c.req.query('v') === version ? 'public, max-age=31536000, immutable' : 'public, no-cache',
      etag: `"${version}"`,
      ...forEverybody,
    }
    return c.req.header('if-none-match') === headers.etag ? c.body(null, 304, headers) : c.body(text, 200, headers)
  }
  app.get('/widget.js', send('widget.js', 'js'))
  app.get('/embed/frame.js', send('frame.js', 'js'))
  app.get('/embed/frame.css', send('frame.css', 'css'))

  app.get('/embed/', async (c) => {
    const key = await service.keyLookup.find(c.req.query('key') ?? '')
    const isRefused = key !== undefined && refuseOrigin(service, key, c.req.header('referer'))
    const [script, style] = await Promise.all([read('frame.js'), read('frame.css')])
    // The policy says who may embed it; this header could only forbid it to everybody.
    c.header('x-frame-options', undefined)
    return c.body(framePage(service.config.mode, isRefused, script.version, style.version), 200, {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': framePolicy(service, isRefused ? '*' : frameAncestors(key, service.config.mode)),
      ...forEverybody,
    })
  })
  return app
}

/** Pages that are isolated from other origins load only what says that it may be loaded. */
const forEverybody = {
  'cross-origin-resource-policy': 'cross-origin',
  'cross-origin-embedder-policy': 'require-corp',
}

function createReader({ config }: Service) {
  const files = new Map<string, BuiltFile>()
  const load = async (name: string): Promise<BuiltFile> => {
    const text = await readFile(new URL(name, dist), 'utf8').catch((cause) => {
      throw serviceUnavailable('The widget has not been built; run: node scripts/setup.mjs', cause)
    })
    return { text, version: fingerprint(text).slice(0, 16) }
  }
  return async (name: string): Promise<BuiltFile> => {
    const file = files.get(name) ?? (await load(name))
    // Somebody who works on the widget wants to see what they just built.
    if (config.mode === 'production') files.set(name, file)
    return file
  }
}

const framePage = (mode: string, isRefused: boolean, script: string, style: string) => `<!doctype html>
<html lang="en" data-mode="${mode}"${isRefused ? ' data-refused' : ''}><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Agent</title><link rel="stylesheet" href="/embed/frame.css?v=${style}"></head>
<body><noscript>The assistant needs JavaScript.</noscript><script src="/embed/frame.js?v=${script}"></script></body></html>`

function framePolicy({ config }: Service, ancestors: string): string {
  const socket = config.publicUrl.replace(/^http/, 'ws')
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `connect-src 'self' ${socket}`,
    `frame-ancestors ${ancestors}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
}

/**
 * Keeps a refusal for the administrator when the browser names a page that the key isn't allowed on. Such a page gets a
 * frame that does nothing but tell the element so, since a frame that the browser blocks could tell nobody.
 */
function refuseOrigin({ activity, config }: Service, key: LiveKey, referer: string | undefined): boolean {
  const allowed = allowedOrigins(key)
  const page = referer === undefined ? null : URL.parse(referer)
  // Some browsers can be set to name the server itself instead of the page.
  if (!page?.host || page.origin === config.publicUrl) return false
  if (allowed.length === 0 || matchesOrigin(page.origin, allowed)) return false
  const origin = page.origin.slice(0, 300)
  activity.refused(key.organization_id, {
    surface: 'ticket',
    step: 'frame_origin',
    code: 'ORIGIN_NOT_ALLOWED',
    message: `The widget isn’t shown on this page, because its origin isn’t allowed. Add ${origin} to the key’s allowed origins.`,
    expected: allowed.join(', '),
    seen: origin,
    origin,
    publishable_key_id: key.id,
  })
  return true
}

/**
 * The same origins that get tickets. A key without any is good everywhere, so its frame is too. For no key the frame
 * could only say that there is none, which helps those who develop a page.
 */
function frameAncestors(key: LiveKey | undefined, mode: 'development' | 'production'): string {
  if (!key) return mode === 'development' ? '*' : "'none'"
  const origins = allowedOrigins(key)
  return origins.length > 0 ? origins.join(' ') : '*'
}
