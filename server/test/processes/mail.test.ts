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

test('doctor connects to the SMTP server, and explains what is wrong', async () => {
  const smtp = await useSmtp()
  const inlay = useUsedInstallation()
  const examine = async (env: Record<string, string>) => {
    const { code, stdout } = await inlay.run('doctor', env)
    expect(stdout).not.toContain('hunter2')
    return { code, line: stdout.split('\n').find((line) => line.includes(' mail ')) }
  }
  const host = new URL(smtp.url).host
  expect(await examine(smtp.env)).toEqual({
    code: 0,
    line: `✓ mail           ${host} accepts mail from Inlay <inlay@example.com>`,
  })
  smtp.trouble = () => '535 Wrong password'
  const env = { ...smtp.env, INLAY_SMTP_URL: smtp.url.replace('//', '//me:hunter2@') }
  expect(await examine(env)).toEqual({
    code: 1,
    line: expect.stringMatching(/^✗ mail {11}127.0.0.1:\d+ can't be used: .*\. Check INLAY_SMTP_URL\.$/),
  })
})
