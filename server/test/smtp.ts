import { type AddressInfo, createServer, type Socket } from 'node:net'
import { vi } from 'vitest'

/** A mail that the server has accepted. */
export interface ReceivedMail {
  from: string
  to: string[]
  /** Headers in lower case. */
  headers: Record<string, string>
  /** The plain text. */
  text: string
  html: string
}

export interface SmtpServer {
  url: string
  /** Settings for a server that sends mail here. */
  env: { INLAY_SMTP_URL: string; INLAY_MAIL_FROM: string }
  received: ReceivedMail[]
  /**
   * Replies to a command, such as `RCPT TO:<…>` or `END OF DATA`, instead of accepting it. `hang up` closes the
   * connection, and `hang up late` accepts the mail before that.
   */
  trouble: ((command: string) => string | undefined | Promise<string | undefined>) | undefined
  /** Waits for the mail to an address; the newest first. */
  mailTo(address: string, count?: number): Promise<ReceivedMail>
  close(): Promise<void>
}

/** An SMTP server on this computer that keeps what it accepts (RFC 5321). */
export async function startSmtp(): Promise<SmtpServer> {
  const received: ReceivedMail[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
    socket.setEncoding('utf8')
    void converse(socket)
  })

  async function converse(socket: Socket): Promise<void> {
    let [from, to] = ['', [] as string[]]
    let buffer = ''
    let isData = false
    const reply = (text: string) => void socket.write(`${text}\r\n`)
    reply('220 localhost ESMTP')
    try {
      for await (const chunk of socket) {
        buffer += chunk
        for (let end = endOf(buffer, isData); end >= 0; end = endOf(buffer, isData)) {
          const part = buffer.slice(0, end)
          buffer = buffer.slice(end + (isData ? 5 : 2))
          const trouble = await smtp.trouble?.(isData ? 'END OF DATA' : part)
          if (trouble === 'hang up late') received.push(parseMail(from, to, part))
          if (trouble?.startsWith('hang up')) return void socket.destroy()
          if (trouble) {
            isData = false
            reply(trouble)
          } else if (isData) {
            received.push(parseMail(from, to, part))
            isData = false
            reply('250 OK')
          } else if (/^EHLO/i.test(part)) reply('250 localhost')
          else if (/^MAIL FROM:/i.test(part)) {
            ;[from, to] = [addressIn(part), []]
            reply('250 OK')
          } else if (/^RCPT TO:/i.test(part)) {
            to.push(addressIn(part))
            reply('250 OK')
          } else if (/^DATA/i.test(part)) {
            isData = true
            reply('354 Go ahead')
          } else if (/^QUIT/i.test(part)) return void socket.end('221 Bye\r\n')
          else reply('250 OK')
        }
      }
    } catch (error) {
      // The client hung up, for example because it was killed.
      if ((error as NodeJS.ErrnoException).code === undefined) throw error
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`
  const smtp: SmtpServer = {
    url,
    env: { INLAY_SMTP_URL: url, INLAY_MAIL_FROM: 'Inlay <inlay@example.com>' },
    received,
    trouble: undefined,
    mailTo: (address, count = 1) =>
      vi.waitFor(() => {
        const found = received.filter(({ to }) => to.includes(address))
        const newest = found.at(-1)
        if (!newest || found.length < count) throw new Error(`${found.length} mails to ${address} have arrived`)
        return newest
      }),
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return smtp
}

const endOf = (buffer: string, isData: boolean): number => buffer.indexOf(isData ? '\r\n.\r\n' : '\r\n')

const addressIn = (command: string): string => /<([^>]*)>/.exec(command)?.[1] ?? ''

function parseMail(from: string, to: string[], source: string): ReceivedMail {
  const [head = '', ...rest] = source.replaceAll('\r\n..', '\r\n.').split('\r\n\r\n')
  const headers = readHeaders(head)
  const boundary = /boundary="?([^";]+)"?/.exec(headers['content-type'] ?? '')?.[1] ?? ''
  const parts = rest.join('\r\n\r\n').split(`--${boundary}`).map(readPart)
  const contents = (type: string) => parts.find((part) => part.type.startsWith(type))?.contents ?? ''
  return { from, to, headers, text: contents('text/plain'), html: contents('text/html') }
}

function readPart(source: string): { type: string; contents: string } {
  const [head = '', ...rest] = source.trim().split('\r\n\r\n')
  const headers = readHeaders(head)
  const body = rest.join('\r\n\r\n')
  const encoding = headers['content-transfer-encoding']
  const contents =
    encoding === 'base64'
      ? Buffer.from(body, 'base64').toString()
      : encoding === 'quoted-printable'
        ? unquote(body)
        : body
  return { type: headers['content-type'] ?? '', contents }
}

const unquote = (text: string): string =>
  Buffer.from(
    text.replace(/=\r\n/g, '').replace(/=([0-9A-F]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16))),
    'latin1',
  ).toString()

const readHeaders = (head: string): Record<string, string> =>
  Object.fromEntries(
    head
      .replace(/\r\n[ \t]+/g, ' ')
      .split('\r\n')
      .map((line) => [line.split(':')[0]?.toLowerCase() ?? '', line.slice(line.indexOf(':') + 1).trim()]),
  )
