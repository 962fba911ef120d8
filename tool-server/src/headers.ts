/** A request of the Fetch standard, of node:http, of Express: whatever has headers. */
export interface Headed {
  headers: Headers | Record<string, string | string[] | undefined>
}

export function headerOf({ headers }: Headed, name: string): string | undefined {
  if (isFetchHeaders(headers)) return headers.get(name) ?? undefined
  const value = headers[name.toLowerCase()]
  return Array.isArray(value) ? value.join(', ') : value
}

/** Not by their class: runtimes and frameworks bring their own. */
const isFetchHeaders = (headers: Headed['headers']): headers is Headers => typeof headers.get === 'function'
