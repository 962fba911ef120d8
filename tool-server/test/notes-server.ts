import { fileURLToPath } from 'node:url'
import { startWorker } from './workers.ts'

/** A server built from other projects' code: Cloudflare's OAuth library and the MCP SDK, in the Workers runtime. */
export interface NotesServer {
  url: string
  resource: string
  /** Trusts an identity provider, as the server's operator would. */
  trust(issuer: string, jwksUri: string): Promise<void>
  /** The keys of the library's records, which start with `client:`, `grant:` or `token:` and an id. */
  records(prefix: string): Promise<string[]>
  /** Deletes records, as if they had expired or were revoked at the server. */
  forget(prefix: string): Promise<void>
  stop(): Promise<void>
}

/** Declared here because the library's own type depends on the globals of Workers. */
interface Namespace {
  list(options: { prefix: string }): Promise<{ keys: { name: string }[] }>
  put(key: string, value: string): Promise<void>
  delete(key: string): Promise<void>
}

/** With `tls`, the server uses https with that certificate. It trusts servers with the certificate `trusted`. */
export async function startNotesServer(trusted: string, tls?: { key: string; cert: string }): Promise<NotesServer> {
  const worker = await startWorker(
    { entryPoints: [fileURLToPath(new URL('notes-worker.ts', import.meta.url))] },
    {
      kvNamespaces: ['OAUTH_KV', 'NOTES', 'JWKS'],
      // Without this flag, the library doesn't fetch client metadata.
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
