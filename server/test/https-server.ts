import type { IncomingMessage, RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { onTestFinished } from 'vitest'
import { cert, key } from './localhost-certificate.ts'

/** Starts a TLS server for one test, with a certificate that this process trusts. */
export async function useHttps(
  listener: RequestListener,
  upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<string> {
  const trusted = getCACertificates('default')
  setDefaultCACertificates([...trusted, cert])
  const server = createServer({ key, cert }, listener)
  if (upgrade) server.on('upgrade', upgrade)
  await new Promise<void>((resolve) => server.listen(0, resolve))
  onTestFinished(() => {
    setDefaultCACertificates(trusted)
    server.closeAllConnections()
    server.close()
  })
  return `https://localhost:${(server.address() as AddressInfo).port}`
}

/** Serves a client's metadata document, and returns its URL, which is the client's id. */
export async function useClientDocument(metadata: (id: string) => object): Promise<string> {
  const origin = await useHttps((_, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(metadata(id)))
  })
  const id = `${origin}/client.json`
  return id
}
