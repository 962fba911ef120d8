import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { useInstallation } from '../../processes.ts'
import { type ScriptedReply, useScriptedModel } from '../../scripted-model.ts'
import { usePage } from '../chromium.ts'
import { agentName, answers, choose, done, launcher, messages, question, see, startSite, write } from './chat-site.ts'
import { frameOf } from './shop.ts'

/** An address that stays the same, although every server process has another port. */
async function useAddress() {
  let port = 0
  const open = new Set<Socket>()
  const proxy = createServer((socket) => {
    const server = connect(port, 'localhost')
    for (const [one, other] of [
      [socket, server],
      [server, socket],
    ] as const) {
      open.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => open.delete(one))
    }
  }).listen(0)
  await once(proxy, 'listening')
  onTestFinished(() => {
    for (const socket of open) socket.destroy()
    proxy.close()
  })
  return {
    url: `http://localhost:${(proxy.address() as AddressInfo).port}`,
    lead(url: string) {
      port = Number(new URL(url).port)
    },
  }
}

test('a server that restarts in the middle of an answer, and one that is killed in the middle of a question', async () => {
  const address = await useAddress()
  const replies: ScriptedReply[] = []
  const model = await useScriptedModel(() => replies.shift() ?? { text: ['You’re welcome.'] })
  const inlay = useInstallation({ INLAY_PUBLIC_URL: address.url, MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  let server = await inlay.start()
  address.lead(server.url)
  const token = await inlay.token('admin@demo.test', 'demo')
  await server.call('PATCH', '/api/agent/config', { token, body: { name: agentName, anonymous: { is_enabled: true } } })
  const { body: key } = await server.call('POST', '/api/publishable-keys', { token, body: { name: 'Site' } })
  const site = await startSite(address.url, key.key)
  onTestFinished(() => site.stop())
  const end = async (signal: NodeJS.Signals) => {
    server.signal(signal)
    await server.finished
  }
  const startAgain = async () => {
    server = await inlay.start()
    address.lead(server.url)
  }

  const page = await site.enter(await usePage(), { sub: null })
  await launcher(page, 'Open the agent').click()
  const never = new Promise(() => undefined)
  replies.push({ text: ['The first half, ', never] }, { text: ['The first half, ', 'and the second half.'] })
  await write(page, 'Tell me')
  await see(page, 'The first half,')
  await end('SIGTERM')
  await see(page, 'The server is restarting.')
  await startAgain()
  await see(page, 'The first half, and the second half.')
  await frameOf(page).getByText('The server is restarting.').waitFor({ state: 'hidden' })
  expect(await answers(page).locator('.text').allInnerTexts()).toEqual(['The first half, and the second half.'])

  replies.push({ calls: [{ name: 'refund', args: { order: 7, amount: 90 } }] }, { text: ['Done.'] })
  await write(page, 'Refund order 7')
  await question(page).waitFor()
  await end('SIGKILL')
  await see(page, 'Trying to reach the server.')
  await choose(page, 'Allow once')
  await write(page, 'Thank you')
  await messages(page).filter({ hasText: 'Sent when you’re back online' }).waitFor()
  expect(await done(page)).toEqual([])
  await startAgain()
  await see(page, 'Done.')
  await frameOf(page).getByText('Trying to reach the server.').waitFor({ state: 'hidden' })
  await frameOf(page).getByText('Sent when you’re back online').waitFor({ state: 'hidden' })
  expect(await done(page), 'once').toEqual(['Refunded 90 for order 7'])
  await expect.poll(() => JSON.stringify(model.requests.at(-1)?.messages)).toContain('Thank you')
  expect(await frameOf(page).getByText('Thank you').count(), 'once').toBe(1)
})
