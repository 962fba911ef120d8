/**
 * The key that shows the server that it talks to this frame, and not to a script of the page or a program that the
 * script gave the user's ID token to. It can't be read, only used, and only by scripts of our own origin.
 */
export interface FrameKey {
  /** A DPoP proof (RFC 9449) for the exchange of an ID token. Undefined if the browser has no keys for us. */
  prove(idToken: string, now: number): Promise<string | undefined>
}

const place = 'inlay'
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
/** A browser may never answer, for example while another tab keeps an old database open. */
const storedWithinMs = 1_000

export function createFrameKey(exchangeAddress: string): FrameKey {
  let pair: Promise<CryptoKeyPair> | undefined
  return {
    async prove(idToken, now) {
      try {
        // Without TLS, browsers only have keys on this computer.
        pair ??= findPair()
        const { privateKey, publicKey } = await pair
        const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', publicKey)
        const header = { typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } }
        const claims = {
          htm: 'POST',
          htu: exchangeAddress,
          ath: encode(await crypto.subtle.digest('SHA-256', bytesOf(idToken))),
          jti: encode(crypto.getRandomValues(new Uint8Array(16)).buffer),
          iat: Math.floor(now / 1000),
        }
        const text = [header, claims].map((part) => encode(bytesOf(JSON.stringify(part)).buffer)).join('.')
        return `${text}.${encode(await crypto.subtle.sign(algorithm, privateKey, bytesOf(text)))}`
      } catch {
        return undefined
      }
    },
  }
}

/** A browser can refuse to store it. The key then lasts as long as this page. */
async function findPair(): Promise<CryptoKeyPair> {
  const fresh = await crypto.subtle.generateKey(algorithm, false, ['sign', 'verify'])
  const late = new Promise<CryptoKeyPair>((resolve) => setTimeout(() => resolve(fresh), storedWithinMs))
  return Promise.race([late, storePair(fresh).catch(() => fresh)])
}

/** Keeps the first key of all tabs. */
const storePair = (fresh: CryptoKeyPair) =>
  new Promise<CryptoKeyPair>((resolve, reject) => {
    const opening = indexedDB.open(place)
    opening.onupgradeneeded = () => opening.result.createObjectStore(place)
    opening.onerror = () => reject(opening.error)
    opening.onsuccess = () => {
      const change = opening.result.transaction(place, 'readwrite')
      const store = change.objectStore(place)
      const reading = store.get(place)
      let found = fresh
      reading.onsuccess = () => {
        if (reading.result) found = reading.result
        else store.put(fresh, place)
      }
      change.oncomplete = () => resolve(found)
      change.onabort = () => reject(change.error)
    }
  })

const bytesOf = (text: string) => new TextEncoder().encode(text)

const encode = (bytes: ArrayBufferLike) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
