/** Where an answer may be sent: over TLS, to a program on the person's own computer, or to an app that owns a scheme. */
const loopbacks = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Schemes that a browser acts upon by itself; everything else can only be an app's own. */
const browserSchemes = new Set(
  'about blob chrome data feed file filesystem ftp jar javascript mailto resource sms tel vbscript view-source ws wss'
    .split(' ')
    .map((scheme) => `${scheme}:`),
)

/** What is wrong with a redirect URI that a client wants to register, or undefined. */
export function findRedirectProblem(text: unknown): string | undefined {
  const uri = typeof text === 'string' ? URL.parse(text) : null
  if (!uri) return 'redirect_uris must only contain absolute URIs'
  if (uri.username || uri.password) return 'redirect_uris must not contain a user name or a password'
  if (uri.hash || String(text).includes('#')) return 'redirect_uris must not contain fragments'
  if (isWeb(uri)) {
    // The URL standard lets characters into a host that no host has, and that mean something in a header.
    if (!/^([a-z0-9._-]+|\[[0-9a-f:.]+\])$/.test(uri.hostname)) return 'redirect_uris must have a valid host'
    if (uri.protocol === 'http:' && !isLoopback(uri)) return 'redirect_uris must use https, unless they are on loopback'
    return undefined
  }
  return browserSchemes.has(uri.protocol) ? `redirect_uris must not use the scheme ${uri.protocol}` : undefined
}

/** A native client in the words of RFC 8252, which may choose its port when it starts. */
export const isNative = (text: string): boolean => new URL(text).protocol !== 'https:'

/** A program on the person's computer: nobody can prove which one listens there. */
export function isOnThisComputer(text: string): boolean {
  const uri = new URL(text)
  return !isWeb(uri) || isLoopback(uri)
}

/** For people: `example.com`, `a program on this computer`, `an app on this computer (com.example.app)`. */
export function describeTarget(text: string): string {
  const uri = new URL(text)
  if (!isWeb(uri)) return `an app on this computer (${uri.protocol.slice(0, -1)})`
  return isLoopback(uri) ? 'a program on this computer' : uri.host
}

/** As a source in `form-action`: browsers also check where a submitted form is redirected to. */
export function formTarget(text: string): string {
  const uri = new URL(text)
  return isWeb(uri) ? uri.origin : uri.protocol
}

const isWeb = ({ protocol }: URL) => protocol === 'https:' || protocol === 'http:'
export const isLoopback = ({ hostname }: URL): boolean => loopbacks.has(hostname)
