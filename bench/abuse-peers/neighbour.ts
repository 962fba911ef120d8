// Sends requests at even times, however long the earlier ones take, and reports how long they took from the time at which
// they were due. It's a process of its own, so that neither the attack nor the benchmark slows it down.
import { Agent, request } from 'node:http'

const { port, path, token, perSecond } = JSON.parse(process.argv[2] ?? '') as {
  port: number
  path: string
  token?: string
  perSecond: number
}
const agent = new Agent({ keepAlive: true, maxSockets: 100 })
const headers = token ? { authorization: `Bearer ${token}` } : {}

/** When each request that has no response yet was due. */
const open = new Set<number>()
let times: number[] = []
let failures = new Map<number, number>()

function ask(due: number): void {
  open.add(due)
  const end = (status: number) => {
    if (!open.delete(due)) return
    times.push(performance.now() - due)
    if (status !== 200) failures.set(status, (failures.get(status) ?? 0) + 1)
  }
  const asked = request({ port, path, headers, agent, host: '127.0.0.1' }, (response) => {
    response.resume().on('end', () => end(response.statusCode ?? 0))
  })
  asked.setTimeout(30_000, () => asked.destroy())
  asked.on('error', () => end(0)).end()
}

const beganAt = performance.now()
let sent = 0
function askNext(): void {
  ask(beganAt + (sent * 1000) / perSecond)
  sent += 1
  setTimeout(askNext, beganAt + (sent * 1000) / perSecond - performance.now())
}

/** A server under attack may not answer at all, so requests that have waited for this long count as they are. */
const longOpenMs = 1_000

/** Each message asks for what happened since the last one. */
process.on('message', () => {
  const now = performance.now()
  for (const due of open) {
    if (now - due < longOpenMs) continue
    times.push(now - due)
    failures.set(0, (failures.get(0) ?? 0) + 1)
    open.delete(due)
  }
  process.send?.({ times, failures: [...failures] })
  times = []
  failures = new Map()
})
process.on('disconnect', () => process.exit())
askNext()
process.send?.({ path })
