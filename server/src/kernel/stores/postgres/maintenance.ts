import pg from 'pg'

/** So that a dead connection doesn't block the work forever. */
const statementMs = 60_000

/**
 * Connects as the maintenance role, which may only execute a few functions that run with the rights of the schema's owner
 * (migrations/0001_kernel.sql): a running server never has these rights itself.
 */
export async function withMaintenance<T>(
  maintenance: pg.ClientConfig,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ ...maintenance, statement_timeout: statementMs, query_timeout: statementMs + 5_000 })
  // Without a listener, a lost connection would end the process. The running query fails too.
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
