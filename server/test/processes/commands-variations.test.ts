import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { useInstallation, useUsedInstallation } from '../processes.ts'

test('an unusable data folder is reported with its setting', async () => {
  const inlay = useInstallation()
  mkdirSync(inlay.dataDir)
  const file = join(inlay.dataDir, 'file')
  writeFileSync(file, '')
  const folders = [file, join(file, 'below'), ...(process.platform === 'linux' ? ['/proc/inlay'] : [])]
  for (const folder of folders) {
    for (const env of [{}, { INLAY_SECRET: randomBytes(32).toString('base64') }]) {
      const { code, stdout, stderr } = await inlay.run('start', { INLAY_DATA_DIR: folder, ...env })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(/^inlay: Can't use the data folder .* \(INLAY_DATA_DIR\): .*\n$/)
      expect(stderr).toContain(folder)
    }
  }
  writeFileSync(join(inlay.dataDir, 'postgres'), 'in the way')
  const { code, stderr } = await inlay.run('start')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^inlay: Can't use the data folder: .* Check INLAY_DATA_DIR\.\n$/),
  })
})

test.each(['user password --email admin@demo.test', 'secret rotate'])(
  '"%s" on an unused data folder explains the problem and creates nothing there',
  async (command) => {
    const inlay = useInstallation()
    for (const env of [{}, { INLAY_SECRET: randomBytes(32).toString('base64') }]) {
      expect(await inlay.run(command, env)).toEqual({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining(`inlay: No Inlay server has used the data folder ${inlay.dataDir}.`),
      })
    }
    expect(existsSync(inlay.dataDir)).toBe(false)
  },
)

test('rotating a secret keeps all data readable, and the old secret stops working', async () => {
  const inlay = useUsedInstallation()
  const oldSecret = readFileSync(join(inlay.dataDir, 'secret'), 'utf8').trim()
  const newSecret = randomBytes(32).toString('base64')
  const asAdmin = 'token --email admin@demo.test --org demo'
  const logins = async () => (await inlay.query(`select from pg_roles where rolname like 'inlay\\_service\\_%'`)).length
  const serve = async (secrets: string) => {
    const env = { INLAY_SECRET: secrets }
    const server = await inlay.start(env)
    const { stdout } = await inlay.run(asAdmin, env)
    return {
      call: (path: string, body?: unknown) => server.call('POST', path, { token: stdout.trim(), body }),
      async stop() {
        server.signal('SIGTERM')
        expect((await server.finished).code).toBe(0)
      },
    }
  }
  const before = await serve(oldSecret)
  const { id, key } = (await before.call('/api/publishable-keys', { name: 'sealed' })).body
  await before.stop()

  const both = { INLAY_SECRET: `${newSecret},${oldSecret}` }
  const during = await serve(both.INLAY_SECRET)
  expect(await during.call(`/api/publishable-keys/${id}/reveal`)).toEqual({ status: 200, body: { key } })
  expect(await logins()).toBe(2)
  const rotated = await inlay.run('secret rotate', both)
  expect(rotated).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^Re-encrypted [1-9]\d* values?/),
  })
  expect(await logins(), 'the database no longer accepts logins of the old secret').toBe(1)
  expect(await inlay.run('secret rotate', both)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Re-encrypted 0/),
  })
  expect(await during.call(`/api/publishable-keys/${id}/reveal`)).toEqual({ status: 200, body: { key } })
  await during.stop()

  expect(await inlay.run('audit verify', { INLAY_SECRET: newSecret }), 'rows under the old secret too').toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^demo: \d+ rows?/),
  })

  const after = await serve(newSecret)
  expect(await after.call(`/api/publishable-keys/${id}/reveal`)).toEqual({ status: 200, body: { key } })
  expect(await logins()).toBe(1)
  await after.stop()

  for (const command of ['start', asAdmin]) {
    const { code, stderr } = await inlay.run(command, { INLAY_SECRET: oldSecret })
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^inlay: INLAY_SECRET isn't the secret/),
    })
  }
  expect(inlay.postmaster()).toBeUndefined()
})
