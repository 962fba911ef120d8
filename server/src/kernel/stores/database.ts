import type { Duplex } from 'node:stream'
import pg from 'pg'
import { serviceUnavailable } from '../lib/errors.ts'
import type { DerivedKey } from '../lib/secrets.ts'
import { QueueFull } from '../lib/shares/fair-queue.ts'
import { SkippedStatement, type StatementResult, sendInBatches } from './postgres/batches.ts'
import { ConnectionTurns, defaultConnections, visitorsOf } from './postgres/connection-turns.ts'

/**
 * Plain SQL in tagged templates: values become parameters, and the text becomes a prepared statement.
 * Rows have the API's field names and ISO timestamps, so a row can be returned as a response.
 */
export interface Sql {
  <Row = Record<string, unknown>>(strings: TemplateStringsArray, ...values: unknown[]): Promise<Row[]>
  /** Authenticates the audit rows of the transaction. */
  readonly auditKey: DerivedKey
  /** Tells this node's worker about new jobs once the transaction has committed. Other nodes find them by polling. */
  wakeWorker?(): void
}

export interface Transaction extends Sql {
  /**
   * Commits with the statements that were just sent, without waiting for their results, so that their locks are held for
   * as short as possible. Nothing can follow. If one of them fails, nothing is saved.
   */
  commit(): void
}

