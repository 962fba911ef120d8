// Measures what idle sockets cost one server process: memory per socket and CPU time for pings, compared with plain ws.
//
//   node bench/sockets.ts [--sockets=10000]
//
// Every socket is a page that has sent `hello` and offers a tool; the pages run in a separate process. Memory is the
// growth of the server's resident memory after all sockets are open. Pings are Inlay's own, every 15 seconds.

import { setTimeout as sleep } from 'node:timers/promises'
import { cpuOf, options, peer, residentOf, startInlay, stopAll } from './load.ts'

const count = Number(options.sockets)
/** Two rounds of pings. */
const seconds = 30
const origin = 'https://shop.example.com'
const pingSeconds = 15

async function hold(name: string, { port, pid }: { port: number; pid: number }, exchange?: object): Promise<void> {
  const before = residentOf(pid)
  const started = performance.now()
  await peer('./hub-peers/pages.ts', JSON.stringify({ port, count, origin, exchange }))
  const opening = (performance.now() - started) / 1000
  await sleep(5_000)
  const perSocket = (residentOf(pid) - before) / count / 1024
  const cpuBefore = cpuOf(pid)
  await sleep(seconds * 1000)
  const cpu = cpuOf(pid) - cpuBefore
  const share = ((cpu / 1e6 / seconds) * 100).toFixed(1)
  const perPing = (cpu / ((count * seconds) / pingSeconds)).toFixed(1)
  console.log(
    `| ${name} | ${count} | ${opening.toFixed(1)} s | ${perSocket.toFixed(1)} KiB | ${share} % | ${exchange ? `${perPing} µs` : '—'} |`,
  )
}

try {
  const { call, ...inlay } = await startInlay('inlay')
  const { key } = await call<{ key: string }>('POST', '/publishable-keys', { name: 'Shop' })
  console.log('| Server | Sockets | Opened in | Memory per socket | CPU while idle | CPU per ping |')
  console.log('| --- | ---: | ---: | ---: | ---: | ---: |')
  await hold('ws, nothing checked', await peer('./hub-peers/bare.ts', ''))
  await hold('Inlay', inlay, { publishable_key: key })
} finally {
  await stopAll()
}
