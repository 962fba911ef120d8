import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { type Context, Hono } from 'hono'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { SharedFile, sendFile } from '../../kernel/http/shared-file.ts'
import { serviceUnavailable } from '../../kernel/lib/errors.ts'

const dist = new URL('../../../../dashboard/dist/', import.meta.url)

/** The dashboard's URLs, whose script decides what each of them shows, and the API reference. */
const pages = {
  '/': 'index.html',
  '/signed-in': 'index.html',
  '/signed-out': 'index.html',
  '/organizations/new': 'index.html',
  '/o/:slug': 'index.html',
  '/o/:slug/*': 'index.html',
  '/api/docs': 'reference.html',
}

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}

/** Names of assets contain a hash of their content. */
const forGood = 'public, max-age=31536000, immutable'

const policyFor = ({ github }: Service['config']) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "frame-src 'self'",
    // The registration of a GitHub app starts with a form that GitHub receives.
    `form-action 'self' ${github.url}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ')

/** Serves the dashboard, a client of the REST API that runs in the browser. */
export function serveDashboard(service: Service): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const read = createReader(service)
  const policy = policyFor(service.config)

  for (const [path, name] of Object.entries(pages)) {
    app.get(path, async (c) => {
      c.set('operation' as never, 'dashboard' as never)
      const file = await read(name)
      if (!file) throw serviceUnavailable('The dashboard hasn’t been built. Run: node scripts/setup.mjs')
      return sendFile(c, file, { 'cache-control': 'no-cache', 'content-security-policy': policy })
    })
  }
  app.get('/assets/:name{[\\w.-]+}', async (c: Context<NodeEnv>, next) => {
    c.set('operation' as never, 'dashboard assets' as never)
    const file = await read(`assets/${c.req.param('name')}`)
    return file ? sendFile(c, file, { 'cache-control': forGood }) : next()
  })
  return app
}

/** Reads built files. In production they're kept, because they only change with an upgrade. */
function createReader({ config }: Service) {
  const files = new Map<string, SharedFile>()
  return async (name: string): Promise<SharedFile | undefined> => {
    const known = files.get(name)
    if (known && config.mode === 'production') return known
    const type = types[extname(name)]
    const content = type && (await readBuilt(name))
    if (!content) return undefined
    const file = new SharedFile(content, type, { br: await readBuilt(`${name}.br`) })
    if (known?.version === file.version) return known
    files.set(name, file)
    return file
  }
}

const readBuilt = (name: string) => readFile(new URL(name, dist)).catch(ignoreMissing)

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
