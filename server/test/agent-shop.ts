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
