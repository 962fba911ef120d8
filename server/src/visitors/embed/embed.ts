import { readFile } from 'node:fs/promises'
import { type Context, Hono } from 'hono'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { SharedFile, sendFile } from '../../kernel/http/shared-file.ts'
import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import { matchesOrigin } from '../../kernel/net/origins.ts'
import { recordRefusal } from '../../organizations/diagnostics/refusals.ts'
import { allowedOrigins, type KeyLookup, type LiveKey } from '../publishable-keys/key-lookup.ts'

const dist = new URL('../../../../widget/dist/', import.meta.url)

/** For URLs that contain the version of their content. */
const forGood = 'public, max-age=31536000, immutable'
/** Pages load the script without a version, so a short lifetime lets upgrades reach them within minutes. */
const forMinutes = 'public, max-age=300, stale-while-revalidate=3600'

/** Serves the files that pages load: the element's script, the frame that it opens, and the page of a preview. */
export function serveWidget(service: Service & { keyLookup: KeyLookup }): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const read = createReader(service)
  // Widget developers need to see a new build right away.
  const cacheScript = service.config.mode === 'production' ? forMinutes : 'public, no-cache'

  app.get('/widget.js', async (c) => sendScript(c, await read('widget.js'), cacheScript))

  // During an upgrade, a document from one node may request its script from a node with another version, which works.
  app.get('/embed/:file{frame-[\\w-]+\\.js}', async (c) => {
    const file = await read('frame.js')
    const isCurrent = c.req.param('file') === versioned('frame', file)
    return sendScript(c, file, isCurrent ? forGood : 'no-store')
  })

  // A frame needs the view and the texts it was built with. If they aren't found, the widget reloads the frame.
  for (const name of ['view', 'texts-de']) {
    app.get(`/embed/:file{${name}-[\\w-]+\\.js}`, async (c, next) => {
      const file = await read(`${name}.js`)
      if (c.req.param('file') !== versioned(name, file)) return next()
      return sendScript(c, file, forGood)
    })
  }

  app.get('/embed/', async (c) => {
    const key = await service.keyLookup.find(c.req.query('key') ?? '')
    const isRefused = key !== undefined && refuseOrigin(service, key, c.req.header('referer'))
    const script = versioned('frame', await read('frame.js'))
    // The content security policy lists who may embed the frame; X-Frame-Options could only deny everyone.
    c.header('x-frame-options', undefined)
    // Only pages that aren't in a frame have openers.
    c.header('cross-origin-opener-policy', undefined)
    // Every visitor loads the frame, so it has no header that nobody needs.
    c.header('x-request-id', undefined)
    return c.body(framePage(service.config.mode, isRefused, script), 200, {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': framePolicy(service, isRefused ? '*' : frameAncestors(key, service.config.mode)),
      ...forIsolatedPages,
      'cross-origin-embedder-policy': 'require-corp',
    })
  })

  // A page of our own with the widget, for “Try it” in the dashboard. The dashboard passes a token in, so there is none here.
  app.get('/preview', async (c) => {
    c.header('x-frame-options', 'SAMEORIGIN')
    return c.body(previewPage(versioned('preview', await read('preview.js'))), 200, {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': previewPolicy,
    })
  })

  app.get('/embed/:file{preview-[\\w-]+\\.js}', async (c, next) => {
    const file = await read('preview.js')
    if (c.req.param('file') !== versioned('preview', file)) return next()
    return sendScript(c, file, forGood)
  })
  return app
}

/** Cross-origin isolated pages only load resources that send this header. */
const forIsolatedPages = { 'cross-origin-resource-policy': 'cross-origin' }

const documentHeaders = [
  'content-security-policy',
  'x-frame-options',
  'cross-origin-opener-policy',
  'referrer-policy',
  'x-request-id',
]

/** Every visitor loads the scripts, so they're sent without the headers that browsers only apply to documents. */
function sendScript(c: Context<NodeEnv>, file: SharedFile, cacheControl: string): Promise<Response> {
  for (const name of documentHeaders) c.header(name, undefined)
  return sendFile(c, file, { 'cache-control': cacheControl, ...forIsolatedPages })
}

const versioned = (name: string, { version }: SharedFile) => `${name}-${version}.js`

function createReader({ config }: Service) {
  const files = new Map<string, SharedFile>()
  return async (name: string): Promise<SharedFile> => {
    const known = files.get(name)
    // In development, the files are read for each request, because they may have been rebuilt.
    if (known && config.mode === 'production') return known
    const text = await readFile(new URL(name, dist), 'utf8').catch((cause) => {
      throw serviceUnavailable('The widget hasn’t been built. Run: node scripts/setup.mjs', cause)
    })
    const file = new SharedFile(text, 'text/javascript; charset=utf-8')
    if (known?.version === file.version) return known
    files.set(name, file)
    return file
  }
}

/** Without the tags that HTML doesn't require, because every visitor loads it. */
const framePage = (mode: string, isRefused: boolean, script: string) =>
  `<!doctype html><html lang="en" data-mode="${mode}"${isRefused ? ' data-refused' : ''}><meta name="color-scheme" content="light dark"><title>Agent</title><p role="status" tabindex="0"></p><script src="/embed/${script}"></script>`

const previewPage = (script: string) =>
  `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Preview</title><body><script src="/widget.js"></script><script src="/embed/${script}"></script>`

const previewPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "frame-src 'self'",
  "frame-ancestors 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

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
    "require-trusted-types-for 'script'",
  ].join('; ')
}

/**
 * Records a refusal for the administrator if the key isn't allowed on the page in the Referer header. Such a page gets
 * a frame that only reports this to the element, because a frame that the browser blocks couldn't report anything.
 */
function refuseOrigin(service: Service, key: LiveKey, referer: string | undefined): boolean {
  const allowed = allowedOrigins(key)
  const page = referer === undefined ? null : URL.parse(referer)
  // Some browsers can be configured to send the target's origin as the referrer instead of the page's.
  if (!page?.host || page.origin === service.config.publicUrl) return false
  if (allowed.length === 0 || matchesOrigin(page.origin, allowed)) return false
  const origin = page.origin.slice(0, 300)
  recordRefusal(service, key.organization_id, {
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
 * The origins that can get tickets, and our own, for previews. A key without allowed origins works everywhere. Without a valid key, only
 * development serves the frame, so that it can show the developer what's wrong.
 */
function frameAncestors(key: LiveKey | undefined, mode: 'development' | 'production'): string {
  if (!key) return mode === 'development' ? '*' : "'none'"
  const origins = allowedOrigins(key)
  return origins.length > 0 ? ["'self'", ...origins].join(' ') : '*'
}
