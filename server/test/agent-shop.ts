import { randomUUID } from 'node:crypto'
import type { HttpService } from './http-server.ts'
import { openPage, type Page, pageOrigin } from './page.ts'
import { type Script, type ScriptedModel, startScriptedModel } from './scripted-model.ts'
import { type Shop, startShop } from './shop.ts'

/** A shop whose agent says what a test wants. */
export interface AgentShop extends Shop {
  model: ScriptedModel
  /** The demo organization's id. */
  demo: string
  /** A token of its administrator. */
  admin: string
}

export async function startAgentShop(
  script: Script = () => ({ text: ['Hello'] }),
  env: Record<string, string> = {},
): Promise<AgentShop> {
  const model = await startScriptedModel(script)
  const shop = await startShop({ MODEL_URL: model.url, MODEL_NAME: 'scripted', ...env })
  return {
    ...shop,
    model,
    demo: await shop.organization('demo'),
    admin: await shop.tokenFor('admin@demo.test', 'demo'),
    async close() {
      await shop.close()
      model.close()
    },
  }
}

/** Lets anonymous visitors talk to an organization's agent. Returns an administrator's token. */
export async function allowVisitors(app: HttpService, slug: 'demo' | 'other'): Promise<string> {
  const token = await app.tokenFor(`admin@${slug}.test`, slug)
  await app.request('PATCH', '/agent/config', { token, body: { anonymous: { is_enabled: true } } })
  return token
}

/** Opens the page of a visitor of the organization `other`, on any node. */
export async function openElsewhere(app: HttpService, url = app.local): Promise<Page> {
  const token = await allowVisitors(app, 'other')
  const { body: key } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Elsewhere' } })
  const { body } = await app.request('POST', '/auth/pk-ticket', {
    headers: { origin: pageOrigin },
    body: { publishable_key: key.key },
  })
  return openPage(url, body.ticket, { hello: { visitor_secret: randomUUID() } })
}
