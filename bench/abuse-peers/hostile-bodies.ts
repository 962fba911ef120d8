// Sends large bodies with many keys. It's a separate process, so that it doesn't slow down the measured client.
import { connect } from 'node:net'

const { port, hostileSenders } = JSON.parse(process.argv[2] ?? '') as { port: number; hostileSenders: number }
const longestSeconds = 60

const body = `{${Array.from({ length: 74_000 }, (_, number) => `"${number}":1`).join()}}`
const head = `POST /api/auth/pk-ticket HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n`
const request = Buffer.from(`${head}content-length: ${body.length}\r\n\r\n${body}`)

async function attack(): Promise<void> {
  for (;;) {
    // Send the next body after any response, even after the connection was closed.
    await new Promise<unknown>((done) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(request))
      socket.setTimeout(2_000, () => socket.destroy())
      socket.on('error', () => undefined).on('data', () => socket.destroy())
      socket.on('close', done)
    })
  }
}

for (let sender = 0; sender < hostileSenders; sender += 1) void attack()
setTimeout(() => process.exit(), longestSeconds * 1000)
process.on('disconnect', () => process.exit())
process.send?.({ senders: hostileSenders })
