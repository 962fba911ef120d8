import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import { fingerprint } from '../lib/secrets.ts'
import { sendShared } from './connections.ts'

/** In order of preference. */
const encodings = ['br', 'gzip', 'identity'] as const
type Encoding = (typeof encodings)[number]

const compressors = {
  br: promisify(brotliCompress),
  gzip: (bytes: Buffer) => promisify(gzip)(bytes, { level: 9 }),
  identity: async (bytes: Buffer) => bytes,
}

/**
 * A file that is the same for all clients. Each encoding is created once, when a client first requests it, unless the
 * build has already created it.
 */
export class SharedFile {
  readonly version: string
  readonly type: string
  readonly #bytes: Buffer
  readonly #bodies = new Map<Encoding, Promise<Buffer>>()

  constructor(content: string | Buffer, type: string, encoded: { br?: Buffer | undefined } = {}) {
    this.version = fingerprint(content).slice(0, 22)
    this.type = type
    this.#bytes = Buffer.from(content)
    if (encoded.br) this.#bodies.set('br', Promise.resolve(encoded.br))
  }

  encode(encoding: Encoding): Promise<Buffer> {
    const body = this.#bodies.get(encoding) ?? compressors[encoding](this.#bytes)
    this.#bodies.set(encoding, body)
    return body
  }
}

/** Sends the file in the best encoding that the client accepts, or a 304 if the client's copy is current. */
export async function sendFile<Env extends { Bindings: HttpBindings }>(
  c: Context<Env>,
  file: SharedFile,
  headers: Record<string, string>,
): Promise<Response> {
  const encoding = pickEncoding(c.req.header('accept-encoding'))
  const etag = `"${file.version}${encoding === 'identity' ? '' : `-${encoding}`}"`
  const common = { ...headers, etag, vary: 'accept-encoding' }
  if (isNamed(etag, c.req.header('if-none-match'))) return c.body(null, 304, common)
  const encoded = encoding === 'identity' ? {} : { 'content-encoding': encoding }
  return sendShared(c, await file.encode(encoding), { ...common, ...encoded, 'content-type': file.type })
}

/** RFC 9110, section 12.5.3: the greatest weight wins. Without the header, the file is sent uncompressed. */
export function pickEncoding(accepted = ''): Encoding {
  const weights = new Map(accepted.toLowerCase().split(',').map(readWeight))
  const weightOf = (encoding: Encoding) =>
    weights.get(encoding) ?? weights.get('*') ?? (encoding === 'identity' ? Number.MIN_VALUE : 0)
  const best = Math.max(...encodings.map(weightOf))
  return (best > 0 && encodings.find((encoding) => weightOf(encoding) === best)) || 'identity'
}

function readWeight(item: string): [string, number] {
  const [, name = '', weight = '1'] = /^\s*([^\s;]+)\s*(?:;\s*q=([\d.]+))?/.exec(item) ?? []
  return [name, Number(weight) || 0]
}

/** RFC 9110, section 13.1.2: a list, with weak comparison. */
const isNamed = (etag: string, known = ''): boolean =>
  known.split(',').some((item) => ['*', etag].includes(item.trim().replace(/^W\//, '')))
