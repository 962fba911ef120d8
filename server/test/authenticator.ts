import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

/** What a dishonest client or authenticator does differently. */
export interface Deviation {
  origin?: string
  rpId?: string
  challenge?: string
  isVerified?: boolean
  counter?: number
  userHandle?: string
  type?: string
  /** The attestation statement's format, and the statement itself as CBOR. */
  attestation?: { fmt: string; statement: Buffer }
}

interface Options {
  challenge: string
  rp?: { id: string }
  rpId?: string
  user?: { id: string }
}

/** An authenticator with one passkey, as a client without a browser. */
export class Authenticator {
  readonly id: string = randomBytes(32).toString('base64url')
  readonly #key: KeyObject
  readonly #publicKey: KeyObject
  readonly #origin: string
  #userHandle = ''
  counter = 0

  constructor(origin: string) {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    this.#key = privateKey
    this.#publicKey = publicKey
    this.#origin = origin
  }

  /** The response to a page's options for a new passkey. */
  create(html: string, deviation: Deviation = {}): string {
    const options = readOptions(html, 'create')
    this.#userHandle = options.user?.id ?? ''
    const credentialId = Buffer.from(this.id, 'base64url')
    const length = Buffer.alloc(2)
    length.writeUInt16BE(credentialId.length)
    const credential = Buffer.concat([Buffer.alloc(16), length, credentialId, coseKey(this.#publicKey)])
    const { fmt = 'none', statement = Buffer.from([0xa0]) } = deviation.attestation ?? {}
    const attestationObject = Buffer.concat([
      Buffer.from([0xa3]),
      cborText('fmt'),
      cborText(fmt),
      cborText('attStmt'),
      statement,
      cborText('authData'),
      cborBytes(this.#authenticatorData(options, 0x40, deviation, credential)),
    ])
    return this.#describe({
      clientDataJSON: this.#clientData('webauthn.create', options, deviation).toString('base64url'),
      attestationObject: attestationObject.toString('base64url'),
    })
  }

  /** The response to a page's options for a sign-in. */
  get(html: string, deviation: Deviation = {}): string {
    const options = readOptions(html, 'get')
    const authenticatorData = this.#authenticatorData(options, 0, deviation)
    const clientData = this.#clientData('webauthn.get', options, deviation)
    const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(clientData)]), this.#key)
    return this.#describe({
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authenticatorData.toString('base64url'),
      signature: signature.toString('base64url'),
      userHandle: deviation.userHandle ?? this.#userHandle,
    })
  }

  #describe = (response: object) =>
    JSON.stringify({ id: this.id, rawId: this.id, type: 'public-key', response, clientExtensionResults: {} })

  #clientData(type: string, options: Options, deviation: Deviation): Buffer {
    const { challenge = options.challenge, origin = this.#origin } = deviation
    return Buffer.from(JSON.stringify({ type: deviation.type ?? type, challenge, origin, crossOrigin: false }))
  }

  #authenticatorData(options: Options, flags: number, deviation: Deviation, more = Buffer.alloc(0)): Buffer {
    const { isVerified = true, rpId = options.rp?.id ?? options.rpId ?? '', counter = this.counter } = deviation
    const head = Buffer.alloc(5)
    head.writeUInt8(flags | 0x01 | (isVerified ? 0x04 : 0))
    head.writeUInt32BE(counter, 1)
    return Buffer.concat([sha256(rpId), head, more])
  }
}

/** The options in a page with a passkey form. */
export function readOptions(html: string, kind: 'create' | 'get'): Options {
  const [, text = ''] = new RegExp(`data-passkey="${kind}" data-options="([^"]*)"`).exec(html) ?? []
  return JSON.parse(text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code))))
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

export const cborText = (text: string) => Buffer.concat([Buffer.from([0x60 + text.length]), Buffer.from(text)])

/** Lengths have their shortest form: the library refuses others. */
export function cborBytes(bytes: Buffer): Buffer {
  const { length } = bytes
  const head = length < 256 ? [0x58, length] : [0x59, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), bytes])
}

/** An ES256 key: {1: 2, 3: -7, -1: 1, -2: x, -3: y}. */
function coseKey(key: KeyObject): Buffer {
  const { x = '', y = '' } = key.export({ format: 'jwk' })
  const point = (text: string) => cborBytes(Buffer.from(text, 'base64url'))
  return Buffer.concat([
    Buffer.from([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21]),
    point(x),
    Buffer.from([0x22]),
    point(y),
  ])
}
