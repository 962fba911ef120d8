import crypto from 'node:crypto'
import { generateKeyPair } from 'jose'
import { expect, test } from 'vitest'
import { isAsymmetric, makeSignatures } from './signatures.ts'

const onNode = makeSignatures(crypto)
const onWebCrypto = makeSignatures(undefined)
const message = new TextEncoder().encode('what is signed')

test.each(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'])(
  '%s is the same with Node and with WebCrypto',
  async (alg) => {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
    expect(isAsymmetric(alg)).toBe(true)
    for (const [signer, verifier] of [
      [onNode, onWebCrypto],
      [onWebCrypto, onNode],
    ] as const) {
      const signature = await signer(privateKey, alg).sign(message)
      const { verify } = verifier(publicKey, alg)
      expect(await verify(message, signature)).toBe(true)
      expect(
        await verify(
          message.map((byte) => byte ^ 1),
          signature,
        ),
      ).toBe(false)
      expect(await verify(message, signature.slice(1))).toBe(false)
      expect(await verify(message, new Uint8Array())).toBe(false)
    }
  },
  60_000,
)

test('HS256 is the same with Node and with WebCrypto', async () => {
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', crypto.randomBytes(32), hmac, true, ['sign', 'verify'])
  const [node, web] = [onNode(key, 'HS256'), onWebCrypto(key, 'HS256')]
  const signature = await node.sign(message)
  expect(await web.sign(message)).toEqual(signature)
  for (const { verify } of [node, web]) {
    expect(await verify(message, signature)).toBe(true)
    expect(
      await verify(
        message,
        signature.map((byte) => byte ^ 1),
      ),
    ).toBe(false)
    expect(await verify(message, signature.slice(1))).toBe(false)
  }
})

test.each(['none', 'HS256', 'HS512', 'RS1', 'toString', '', undefined])('%s is not an asymmetric algorithm', (alg) => {
  expect(isAsymmetric(alg)).toBe(false)
})

test('a key is not used for an algorithm of another kind', async () => {
  const { publicKey } = await generateKeyPair('ES256')
  expect(() => onNode(publicKey, 'RS256')).toThrow('The key is not one for RS256')
  expect(() => onNode(publicKey, 'none')).toThrow('The key is not one for none')
})
