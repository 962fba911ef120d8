import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, test, vi } from 'vitest'
import { patience, useInstallation } from '../processes.ts'

test('an interrupted start leaves no process running, and a killed one does not block the next', async () => {
  const inlay = useInstallation()
  const killed = inlay.launch()
  await killed.wrote('Creating the database')
  await vi.waitFor(() => expect(filesBelow(inlay.dataDir)).toContain('PG_VERSION'), { ...patience, interval: 2 })
  killed.signal('SIGKILL')
  await killed.finished

  const interrupted = inlay.launch()
  await interrupted.wrote('Creating the database')
  interrupted.signal('SIGTERM')
  expect(await interrupted.finished).toMatchObject({ code: 0, stdout: expect.not.stringContaining('ready') })
  expect(inlay.postmaster()).toBeUndefined()

  const server = await inlay.start()
  expect((await server.call('GET', '/readyz')).status).toBe(200)
})

const filesBelow = (folder: string) => readdirSync(folder, { recursive: true }).map((path) => basename(String(path)))
