import { expect, onTestFinished, test, vi } from 'vitest'
import { patience, useUsedInstallation } from '../processes.ts'
import { startSmtp } from '../smtp.ts'

async function useSmtp() {
  const smtp = await startSmtp()
  onTestFinished(() => smtp.close())
  return smtp
}

test('kill -9 while mail is sent loses none, and sends a mail at most twice', async () => {
  const smtp = await useSmtp()
  // Keeps the address although every start uses another port.
  const inlay = useUsedInstallation({ ...smtp.env, INLAY_PUBLIC_URL: 'http://localhost:1' })
  // The commands of SMTP during which the server is killed, and whether the mail was accepted before.
  const moments = [
    { command: 'MAIL FROM', ending: 'hang up' },
    { command: 'END OF DATA', ending: 'hang up' },
    { command: 'END OF DATA', ending: 'hang up late' },
  ]
  let server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const addresses: string[] = []
  for (const [index, { command, ending }] of moments.entries()) {
    const email = `kill-${index}@customer.example`
    addresses.push(email)
    const { pid } = server
    smtp.trouble = (given) => {
      if (!given.startsWith(command)) return undefined
      smtp.trouble = undefined
      process.kill(pid, 'SIGKILL')
      return ending
    }
    const body = { email, role: 'member' }
    expect((await server.call('POST', '/api/organizations/current/invitations', { token, body })).status).toBe(200)
    await server.finished
    server = await inlay.start()
    await vi.waitFor(async () => expect(await inlay.query('select from mail_outbox')).toEqual([]), patience)
  }
  const counts = addresses.map((address) => smtp.received.filter(({ to }) => to.includes(address)).length)
  expect(counts).toEqual([1, 1, 2])
  const ids = new Set(smtp.received.map(({ headers }) => headers['message-id']))
  expect(ids.size, 'a repeated mail has the same ID').toBe(moments.length)
})
