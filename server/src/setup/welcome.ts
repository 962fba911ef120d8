import { Hono } from 'hono'
import type { Service } from '../foundation/service.ts'
import { page, pageHeaders } from '../http/pages.ts'

/** The page at the server's root URL. */
export function serveWelcome({ config }: Service): Hono {
  const links = [
    ['/api/docs', 'API reference', 'Every operation with its parameters, responses and errors'],
    ['/api/spec.json', 'OpenAPI', 'The same as an OpenAPI document, for code generators'],
    ['/oauth/logout', 'Sign out', 'Ends your session in this browser'],
    ['/readyz', 'Readiness', 'Whether the server and its stores are available'],
  ]
  const list = links.map(([href, name, text]) => `<dt><a href="${href}">${name}</a></dt><dd>${text}</dd>`).join('')
  const about =
    config.mode === 'development'
      ? 'This is a development server with demo data.'
      : 'Backend and widget for agents in web applications.'
  const html = page('Welcome', `<h1>Inlay is running</h1><p>${about}</p><dl>${list}</dl>`)
  return new Hono().get('/', (c) => c.body(html, 200, pageHeaders))
}
