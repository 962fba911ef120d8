/** Allowed redirect targets are https URLs, programs on the user's own computer, and apps with a custom scheme. */
const loopbacks = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Schemes that browsers handle themselves; any other scheme belongs to an app. */
const browserSchemes = new Set(
  'about blob chrome data feed file filesystem ftp jar javascript mailto resource sms tel vbscript view-source ws wss'
    .split(' ')
    .map((scheme) => `${scheme}:`),
)

/** Returns what is wrong with a redirect URI, or undefined. */
export function findRedirectProblem(text: unknown): string | undefined {
  const uri = typeof text === 'string' ? URL.parse(text) : null
  if (!uri) return 'redirect_uris must only contain absolute URIs'
  if (uri.username || uri.password) return 'redirect_uris must not contain a user name or a password'
  if (uri.hash || String(text).includes('#')) return 'redirect_uris must not contain fragments'
  if (isWeb(uri)) {
    // The URL standard allows characters in a host that no real host has, and that have a meaning in a header.
    if (!/^([a-z0-9._-]+|\[[0-9a-f:.]+\])$/.test(uri.hostname)) return 'redirect_uris must have a valid host'
    if (uri.protocol === 'http:' && !isLoopback(uri))
      return 'redirect_uris must use https, except for loopback addresses'
    return undefined
  }
  return browserSchemes.has(uri.protocol) ? `redirect_uris must not use the scheme ${uri.protocol}` : undefined
}

/** Whether this is a native client (RFC 8252), which may choose its port when it starts. */
export const isNative = (text: string): boolean => new URL(text).protocol !== 'https:'

/** Whether the target is a program on the user's computer: there is no proof of which program receives the redirect. */
export function isOnThisComputer(text: string): boolean {
  const uri = new URL(text)
  return !isWeb(uri) || isLoopback(uri)
}

/** For display: `example.com`, `a program on this computer`, `an app on this computer (com.example.app)`. */
export function describeTarget(text: string): string {
  const uri = new URL(text)
  if (!isWeb(uri)) return `an app on this computer (${uri.protocol.slice(0, -1)})`
  return isLoopback(uri) ? 'a program on this computer' : uri.host
}

/** A source for `form-action`: browsers also apply it to the redirect after a form is submitted. */
export function formTarget(text: string): string {
  const uri = new URL(text)
  return isWeb(uri) ? uri.origin : uri.protocol
}

const isWeb = ({ protocol }: URL) => protocol === 'https:' || protocol === 'http:'
export const isLoopback = ({ hostname }: URL): boolean => loopbacks.has(hostname)
