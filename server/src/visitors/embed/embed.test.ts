import { readFile } from 'node:fs/promises'
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildWidget } from '../../../../widget/build.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { generateKey } from '../publishable-keys/key-format.ts'

let development: TestService
let production: TestService
beforeAll(async () => {
  await buildWidget()
  development = await startTestService()
  production = await startTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
})
afterAll(async () => {
  await development.close()
  await production.close()
})

async function createKey(app: TestService, allowed_origins: string[] = [], slug: 'demo' | 'other' = 'demo') {
  const token = await app.tokenFor(`admin@${slug}.test`, slug)
  const { body } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop', allowed_origins } })
  return body as { id: string; key: string }
}

async function openFrame(app: TestService, key: string, referer?: string) {
  const headers = { ...(referer && { referer }) }
  const response = await app.fetch(`/embed/?key=${encodeURIComponent(key)}`, { headers })
  return { response, policy: readPolicy(response), html: await response.text() }
}

const readPolicy = ({ headers }: Response): Record<string, string> =>
  Object.fromEntries((headers.get('content-security-policy') ?? '').split('; ').map((part) => part.split(/ (.*)/s)))

describe('the script for pages', () => {
  test('is smaller than 7 KB and self-contained', async () => {
    const response = await production.fetch('/widget.js')
    const text = await response.text()
    expect(response.status).toBe(200)
    expect(gzipSync(text).length).toBeLessThan(7 * 1024)
    expect(text).not.toMatch(/\b(require\(|import\b)/)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=300, stale-while-revalidate=3600',
      'cross-origin-resource-policy': 'cross-origin',
      vary: 'accept-encoding',
    })
    for (const name of ['content-security-policy', 'x-frame-options', 'cross-origin-opener-policy'])
      expect(response.headers.get(name), 'only documents need it').toBeNull()
    expect((await development.fetch('/widget.js')).headers.get('cache-control'), 'for widget developers').toBe(
      'public, no-cache',
    )
  })

  test('is sent in the best encoding that the browser accepts, each with its own ETag', async () => {
    const get = (accepted: string, more = {}) =>
      production.fetch('/widget.js', { headers: { 'accept-encoding': accepted, ...more } })
    const text = await readFile(new URL('../../../../widget/dist/widget.js', import.meta.url))
    const plain = await get('identity')
    const answers = { br: await get('gzip, deflate, br, zstd'), gzip: await get('gzip') }
    expect(Buffer.from(await plain.arrayBuffer())).toEqual(text)
    expect(brotliDecompressSync(await answers.br.arrayBuffer())).toEqual(text)
    expect(gunzipSync(await answers.gzip.arrayBuffer())).toEqual(text)
    expect(plain.headers.get('content-encoding')).toBeNull()
    const tags = [plain, answers.br, answers.gzip].map(({ headers }) => headers.get('etag') ?? '')
    expect(new Set(tags).size).toBe(3)
    for (const [encoding, { headers }] of Object.entries(answers)) {
      expect([headers.get('content-encoding'), headers.get('vary')]).toEqual([encoding, 'accept-encoding'])
      expect(Number(headers.get('content-length'))).toBeLessThan(text.length / 2)
    }
    const [, brotli = '', gzipped = ''] = tags
    expect((await get('br', { 'if-none-match': gzipped })).status, 'the ETag of another encoding').toBe(200)
    const known = await get('br', { 'if-none-match': `"old", W/${brotli}` })
    expect([known.status, await known.text()]).toEqual([304, ''])
    expect(Object.fromEntries(known.headers)).toMatchObject({ etag: brotli, vary: 'accept-encoding' })
  })

  test('responds to HEAD with only headers, and to a range request with the whole file', async () => {
    const get = await production.fetch('/widget.js', { headers: { 'accept-encoding': 'gzip' } })
    const head = await production.fetch('/widget.js', { method: 'HEAD', headers: { 'accept-encoding': 'gzip' } })
    const range = await production.fetch('/widget.js', { headers: { 'accept-encoding': 'gzip', range: 'bytes=0-9' } })
    const telling = ['content-encoding', 'content-length', 'content-type', 'etag', 'vary', 'cache-control']
    const read = ({ headers }: Response) => telling.map((name) => headers.get(name))
    expect([head.status, range.status]).toEqual([200, 200])
    expect([read(head), read(range)]).toEqual([read(get), read(get)])
    expect(await head.text()).toBe('')
  })

  test('is a 304 for a browser that has it cached', async () => {
    const etag = (await production.fetch('/widget.js')).headers.get('etag') ?? ''
    const again = await production.fetch('/widget.js', { headers: { 'if-none-match': etag } })
    expect([again.status, await again.text()]).toEqual([304, ''])
    const other = await production.fetch('/widget.js', { headers: { 'if-none-match': '"other"' } })
    expect(other.status).toBe(200)
  })
})

