import { hash } from 'node:crypto'
import pg from 'pg'
import { prepareValue } from 'pg/lib/utils.js'

/**
 * Sends statements to PostgreSQL in batches. The library ends each statement with a Sync message, after which PostgreSQL
 * sends the result at once, and asks for the statement's columns each time. Here, a batch ends with one Sync, and columns
 * are only asked for when a statement is prepared. See the SQL clients in bench/README.md.
 */

export interface StatementResult {
  rows: Record<string, unknown>[]
  /** `COMMIT`, or `SELECT 2`. */
  command: string
}

interface Statement {
  name: string
  text: string
  values: (string | Buffer | null)[]
  end(error: Error): void
  end(error: undefined, result: StatementResult): void
}

/** PostgreSQL skips the rest of a batch when a statement fails. */
export class SkippedStatement extends Error {
  constructor(cause: Error) {
    super('An earlier statement failed', { cause })
  }
}

/** `end` is called once, with an error or a result. */
type Send = (text: string, values: unknown[], end: (error: Error | undefined, result?: StatementResult) => void) => void

/**
 * Sends a connection's statements. Those that are sent without waiting for a response form a batch, and so do those that
 * are sent while PostgreSQL is working on the previous one.
 */
export function sendInBatches(client: pg.PoolClient, types: pg.CustomTypesConfig): Send {
  const prepared: Prepared = new Map()
  let waiting: Statement[] = []
  let isSending = false

  function sendWaiting(): void {
    isSending = waiting.length > 0
    if (!isSending) return
    const batch = new Batch(waiting, prepared, types, sendWaiting)
    waiting = []
    client.query(batch)
  }

  return (text, values, end) => {
    waiting.push({ name: nameOf(text), text, values: values.map((value) => prepareValue(value)), end })
    if (isSending) return
    isSending = true
    process.nextTick(sendWaiting)
  }
}

const names = new Map<string, string>()

function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    name = hash('sha1', text, 'hex').slice(0, 16)
    names.set(text, name)
  }
  return name
}

/** The statements that a connection has prepared, by name, with a function that reads their rows. */
type Prepared = Map<string, (values: (string | null)[]) => Record<string, unknown>>

interface Field {
  name: string
  dataTypeID: number
}

function readerOf(fields: Field[], types: pg.CustomTypesConfig) {
  const columns = fields.map(({ name, dataTypeID }) => ({ name, parse: types.getTypeParser(dataTypeID, 'text') }))
  // Copying an object with all columns is faster than adding them one by one.
  const empty = Object.fromEntries(columns.map(({ name }) => [name, null]))
  return (values: (string | null)[]) => {
    const row: Record<string, unknown> = { ...empty }
    for (const [index, { name, parse }] of columns.entries()) {
      const value = values[index]
      if (value !== null && value !== undefined) row[name] = parse(value)
    }
    return row
  }
}

/** The library calls these methods with PostgreSQL's responses. */
class Batch implements pg.Submittable {
  readonly #statements: Statement[]
  readonly #prepared: Prepared
  readonly #types: pg.CustomTypesConfig
  readonly #onEnd: () => void
  /** The number of statements that have ended. */
  #ended = 0
  #rows: (string | null)[][] = []

  constructor(statements: Statement[], prepared: Prepared, types: pg.CustomTypesConfig, onEnd: () => void) {
    this.#statements = statements
    this.#prepared = prepared
    this.#types = types
    this.#onEnd = onEnd
  }

  submit(connection: pg.Connection): void {
    connection.stream.cork()
    for (const { name, text, values } of this.#statements) {
      if (!this.#prepared.has(name)) {
        // It exists if it was prepared and then failed.
        connection.close({ type: 'S', name }, true)
        connection.parse({ name, text, types: [] }, true)
        connection.describe({ type: 'S', name }, true)
      }
      connection.bind({ statement: name, values }, true)
      connection.execute(null, true)
    }
    connection.sync()
    connection.stream.uncork()
  }

  handleRowDescription({ fields }: { fields: Field[] }): void {
    this.#prepared.set(this.#current().name, readerOf(fields, this.#types))
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    this.#rows.push(fields)
  }

  handleCommandComplete({ text }: { text: string }): void {
    const { name, end } = this.#current()
    const rows = this.#rows
    this.#ended += 1
    this.#rows = []
    const read = this.#prepared.get(name) ?? readerOf([], this.#types)
    this.#prepared.set(name, read)
    try {
      end(undefined, { rows: rows.map(read), command: text })
    } catch (error) {
      end(error as Error)
    }
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' })
  }

  handleReadyForQuery(): void {
    this.#onEnd()
  }

  /** A statement failed, or the connection. */
  handleError(error: Error): void {
    const [failed, ...others] = this.#statements.slice(this.#ended)
    this.#ended = this.#statements.length
    // It is prepared again, because a change of the schema may be the reason.
    if (failed) this.#prepared.delete(failed.name)
    failed?.end(error)
    const reason = error instanceof pg.DatabaseError ? new SkippedStatement(error) : error
    for (const { end } of others) end(reason)
    this.#onEnd()
  }

  #current(): Statement {
    return this.#statements[this.#ended] as Statement
  }
}
