import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** Starts the example's identity provider and tool server as two processes, and exchanges their URLs. */
export async function startExampleProcesses() {
  const start = async (part: string) => {
    const child = fork(new URL('./example-process.ts', import.meta.url), [part], { stdio: 'ignore' })
    const [{ url }] = (await once(child, 'message')) as [{ url: string }]
    return { child, url }
  }
  const tell = async (child: ChildProcess, url: string) => {
    const ready = once(child, 'message')
    child.send({ url })
    await ready
  }
  const [provider, toolServer] = await Promise.all([start('identity-provider'), start('tool-server')])
  await Promise.all([tell(provider.child, toolServer.url), tell(toolServer.child, provider.url)])
  return {
    identityProviderUrl: provider.url,
    toolServerUrl: toolServer.url,
    stop() {
      for (const { child } of [provider, toolServer]) child.kill()
    },
  }
}