describe('the frame', () => {
  test('can be embedded only by the key’s allowed origins, and by our own pages', async () => {
    const origins = ['https://shop.example.com', 'https://*.preview.example.com', 'http://localhost:3000']
    const { key } = await createKey(production, origins)
    const { response, policy } = await openFrame(production, key)
    expect(response.status).toBe(200)
    expect(policy['frame-ancestors']).toBe(`'self' ${origins.join(' ')}`)
    expect(response.headers.get('x-frame-options'), 'it could only deny everyone').toBeNull()
    expect(response.headers.get('cache-control'), 'its origins may change').toBe('no-store')
  })

  test('of a key without origins uses the organization’s allowed domains', async () => {
    const { key } = await createKey(production, [], 'other')
    expect((await openFrame(production, key)).policy['frame-ancestors'], 'the key works everywhere').toBe('*')
    const token = await production.tokenFor('admin@other.test', 'other')
    const body = { allowed_domains: ['https://intranet.example.com'] }
    await production.request('PUT', '/organizations/current/allowed-domains', { token, body })
    expect((await openFrame(production, key)).policy['frame-ancestors']).toBe("'self' https://intranet.example.com")
  })

  test('without a live key can be embedded only in development', async () => {
    const { id, key } = await createKey(production, ['https://shop.example.com'])
    await production.request('DELETE', `/publishable-keys/${id}`, {
      token: await production.tokenFor('admin@demo.test', 'demo'),
    })
    for (const wrong of [key, generateKey('pk', 'production'), 'pk_live_x', '', "x'; script-src *"]) {
      expect((await openFrame(production, wrong)).policy['frame-ancestors'], wrong).toBe("'none'")
    }
    expect((await openFrame(development, 'pk_test_x')).policy['frame-ancestors']).toBe('*')
  })

  describe('on a page', () => {
    const refusals = async (app: TestService, keyId: string) => {
      const token = await app.tokenFor('admin@demo.test', 'demo')
      const { body } = await app.request('GET', '/diagnostics/refusals?limit=100', { token })
      return body.refusals.filter((each: { publishable_key_id: string }) => each.publishable_key_id === keyId)
    }
    const isRefused = (html: string) => html.includes(' data-refused>')

    test('whose origin is not allowed reports this to the page, and records it for the administrator', async () => {
      const { id, key } = await createKey(production, ['https://shop.example.com', 'https://*.preview.example.com'])
      for (const path of ['', 'cart?secret=1']) {
        const { policy, html } = await openFrame(production, key, `https://www.example.com/${path}`)
        expect([isRefused(html), policy['frame-ancestors'], policy['script-src']]).toEqual([true, '*', "'self'"])
      }
      expect(await refusals(production, id)).toEqual([
        {
          id: expect.any(String),
          surface: 'ticket',
          step: 'frame_origin',
          code: 'ORIGIN_NOT_ALLOWED',
          message:
            'The widget isn’t shown on this page, because its origin isn’t allowed. Add https://www.example.com to the key’s allowed origins.',
          expected: 'https://shop.example.com, https://*.preview.example.com',
          seen: 'https://www.example.com',
          origin: 'https://www.example.com',
          publishable_key_id: id,
          directory_id: null,
          directory_name: null,
          count: 2,
          first_at: expect.any(String),
          last_at: expect.any(String),
        },
      ])
    })

    test.each([
      ['an allowed page', 'https://shop.example.com/cart'],
      ['a page under an allowed wildcard', 'https://pr-1.preview.example.com/'],
      ['nothing', undefined],
      ['the service itself, as some browsers are configured to do', 'https://inlay.example.com/embed/'],
      ['a URL that is not a page', 'about:blank'],
      ['an invalid URL', 'https://'],
    ])('is not refused if the browser sends %s as the referrer', async (_, referer) => {
      const { id, key } = await createKey(production, ['https://shop.example.com', 'https://*.preview.example.com'])
      const { html, policy } = await openFrame(production, key, referer)
      expect([isRefused(html), policy['frame-ancestors']]).toEqual([
        false,
        "'self' https://shop.example.com https://*.preview.example.com",
      ])
      expect(await refusals(production, id)).toEqual([])
    })

    test('cannot flood the administrator’s list: its length and the size of its entries are limited', async () => {
      const { id, key } = await createKey(development, ['https://shop.example.com'])
      await openFrame(development, key, `https://${'a'.repeat(10_000)}.example`)
      const [kept] = await refusals(development, id)
      expect([kept.seen.length, kept.origin.length]).toEqual([300, 300])
      expect(kept.message.length).toBeLessThan(500)
      for (let n = 0; n < 300; n++) {
        await openFrame(development, key, `https://n${n}.example`)
        if (n % 40 === 0) await development.service.activity.flush()
      }
      await development.service.activity.flush()
      const token = await development.tokenFor('admin@demo.test', 'demo')
      const { body } = await development.request('GET', '/diagnostics/refusals', { token })
      expect(body.total).toBe(200)
    })
  })

  test('runs only its own scripts and connects only to its own server', async () => {
    const { key } = await createKey(production)
    const { policy, html } = await openFrame(production, key)
    expect(policy).toMatchObject({
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self'",
      'connect-src': "'self' wss://inlay.example.com",
      'base-uri': "'none'",
      'form-action': "'none'",
    })
    expect(html, 'the request is not reflected').not.toContain(key)
    expect(html).toContain('data-mode="production"')
  })

  test('has scripts that browsers can cache forever, because each version has its own URL', async () => {
    const { html } = await openFrame(production, '')
    const [, script = ''] = /<script src="([^"]+)"/.exec(html) ?? []
    const text = await (await production.fetch(script)).text()
    const [view = ''] = /\/embed\/view-[\w-]+\.js/.exec(text) ?? []
    const [texts = ''] = /\/embed\/texts-de-[\w-]+\.js/.exec(text) ?? []
    const caching = async (path: string) => {
      const { status, headers } = await production.fetch(path)
      return [status, headers.get('cache-control')]
    }
    for (const address of [script, view, texts]) {
      expect(await caching(address), address).toEqual([200, 'public, max-age=31536000, immutable'])
    }
    const other = (address: string) => address.replace(/-.*/, '-other.js')
    expect(await caching(other(script)), 'requested by a document of another version').toEqual([200, 'no-store'])
    for (const address of [view, texts])
      expect(await caching(other(address)), 'a frame of another version needs its own').toEqual([404, 'no-store'])
  })
})

describe('the page of a preview', () => {
  test('can only be embedded by our own pages, and runs only our own scripts', async () => {
    const response = await production.fetch('/preview')
    const html = await response.text()
    expect(response.headers.get('x-frame-options')).toBe('SAMEORIGIN')
    expect(response.headers.get('cache-control')).toBe('no-store')
    const policy = readPolicy(response)
    expect(policy).toMatchObject({
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self'",
      'frame-ancestors': "'self'",
      'require-trusted-types-for': "'script'",
    })
    const script = html.match(/\/embed\/preview-[\w-]+\.js/)?.[0] ?? ''
    const loaded = await production.fetch(script)
    expect([loaded.status, loaded.headers.get('cache-control')]).toEqual([200, expect.stringContaining('immutable')])
    expect((await production.fetch('/embed/preview-older.js')).status).toBe(404)
  })
})
