import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { makeConfig } from '../../../../test/harness.ts'
import { columnTypes } from '../database.ts'
import { SkippedStatement, type StatementResult, sendInBatches } from './batches.ts'

let connection: pg.ClientConfig
let remove: () => Promise<void>

beforeAll(async () => {
  const made = await makeConfig()
  connection = parseIntoClientConfig(made.config.databaseUrl ?? '')
  remove = made.remove
})
afterAll(() => remove())

async function connect() {
  const client = new pg.Client(connection)
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** A connection that sends in batches, and the number of times that PostgreSQL has finished one. */
async function useBatches(types = columnTypes) {
  const client = await connect()
  const send = sendInBatches(client as pg.PoolClient, types)
  const responses = { count: 0 }
  client.connection.on('readyForQuery', () => {
    responses.count += 1
  })
  const run = (text: string, ...values: unknown[]) =>
    new Promise<StatementResult>((resolve, reject) => {
      send(text, values, (error, outcome) => (outcome ? resolve(outcome) : reject(error)))
    })
  const rowsOf = async (text: string, ...values: unknown[]) => (await run(text, ...values)).rows
  return { run, rowsOf, responses }
}

describe('statements that are sent together', () => {
  test('get their own results in one response', async () => {
    const { run, responses } = await useBatches()
    const outcomes = await Promise.all([
      run('select $1::int as a, $2::text as b', 1, 'x'),
      run('create temporary table notes (text text)'),
      run("insert into notes values ('one'), ($1)", 'two'),
      run('select text from notes order by text'),
      run('select text from notes where false'),
      run(''),
    ])
    expect(outcomes).toEqual([
      { command: 'SELECT 1', rows: [{ a: 1, b: 'x' }] },
      { command: 'CREATE TABLE', rows: [] },
      { command: 'INSERT 0 2', rows: [] },
      { command: 'SELECT 2', rows: [{ text: 'one' }, { text: 'two' }] },
      { command: 'SELECT 0', rows: [] },
      { command: '', rows: [] },
    ])
    expect(responses.count).toBe(1)
  })

  test('while PostgreSQL is working share the next response', async () => {
    const { run, responses } = await useBatches()
    const first = run('select pg_advisory_lock_shared(1)')
    await new Promise(process.nextTick)
    const others = [run('select 1'), run('select 2'), run('select 3')]
    await Promise.all([first, ...others])
    expect(responses.count).toBe(2)
  })

  test('are skipped after one that fails, and the next ones are not', async () => {
    const { run, rowsOf } = await useBatches()
    const [before, failed, after, last] = await Promise.allSettled([
      rowsOf('select 1 as one'),
      rowsOf('select 1 / 0'),
      rowsOf('select 2 as two'),
      run('create temporary table never ()'),
    ])
    expect(before).toEqual({ status: 'fulfilled', value: [{ one: 1 }] })
    expect(failed).toMatchObject({ reason: { code: '22012' } })
    for (const skipped of [after, last]) {
      expect(skipped).toMatchObject({ reason: { cause: { code: '22012' } } })
      expect((skipped as PromiseRejectedResult).reason).toBeInstanceOf(SkippedStatement)
    }
    expect(await rowsOf("select to_regclass('never') as never")).toEqual([{ never: null }])
  })
})

describe('a statement', () => {
  test('is prepared once, and its columns are read again with each result', async () => {
    const { run, rowsOf } = await useBatches()
    const text = 'select $1::int as number, $2::text as word'
    expect(await rowsOf(text, 1, null)).toEqual([{ number: 1, word: null }])
    expect(await Promise.all([rowsOf(text, 2, 'b'), rowsOf(text, null, 'c')])).toEqual([
      [{ number: 2, word: 'b' }],
      [{ number: null, word: 'c' }],
    ])
    const counted = await run("select count(*) from pg_prepared_statements where statement like '%as word'")
    expect(counted.rows).toEqual([{ count: 1 }])
  })

  test('that failed when it ran for the first time can run again', async () => {
    const { rowsOf } = await useBatches()
    const text = 'select 6 / $1::int as quotient'
    await expect(rowsOf(text, 0)).rejects.toMatchObject({ code: '22012' })
    expect(await rowsOf(text, 2)).toEqual([{ quotient: 3 }])
    await expect(rowsOf(text, 0)).rejects.toMatchObject({ code: '22012' })
    expect(await rowsOf(text, 3)).toEqual([{ quotient: 2 }])
  })

  test('fails once after a change of its columns, and then has the new ones', async () => {
    const { run, rowsOf } = await useBatches()
    await run('create temporary table shapes as select 1 as a')
    expect(await rowsOf('select * from shapes')).toEqual([{ a: 1 }])
    await run('alter table shapes add b int default 2')
    await expect(rowsOf('select * from shapes')).rejects.toMatchObject({ code: '0A000' })
    expect(await rowsOf('select * from shapes')).toEqual([{ a: 1, b: 2 }])
  })

  test('with a value that has no text fails alone', async () => {
    const { rowsOf } = await useBatches()
    const endless: Record<string, unknown> = {}
    endless.itself = endless
    const [failed, other] = await Promise.allSettled([rowsOf('select $1::json', endless), rowsOf('select 1 as one')])
    expect(failed).toMatchObject({ reason: { name: 'TypeError' } })
    expect(other).toEqual({ status: 'fulfilled', value: [{ one: 1 }] })
  })

  test('with a result that cannot be read fails alone', async () => {
    const unreadable = () => {
      throw new Error('unreadable')
    }
    const { rowsOf } = await useBatches({ getTypeParser: () => unreadable })
    const [failed, other] = await Promise.allSettled([rowsOf('select 1 as one'), rowsOf('select where false')])
    expect(failed).toMatchObject({ reason: { message: 'unreadable' } })
    expect(other).toEqual({ status: 'fulfilled', value: [] })
  })
})

test('all statements fail with the connection, also those that wait', async () => {
  const { run, rowsOf } = await useBatches()
  const [{ pid = 0 } = {}] = (await rowsOf('select pg_backend_pid() as pid')) as { pid: number }[]
  const other = await connect()
  const sleeping = [run('select pg_sleep(15)'), run('select 1')]
  await new Promise(process.nextTick)
  const outcome = Promise.allSettled([...sleeping, run('select 2')])
  await other.query('select pg_terminate_backend($1)', [pid])
  expect((await outcome).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
})