export interface Database {
  /** A transaction that only sees one organization's rows, whatever its SQL is. */
  asOrg<T>(organizationId: string, work: (sql: Transaction) => Promise<T>): Promise<T>
  /**
   * The same for work that an end user or an anonymous visitor causes. Visitors have a small share of the connections,
   * because anyone can be one.
   */
  asHolder<T>(holder: Holder, work: (sql: Transaction) => Promise<T>): Promise<T>
  /** A transaction that sees the organizations and memberships of one user. */
  asUser<T>(userId: string, work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees the closed memberships of one user. */
  asReturning<T>(userId: string, work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees the invitations to one verified email address. */
  asInvitee<T>(email: string, work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees the publishable key or the service account with the given hash. */
  asKeyHolder<T>(keyHash: string, work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees the abandoned runs of all organizations, and no other tenant rows. */
  asKeeper<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees to which organization an installation of the operator's GitHub app belongs. */
  asGithubInstallation<T>(installationId: number, work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees which organization has verified an email domain, and no other tenant rows. */
  asEmailDomain<T>(domain: string, work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees all organizations' sign-in providers and domains, and no other tenant rows. */
  asDomainChecker<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** A transaction that sees the jobs of all organizations, and no other tenant rows. */
  asWorker<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** Calls the listener after each transaction that has requested jobs. */
  onJobs(listener: () => void): void
  /** A transaction that sees no tenant rows, for tables that belong to no organization, such as users. */
  asService<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** Fails if PostgreSQL doesn't respond. Has a connection of its own, so it doesn't wait for transactions. */
  ping(): Promise<void>
  close(): Promise<void>
}

/** Without an end user, an anonymous visitor. */
interface Holder {
  organization_id: string
  end_user?: object | undefined
}

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505' && (!constraint || error.constraint === constraint)

/** The constraint that a statement violated, if that is why it failed. */
export const violatedConstraint = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError && error.code?.startsWith('23') ? error.constraint : undefined

/** Out of resources such as disk, shutting down, or canceled by a timeout: a retry may succeed. */
const isOverload = (error: unknown): boolean => error instanceof pg.DatabaseError && /^(53|57)/.test(error.code ?? '')

export interface DatabaseOptions {
  connection: pg.ClientConfig
  auditKey: DerivedKey
  connections?: number
  /** Timeout of a statement. Longer maintenance uses separate connections as the schema's owner. */
  answerWithinMs?: number
  /** Maximum number of transactions that wait for a connection. */
  mostWaiting?: number
  onIdleError?: (error: Error) => void
}

/** Tracks a connection, to detect that PostgreSQL has stopped responding on it. */
interface Watched {
  unanswered: number
  /** The tick of the last response, or of the first query sent since then. */
  heardAt: number
  send: ReturnType<typeof sendInBatches>
}

const ticksOfPatience = 10

export function openDatabase({
  connection,
  auditKey,
  connections = defaultConnections,
  answerWithinMs = 10_000,
  mostWaiting = 5_000,
  onIdleError,
}: DatabaseOptions): Database {
  // PostgreSQL cancels a slow statement before the client gives up on the connection.
  const statementMs = Math.round(answerWithinMs * 0.8)
  const patienceMs = answerWithinMs / 2
  const poolOptions = {
    ...connection,
    connectionTimeoutMillis: patienceMs,
    // A new connection plans each statement again several times. Many networks drop connections that are idle for longer.
    idleTimeoutMillis: 60_000,
    // A node that is suspended in a transaction loses its locks before the statements of other nodes time out.
    options: `-c timezone=UTC -c statement_timeout=${statementMs} -c idle_in_transaction_session_timeout=5s`,
  }
  const pool = new pg.Pool({ ...poolOptions, max: connections })
  const probe = new pg.Pool({ ...poolOptions, max: 1 })
  const turns = new ConnectionTurns(connections, mostWaiting)
  // Without a listener, an idle connection that dies would crash the process.
  for (const each of [pool, probe]) each.on('error', (error) => onIdleError?.(error))

  const jobListeners: (() => void)[] = []
  // Counts ticks instead of time, so that a process that was itself suspended or blocked doesn't blame PostgreSQL.
  let tick = 0
  const watched = new Map<pg.PoolClient, Watched>()
  pool.on('connect', (client) => {
    watched.set(client, { unanswered: 0, heardAt: tick, send: sendInBatches(client, columnTypes) })
  })
  pool.on('remove', (client) => void watched.delete(client))
  const watch = setInterval(() => {
    tick += 1
    turns.refuseOlder(performance.now() - patienceMs)
    for (const [client, { unanswered, heardAt }] of watched) {
      if (unanswered > 0 && tick - heardAt > ticksOfPatience) cut(client, answerWithinMs)
    }
  }, answerWithinMs / ticksOfPatience)
  watch.unref()

  async function connect(from: pg.Pool): Promise<pg.PoolClient> {
    try {
      return await from.connect()
    } catch (error) {
      throw serviceUnavailable('The database is not reachable', error)
    }
  }

  /** Waits for a connection in the lane's turn. */
  async function transaction<T>(
    lane: string,
    setting: string,
    value: string,
    work: (sql: Transaction) => Promise<T>,
  ): Promise<T> {
    const turn = turns.enter(lane)
    if (turn) await turn.catch(refuse)
    try {
      return await transact(setting, value, work)
    } finally {
      turns.leave(lane)
    }
  }

  async function transact<T>(setting: string, value: string, work: (sql: Transaction) => Promise<T>): Promise<T> {
    const client = await connect(pool)
    const state = watched.get(client) as Watched
    // After an error that PostgreSQL didn't report, the connection is in an unknown state and must not be reused.
    let broken: Error | undefined
    /** The first failed statement's error, which `work` may have swallowed. */
    let failure: Error | undefined
    const onError = (error: Error) => {
      broken = error
    }
    client.on('error', onError)
    const send = (text: string, values: unknown[]) =>
      new Promise<StatementResult>((resolve, reject) => {
        state.send(text, values, (error, outcome) => {
          state.unanswered -= 1
          state.heardAt = tick
          if (outcome) return resolve(outcome)
          failure ??= error
          if (!(error instanceof pg.DatabaseError || error instanceof SkippedStatement)) broken = error
          reject(error)
        })
        if (state.unanswered === 0) state.heardAt = tick
        state.unanswered += 1
      })
    let statements = 0
    let latest: Promise<unknown> | undefined
    let isOver = false
    const run = <Row>(strings: TemplateStringsArray, ...values: unknown[]) => {
      // Statements left over from failed work must not run in the connection's next transaction.
      if (isOver) return Promise.reject(new Error('The transaction has ended'))
      const rows = send(joinText(strings), values).then(({ rows }) => rows as Row[], leadBack)
      statements += 1
      latest = rows
      return rows
    }
    let committing: Promise<StatementResult> | undefined
    const commit = () => {
      isOver = true
      committing ??= send('commit', [])
      committing.catch(ignore)
      return committing
    }
    let hasJobs = false
    const wakeWorker = () => {
      hasJobs = true
    }
    const sql: Transaction = Object.assign(run, { auditKey, wakeWorker, commit: () => void commit() })

    try {
      // Not awaited, so that both travel with the first statement.
      const opened = Promise.all([send('begin', []), send('select set_config($1, $2, true)', [setting, value])])
      opened.catch(ignore)
      const result = work(sql)
      // If `work` is a single statement, the commit travels with it too: one round trip in total.
      const isWhole = statements === 1 && (result as Promise<unknown>) === latest
      const ended = isWhole ? commit() : result.then(commit)
      ended.catch(ignore)
      const outcome = await result
      await opened
      // If `work` swallowed an error, PostgreSQL skips the commit, or rolls back and reports that as success.
      const { command } = await ended.catch((error) => {
        if (isAborted(error)) return { command: 'ROLLBACK' }
        throw error
      })
      if (command !== 'COMMIT') {
        if (isOverload(failure)) throw failure
        throw new Error('The transaction was rolled back by an earlier error', { cause: failure })
      }
      if (hasJobs) for (const listener of jobListeners) listener()
      return outcome
    } catch (caught) {
      // If `work` waited for a later statement first, the error of the statement that failed is the one that helps.
      const error = isAborted(caught) ? (failure ?? caught) : caught
      isOver = true
      // The rollback's response arrives after those of all statements still in flight.
      if (!broken) await rollBack(send)
      if (broken) throw serviceUnavailable('The database is not reachable', broken)
      throw isOverload(error) ? serviceUnavailable('The database is overloaded', error) : error
    } finally {
      client.off('error', onError)
      client.release(broken)
    }
  }

  // The lane is never a value that a stranger can choose, such as the hash of a key: each lane gets turns.
  const asOrg: Database['asOrg'] = (id, work) => transaction(id, 'inlay.organization_id', id, work)
  const asVisitor: Database['asOrg'] = (id, work) => transaction(visitorsOf(id), 'inlay.organization_id', id, work)

  return {
    asOrg,
    asHolder: ({ organization_id, end_user }, work) => (end_user ? asOrg : asVisitor)(organization_id, work),
    asUser: (userId, work) => transaction(userId, 'inlay.user_id', userId, work),
    asReturning: (userId, work) => transaction(userId, 'inlay.returning_user', userId, work),
    asInvitee: (email, work) => transaction('invitees', 'inlay.invited_email', email, work),
    asKeyHolder: (keyHash, work) => transaction('keys', 'inlay.key_hash', keyHash, work),
    asKeeper: (work) => transaction('runs', 'inlay.task', 'runs', work),
    asGithubInstallation: (id, work) => transaction('code_sync', 'inlay.github_installation', String(id), work),
    asEmailDomain: (domain, work) => transaction('domains', 'inlay.email_domain', domain, work),
    asDomainChecker: (work) => transaction('sign_in', 'inlay.task', 'sign_in', work),
    asWorker: (work) => transaction('jobs', 'inlay.task', 'jobs', work),
    onJobs: (listener) => void jobListeners.push(listener),
    asService: (work) => transaction('service', 'inlay.organization_id', '', work),
    async ping() {
      const client = await connect(probe)
      const silence = setTimeout(() => cut(client, answerWithinMs), answerWithinMs)
      let broken: Error | undefined
      try {
        await client.query('select')
      } catch (error) {
        broken = error as Error
        throw serviceUnavailable('The database is not reachable', error)
      } finally {
        clearTimeout(silence)
        client.release(broken)
      }
    },
    async close() {
      await Promise.all([pool.end(), probe.end()])
      clearInterval(watch)
    },
  }
}

function refuse(error: unknown): never {
  if (error instanceof QueueFull) throw serviceUnavailable('The database is overloaded', error)
  throw error
}

const streamOf = (client: pg.PoolClient): Duplex =>
  (client as unknown as { connection: { stream: Duplex } }).connection.stream

/** Fails everything that waits on the connection, and removes it from the pool. */
function cut(client: pg.PoolClient, afterMs: number): void {
  streamOf(client).destroy(new Error(`PostgreSQL did not answer within ${afterMs} ms`))
}

const texts = new WeakMap<TemplateStringsArray, string>()

/**
 * `select * from t where a = ` + ` and b = ` → `select * from t where a = $1 and b = $2`, once per place in the code.
 */
function joinText(strings: TemplateStringsArray): string {
  let text = texts.get(strings)
  if (text === undefined) {
    text = strings.reduce((joined, part, index) => `${joined}$${index}${part}`)
    texts.set(strings, text)
  }
  return text
}

const ignore = () => undefined

/** If statements that were sent before fail in the same batch, the rollback is skipped and must be sent again. */
async function rollBack(send: (text: string, values: unknown[]) => Promise<unknown>): Promise<void> {
  for (let isSkipped = true; isSkipped; ) {
    isSkipped = await send('rollback', []).then(
      () => false,
      (error) => error instanceof SkippedStatement,
    )
  }
}

/** The statement failed only because an earlier one of its transaction had failed. */
const isAborted = (error: unknown): boolean =>
  error instanceof SkippedStatement || (error instanceof pg.DatabaseError && error.code === '25P02')

/** Replaces the stack of an error, which leads to the socket, with one that leads to the statement's caller. */
function leadBack(error: Error): never {
  Error.captureStackTrace(error)
  throw error
}

/** `2026-11-15 03:02:21.12+00` → `2026-11-15T03:02:21.120Z`; PostgreSQL omits trailing zeros. */
export function isoTimestamp(text: string): string {
  const [seconds = '', fraction = ''] = text.slice(0, -3).split('.')
  return `${seconds.replace(' ', 'T')}.${fraction.padEnd(3, '0').slice(0, 3)}Z`
}

const parsers = new Map<number, (text: string) => unknown>([
  [pg.types.builtins.TIMESTAMPTZ, isoTimestamp],
  [pg.types.builtins.DATE, (text) => text],
  [pg.types.builtins.INT8, Number],
  [pg.types.builtins.NUMERIC, Number],
])

export const columnTypes: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    (format !== 'binary' && parsers.get(oid)) || (pg.types.getTypeParser as (...args: unknown[]) => never)(oid, format),
}
