const thisMachine = ['localhost', '127.0.0.1', '[::1]']

/** What came over plain HTTP could be anybody's. On the same machine there is nobody in between. */
export function requireSafeUrl(value: string, name: string): URL {
  const url = URL.canParse(value) ? new URL(value) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && thisMachine.includes(url.hostname))
  if (!url || !isSafe) throw new TypeError(`${name} must be an https URL, not ${value}`)
  return url
}
