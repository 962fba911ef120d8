import { Hono } from 'hono'
import type { Service } from '../foundation/service.ts'
import { page, pageHeaders } from '../http/pages.ts'

/** What a person sees who opens the address in a browser. */
export function serveWelcome({ config }: Service): Hono {
  const links = [
    ['/api/docs', 'API reference', 'Every operation, with its shapes and errors'],
    ['/api/spec.json', 'OpenAPI', 'The same for generators'],
    ['/oauth/logout', 'Sign out', 'Ends your session in this browser'],
    ['/readyz', 'Readiness', 'Whether the service and its stores answer'],
  ]
  const list = links.map(([href, name, text]) => `<dt><a href="${href}">${name}</a></dt><dd>${text}</dd>`).join('')
  const about =
    config.mode === 'development'
      ? 'This is a development server with demo data.'
      : 'The backend and the widget for agents inside web applications.'
  const html = page('Welcome', `<h1>Inlay is running</h1><p>${about}</p><dl>${list}</dl>`)
  return new Hono().get('/', (c) => c.body(html, 200, pageHeaders))
}
