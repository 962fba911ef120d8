import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from './harness.ts'

/** Asks a production server for every page, at every place where it could be. */

let app: TestService
beforeAll(async () => {
  app = await startTestService({
    INLAY_PUBLIC_URL: 'https://inlay.example.com',
    SIGN_IN_ISSUER: 'https://idp.example.com',
    SIGN_IN_CLIENT_ID: 'inlay',
  })
})
afterAll(() => app.close())

/** Where routers of pages are mounted. */
const places = ['', '/setup', '/sign-in', '/billing', '/oauth/interaction']
const source = join(import.meta.dirname, '../src')
const patterns = globSync('**/*.ts', { cwd: source, exclude: ['**/*.test.ts'] }).flatMap((file) =>
  [...readFileSync(join(source, file), 'utf8').matchAll(/\.get\(\s*['`](\/[^'`]*)/g)].map(([, path = '']) => path),
)
const own = [
  '/',
  '/oauth/authorize',
  '/oauth/logout',
  '/oauth/logout/confirm',
  '/api/docs',
  '/mcp',
  '/ag-ui',
  '/scim/v2/Users',
]
const paths = [...patterns.flatMap((path) => places.map((place) => place + path)), ...own].map((path) =>
  path.replaceAll(/\/:[a-z]+(\{[^}]*\})?/g, `/${crypto.randomUUID()}`),
)

const answers: { path: string; headers: Headers; isPage: boolean }[] = []
beforeAll(async () => {
  for (const path of new Set(paths.sort())) {
    const { headers } = await app.fetch(`${path}?key=pk_live_x&state=x&token=x`)
    answers.push({ path, headers, isPage: /html/.test(headers.get('content-type') ?? '') })
  }
})

test('the walk finds the pages', () => {
  expect(answers.filter(({ isPage }) => isPage).length).toBeGreaterThan(15)
})

test('no page of another origin can put a page into a frame, except the chat’s frame on the pages of its key', () => {
  const framed = answers.flatMap(({ path, headers, isPage }) => {
    const ancestors = /frame-ancestors ([^;]*)/.exec(headers.get('content-security-policy') ?? '')?.[1]
    const isDenied = ancestors === "'none'" && (!isPage || headers.get('x-frame-options') === 'DENY')
    return isDenied ? [] : [[path, ancestors]]
  })
  expect(framed).toEqual([
    // For an unknown key.
    ['/embed/', "'none'"],
    // The dashboard shows it, and only then gives it a token.
    ['/preview', "'self'"],
    // A script. Browsers show it as text.
    ['/widget.js', undefined],
  ])
})

test('no page of another origin keeps a handle on a window with a page, except with the one that the frame opens', () => {
  const open = answers.filter(
    ({ headers, isPage }) => isPage && headers.get('cross-origin-opener-policy') !== 'same-origin',
  )
  expect(open.map(({ path }) => path.replace(/[\w-]{36}/, ':id'))).toEqual([
    '/embed/',
    '/embed/confirm',
    '/embed/confirm/:id/callback',
  ])
})

test('browsers use TLS for everything, and send cookies to this host only', () => {
  expect(answers.filter(({ headers }) => !headers.has('strict-transport-security'))).toEqual([])
  const cookies = answers.flatMap(({ headers }) => headers.getSetCookie())
  expect(cookies.length).toBeGreaterThan(0)
  for (const cookie of cookies) expect(cookie).toMatch(/^__Host-(?=.*; *secure)(?=.*; *httponly)(?=.*; *samesite=lax)/i)
})
