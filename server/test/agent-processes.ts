import { onTestFinished } from 'vitest'
import { type ChatPage, createTranscript, openChat, type Transcript } from './chat.ts'
import { startTestProvider } from './oidc-provider.ts'
import { openPage, type Page, type PageOptions, pageOrigin } from './page.ts'
import { type Env, type Installation, type ServerProcess, useInstallation, useUsedInstallation } from './processes.ts'
import type { ScriptedModel } from './scripted-model.ts'

/** Installations with an agent, and a signed-in user of it. They share a database if the settings say so. */
export interface AgentProcesses {
  installations: Installation[]
  servers: ServerProcess[]
  page(server: ServerProcess, options?: PageOptions): Promise<Page>
  /** Opens the user's page again and resumes the thread with what it has. */
  resume(server: ServerProcess, thread: string, runId: string, transcript?: Transcript): Promise<Resumed>
}

export interface Resumed {
  page: Page
  chat: ChatPage
}

/** `visit` is the only tool that changes something without asking. */
export async function startAgentProcesses(model: ScriptedModel, count = 1, env: Env = {}): Promise<AgentProcesses> {
  const settings: Env = {
    // Keeps tokens valid although every start uses another port.
    INLAY_PUBLIC_URL: 'http://localhost:1',
    MODEL_URL: model.url,
    MODEL_NAME: 'scripted',
    ...env,
  }
  const use = settings.DATABASE_URL ? useInstallation : useUsedInstallation
  const installations = Array.from({ length: count }, () => use(settings))
  const servers: ServerProcess[] = []
  for (const installation of installations) servers.push(await installation.start())
  const [first] = servers as [ServerProcess]
  const token = (await installations[0]?.token('admin@demo.test', 'demo')) ?? ''
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await first.call('PATCH', '/api/identity-providers/config', { token, body: trust })
  await first.call('PATCH', '/api/agent/config', { token, body: { tool_policies: { visit: 'auto' } } })
  const { body: key } = await first.call('POST', '/api/publishable-keys', { token, body: { name: 'Shop' } })
  const id_token = await provider.idToken({ sub: 'mem', email: 'member@demo.test', email_verified: true })
  const exchange = { publishable_key: key.key, id_token, embedding_origin: pageOrigin }
  const page = async (server: ServerProcess, options?: PageOptions) => {
    const { body } = await server.call('POST', '/api/auth/pk-ticket', { body: exchange })
    return openPage(server.url, body.ticket, options)
  }
  return {
    installations,
    servers,
    page,
    async resume(server, thread, runId, transcript = createTranscript()) {
      const opened = await page(server)
      const chat = openChat(opened, thread, transcript)
      const { attempt, n } = transcript.run(runId)
      const have = attempt > 0 ? { have: { run_id: runId, attempt, n } } : {}
      opened.send({ type: 'chat/resume', request_id: 'resume', thread_id: thread, ...have })
      return { page: opened, chat }
    },
  }
}
