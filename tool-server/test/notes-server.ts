import { fileURLToPath } from 'node:url'
import { startWorker } from './workers.ts'

/** A remote server that nobody here wrote: the library's OAuth, the SDK's MCP, in the runtime that both are made for. */
export interface NotesServer {
  url: string
  resource: string
  /** Its operator lets a company vouch for its people. */
  trust(issuer: string, jwksUri: string): Promise<void>
  /** What the library keeps: `client:`, `grant:` and `token:`, each followed by whose it is. */
  records(prefix: string): Promise<string[]>
  /** As when its time has come, or when somebody ended it there. */
  forget(prefix: string): Promise<void>
  stop(): Promise<void>
}

/** Its own types are those of the Workers' globals, which are not ours. */
interface Namespace {
  list(options: { prefix: string }): Promise<{ keys: { name: string }[] }>
  put(key: string, value: string): Promise<void>
  delete(key: string): Promise<void>
}

/** It speaks TLS itself if it is given a certificate, and trusts others with the same one. */
export async function startNotesServer(trusted: string, tls?: { key: string; cert: string }): Promise<NotesServer> {
  const worker = await startWorker(
    { entryPoints: [fileURLToPath(new URL('notes-worker.ts', import.meta.url))] },
    {
      kvNamespaces: ['OAUTH_KV', 'NOTES', 'JWKS'],
      // Without it the library fetches no metadata of clients.
      compatibilityFlags: ['global_fetch_strictly_public'],
      outboundService: { network: { allow: ['private'], tlsOptions: { trustedCertificates: [trusted] } } },
      ...(tls && { host: 'localhost', httpsKey: tls.key, httpsCert: tls.cert }),
    },
  )
  const url = (await worker.ready).origin
  const namespace = (name: string) => worker.getKVNamespace(name) as Promise<unknown> as Promise<Namespace>
  const kv = await namespace('OAUTH_KV')
  const records = async (prefix: string) => (await kv.list({ prefix })).keys.map(({ name }) => name)
  return {
    url,
    resource: `${url}/mcp`,
    trust: async (issuer, jwksUri) => (await namespace('JWKS')).put(issuer, jwksUri),
    records,
    forget: async (prefix) => void (await Promise.all((await records(prefix)).map((name) => kv.delete(name)))),
    stop: () => worker.dispose(),
  }
}
