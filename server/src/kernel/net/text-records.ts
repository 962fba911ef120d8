import { Resolver } from 'node:dns/promises'

/** Returns the TXT records of a name; none if it doesn't exist. Rejects if the DNS couldn't be asked. */
export type TextRecords = (name: string) => Promise<readonly string[]>

const timeoutMs = 2_000
const tries = 2
const missingCodes = ['ENODATA', 'ENOTFOUND']

/** `servers` are addresses such as `10.0.0.2:5353`; without any, the operating system's are asked. */
export function createTextRecords(servers: readonly string[]): TextRecords {
  return async (name) => {
    // A new resolver each time: it reads the system's configuration, which may have changed since the start.
    const resolver = new Resolver({ timeout: timeoutMs, tries })
    if (servers.length > 0) resolver.setServers(servers)
    try {
      // A record consists of parts of up to 255 bytes.
      return (await resolver.resolveTxt(name)).map((parts) => parts.join(''))
    } catch (error) {
      if (missingCodes.includes((error as NodeJS.ErrnoException).code ?? '')) return []
      throw error
    }
  }
}
