import { createSocket } from 'node:dgram'
import { once } from 'node:events'

/** A DNS server on loopback that only knows TXT records. */
export interface DnsServer {
  /** For `INLAY_DNS_SERVERS`. */
  address: string
  records: Map<string, string[]>
  /** Makes it respond to everything with a failure. */
  isBroken: boolean
  stop(): Promise<void>
}

const headerBytes = 12
const responseFlags = { found: 0x8180, missing: 0x8183, broken: 0x8182 }

export async function startDnsServer(): Promise<DnsServer> {
  const socket = createSocket('udp4')
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const server: DnsServer = {
    address: `127.0.0.1:${socket.address().port}`,
    records: new Map(),
    isBroken: false,
    async stop() {
      socket.close()
      await once(socket, 'close')
    },
  }
  socket.on('message', (query, { address, port }) => {
    const { name, end } = readName(query)
    const texts = server.isBroken ? [] : (server.records.get(name) ?? [])
    const flags = server.isBroken ? 'broken' : texts.length > 0 ? 'found' : 'missing'
    const header = Buffer.alloc(headerBytes)
    query.copy(header, 0, 0, 2)
    header.writeUInt16BE(responseFlags[flags], 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(texts.length, 6)
    const question = query.subarray(headerBytes, end + 4)
    socket.send(Buffer.concat([header, question, ...texts.map(textRecord)]), port, address)
  })
  return server
}

function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = []
  let at = headerBytes
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('ascii', at + 1, at + 1 + length))
    at += length + 1
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 }
}

/** The name is a pointer to the question. */
function textRecord(text: string): Buffer {
  const fixed = Buffer.from([0xc0, headerBytes, 0, 16, 0, 1, 0, 0, 0, 0, 0, text.length + 1, text.length])
  return Buffer.concat([fixed, Buffer.from(text)])
}
