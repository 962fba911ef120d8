import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import fc from 'fast-check'
import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { makeConfig } from '../../../test/harness.ts'
import { Failure } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { createSecrets, type DerivedKey } from '../lib/secrets.ts'
import { auditKeys } from './audit/chain.ts'
import { type Database, type DatabaseOptions, isoTimestamp, openDatabase, type Sql } from './database.ts'
import { migrate, serviceConnection } from './postgres/migrations.ts'

let connection: pg.ClientConfig
let auditKey: DerivedKey
let database: Database
let close: () => Promise<void>
const [acme, globex] = [newId(), newId()]

beforeAll(async () => {
  const { config, remove } = await makeConfig()
  const owner = parseIntoClientConfig(config.databaseUrl ?? '')
  const secrets = createSecrets(config.secrets)
  await migrate(owner, secrets)
  connection = serviceConnection(owner, secrets)
  ;[auditKey] = auditKeys(secrets)
  database = openDatabase({ connection, auditKey })
  await Promise.all([acme, globex].map((id) => found(id)))
  close = async () => {
    await database.close()
    await remove()
  }
})
afterAll(() => close())

/** A pool for one test. With one connection, all transactions of the test share it. */
function openPool(options: Partial<DatabaseOptions> = {}): Database {
  const pool = openDatabase({ connection, auditKey, connections: 1, ...options })
  onTestFinished(() => pool.close())
  return pool
}

async function found(id: string): Promise<void> {
  await database.asOrg(id, async (sql) => {
    await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
    await invite(sql, id, `${id}@example.com`)
  })
}

const invite = (sql: Sql, organizationId: string, email: string) => sql`
  insert into invitations (organization_id, id, email, role, invited_by)
  values (${organizationId}, ${newId()}, ${email}, 'member', 'somebody')`

/** The organizations whose rows a transaction sees with SQL that doesn't filter by organization. */
const visible = async (sql: Sql) => {
  const rows = await sql<{ id: string }>`
    select id from organizations union select organization_id from invitations order by id`
  return rows.map(({ id }) => id)
}

const invited = async (email: string) =>
  (await database.asOrg(acme, (sql) => sql`select from invitations where email = ${email}`)).length

const unavailable = expect.objectContaining({ envelope: expect.objectContaining({ status: 503 }) })

describe('a transaction sees', () => {
  test.each([
    ['one organization', () => database.asOrg(acme, visible), () => [acme]],
    ['the other organization', () => database.asOrg(globex, visible), () => [globex]],
    ['no rows of an organization that does not exist', () => database.asOrg(newId(), visible), () => []],
    ['no rows without an organization', () => database.asOrg('', visible), () => []],
    ['no rows as the service', () => database.asService(visible), () => []],
    ['no rows except jobs as the worker', () => database.asWorker(visible), () => []],
    ['no rows as an installation of a GitHub app', () => database.asGithubInstallation(1, visible), () => []],
    ['no rows as an unknown user', () => database.asUser(newId(), visible), () => []],
    ['no rows as an address without an invitation', () => database.asInvitee('nobody@example.com', visible), () => []],
    ['no rows as an empty user', () => database.asUser('', visible), () => []],
    ['no rows as an empty address', () => database.asInvitee('', visible), () => []],
    [
      'the organization that invited an address',
      () => database.asInvitee(`${acme}@example.com`, visible),
      () => [acme],
    ],
  ])('%s', async (_, see, expected) => {
    expect(await see()).toEqual(expected())
  })

  test('nothing for an organization that is not an id', async () => {
    await expect(database.asOrg('x', visible)).rejects.toThrow('invalid input syntax for type uuid')
  })

  test.each([
    ['that never set an organization', "select 'unset'"],
    ['with an empty organization', "select set_config('inlay.organization_id', '', false)"],
  ])('nothing on a connection %s', async (_, statement) => {
    const client = new pg.Client(connection)
    await client.connect()
    onTestFinished(() => client.end())
    await client.query(statement)
    const { rows } = await client.query(
      'select id from organizations union select organization_id from invitations union select organization_id from audit_events',
    )
    expect(rows).toEqual([])
  })
})

describe('a connection forgets its organization after', () => {
  test.each<[string, (pool: Database) => Promise<unknown>]>([
    ['a commit', (pool) => pool.asOrg(acme, visible)],
    ['a single statement', (pool) => pool.asOrg(acme, (sql) => sql`select 1`)],
    ['a failed single statement', (pool) => pool.asOrg(acme, (sql) => sql`select 1 / 0`)],
    ['a statement that does not parse', (pool) => pool.asOrg(acme, (sql) => sql`selekt`)],
    [
      'a failed statement after others',
      (pool) =>
        pool.asOrg(acme, async (sql) => {
          await visible(sql)
          await sql`select 1 / 0`
        }),
    ],
    [
      'an error in the work',
      (pool) =>
        pool.asOrg(acme, async (sql) => {
          await visible(sql)
          throw new Error('stop')
        }),
    ],
    [
      'an error in the work before its first statement',
      (pool) =>
        pool.asOrg(acme, () => {
          throw new Error('stop')
        }),
    ],
    [
      'an error that the work swallowed',
      (pool) =>
        pool.asOrg(acme, async (sql) => {
          await sql`select 1 / 0`.catch(() => undefined)
        }),
    ],
    [
      'an error in the work beside a statement that fails',
      (pool) =>
        pool.asOrg(acme, (sql) => {
          sql`select 1 / 0`.catch(() => undefined)
          throw new Error('stop')
        }),
    ],
    [
      'a failure of one of several statements in flight',
      (pool) => pool.asOrg(acme, (sql) => Promise.all([sql`select 1 / 0`, visible(sql), visible(sql)])),
    ],
  ])('%s', async (_, before) => {
    const pool = openPool()
    await before(pool).catch(() => undefined)
    expect(await pool.asService(visible)).toEqual([])
    await before(pool).catch(() => undefined)
    expect(await pool.asUser(newId(), visible)).toEqual([])
    await before(pool).catch(() => undefined)
    expect(await pool.asOrg(globex, visible)).toEqual([globex])
  })
})

test('rejects a statement that is sent after its transaction ended, instead of running it in the next one', async () => {
  const pool = openPool()
  const late = Promise.withResolvers<void>()
  let straggler: Promise<unknown> | undefined
  await pool
    .asOrg(acme, async (sql) => {
      straggler = late.promise.then(() => visible(sql)).catch(() => 'refused')
      throw new Error('stop')
    })
    .catch(() => undefined)
  const seen = await pool.asOrg(globex, async (sql) => {
    await visible(sql)
    late.resolve()
    return straggler
  })
  expect(seen).toBe('refused')
})

test('50 concurrent transactions over 10 connections never see the rows of another organization', async () => {
  const tenants = [acme, globex, ...Array.from({ length: 8 }, newId)]
  await Promise.all(tenants.slice(2).map((id) => found(id)))
  const pool = openPool({ connections: 10 })
  const seen = await Promise.all(
    Array.from({ length: 50 }, (_, turn) => {
      const id = tenants[turn % tenants.length] as string
      if (turn % 3 === 0) return pool.asOrg(id, (sql) => sql<{ id: string }>`select id from organizations`)
      return pool.asOrg(id, async (sql) => {
        const ids = await visible(sql)
        if (turn % 3 === 1) await sql`select 1 / 0`.catch(() => undefined)
        return ids.map((one) => ({ id: one }))
      })
    }).map((outcome) => outcome.catch((error: Error) => error.message)),
  )
  const expected = seen.map((_, turn) =>
    turn % 3 === 1 ? expect.stringContaining('rolled back') : [{ id: tenants[turn % tenants.length] }],
  )
  expect(seen).toEqual(expected)
})

describe('writes', () => {
  test('of several statements are committed together', async () => {
    await database.asOrg(acme, async (sql) => {
      await invite(sql, acme, 'both-1@example.com')
      await invite(sql, acme, 'both-2@example.com')
    })
    expect([await invited('both-1@example.com'), await invited('both-2@example.com')]).toEqual([1, 1])
  })

  test('of a single statement are committed', async () => {
    await database.asOrg(acme, (sql) => invite(sql, acme, 'single@example.com'))
    expect(await invited('single@example.com')).toBe(1)
  })

  test('that commit by themselves are saved before their results arrive, and nothing can follow', async () => {
    const email = `${newId()}@example.com`
    await database.asOrg(acme, async (sql) => {
      const inviting = invite(sql, acme, email)
      sql.commit()
      await expect(sql`select`).rejects.toThrow('The transaction has ended')
      await inviting
      expect(await invited(email)).toBe(1)
    })
    expect(await invited(email)).toBe(1)
  })

  test('that commit by themselves are all rolled back if one fails', async () => {
    const email = `${newId()}@example.com`
    const work = database.asOrg(acme, async (sql) => {
      const inviting = Promise.all([invite(sql, acme, email), sql`select 1 / 0`])
      sql.commit()
      return inviting
    })
    await expect(work).rejects.toThrow('division by zero')
    expect(await invited(email)).toBe(0)
  })

  test('of a single statement that fails halfway are rolled back', async () => {
    const half = database.asOrg(
      acme,
      (sql) => sql`
        insert into invitations (organization_id, id, email, role, invited_by)
        select ${acme}, gen_random_uuid(), 'half-' || n || '@example.com', case n when 3 then 'king' else 'member' end, ''
        from generate_series(1, 3) n`,
    )
    await expect(half).rejects.toMatchObject({ code: '23514' })
    expect(await invited('half-1@example.com')).toBe(0)
  })

  test.each<[string, (sql: Sql) => Promise<unknown>, string]>([
    ['a failed statement', (sql) => sql`select 1 / 0`, 'division by zero'],
    [
      'a failed statement that the work waits for after a later one',
      async (sql) => {
        const failed = sql`select 1 / 0`
        failed.catch(() => undefined)
        await sql`select 1`
        await failed
      },
      'division by zero',
    ],
    ['an error in the work', () => Promise.reject(new Error('stop')), 'stop'],
    [
      'an error that the work swallowed, which is reported',
      (sql) => sql`select 1 / 0`.catch(() => undefined),
      'The transaction was rolled back by an earlier error',
    ],
  ])('are all rolled back by %s', async (_, fail, message) => {
    const email = `${newId()}@example.com`
    const work = database.asOrg(acme, async (sql) => {
      await invite(sql, acme, email)
      await fail(sql)
      return 'done'
    })
    await expect(work).rejects.toThrow(message)
    expect(await invited(email)).toBe(0)
  })

  test('are rolled back by a failed statement that was not awaited, with its error as the cause', async () => {
    const email = `${newId()}@example.com`
    const work = database.asOrg(acme, async (sql) => {
      await invite(sql, acme, email)
      sql`select 1 / 0`.catch(() => undefined)
    })
    await expect(work).rejects.toMatchObject({ cause: { message: 'division by zero' } })
    expect(await invited(email)).toBe(0)
  })
})

describe('statements', () => {
  test('with the same text can be in flight together on a new connection', async () => {
    const pool = openPool()
    const same = (sql: Sql) => sql<{ one: number }>`select 1 as one`
    expect(await pool.asService((sql) => Promise.all([same(sql), same(sql)]))).toEqual([[{ one: 1 }], [{ one: 1 }]])
  })

  test('that failed to parse fail the same way again', async () => {
    const pool = openPool()
    const wrong = () => pool.asService((sql) => sql`select no_such_column from users`)
    for (let turn = 0; turn < 3; turn += 1) await expect(wrong()).rejects.toMatchObject({ code: '42703' })
  })

  test('take values as parameters, never as text', async () => {
    const value = "'; drop table users; --"
    expect(await database.asService((sql) => sql`select ${value} as value, ${null}::text as nothing`)).toEqual([
      { value, nothing: null },
    ])
  })

  test('that fail have the stack of their caller', async () => {
    async function divide(sql: Sql): Promise<void> {
      await sql`select 1 / 0`
    }
    const error = await database.asOrg(acme, divide).catch((failure: Error) => failure)
    expect(error?.stack).toMatch(/ at (async )?divide /)
  })
})

describe('values', () => {
  test.each([
    ['2026-11-15 03:02:21.123+00', '2026-11-15T03:02:21.123Z'],
    ['2026-11-15 03:02:21+00', '2026-11-15T03:02:21.000Z'],
    ['2026-11-15 03:02:21.1+00', '2026-11-15T03:02:21.100Z'],
    ['2026-11-15 03:02:21.12+00', '2026-11-15T03:02:21.120Z'],
    ['2026-11-15 03:02:21.123456+00', '2026-11-15T03:02:21.123Z'],
    ['2026-11-15 03:02:21.000001+00', '2026-11-15T03:02:21.000Z'],
    ['0001-01-01 00:00:00+00', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31 23:59:59.999+00', '9999-12-31T23:59:59.999Z'],
  ])('%s reads %s', (text, iso) => {
    expect(isoTimestamp(text)).toBe(iso)
  })

  test('timestamps have the format of JavaScript, in columns and inside JSON', async () => {
    const moment = fc.date({
      min: new Date('0001-01-01T00:00:00Z'),
      max: new Date('9999-12-31T23:59:59.999Z'),
      noInvalidDate: true,
    })
    await fc.assert(
      fc.asyncProperty(fc.array(moment, { minLength: 1, maxLength: 50 }), async (moments) => {
        const texts = moments.map((date) => date.toISOString())
        const rows = await database.asService(
          (sql) => sql`
            select moment as column, jsonb_build_object('at', iso_timestamp(moment)) as json
            from unnest(${texts}::timestamptz[]) with ordinality as given (moment, place) order by place`,
        )
        expect(rows).toEqual(texts.map((text) => ({ column: text, json: { at: text } })))
      }),
      { numRuns: 50 },
    )
  })

  test('integers are numbers, dates are strings, bytes are buffers', async () => {
    const [row] = await database.asService(
      (sql) => sql`
        select 9007199254740991::bigint as large, count(*) as counted, 1.5::numeric as decimal, 7 as small,
               date '2026-02-03' as date, '{a,b}'::text[] as list, decode('00ff', 'hex') as bytes, null::timestamptz as never
        from generate_series(1, 3)`,
    )
    expect(row).toEqual({
      large: 9007199254740991,
      counted: 3,
      decimal: 1.5,
      small: 7,
      date: '2026-02-03',
      list: ['a', 'b'],
      bytes: Buffer.from([0, 255]),
      never: null,
    })
  })
})

describe('when the database fails', () => {
  test('a node that is suspended in a transaction loses its locks before the statements of others time out', async () => {
    const [limits] = await openPool().asService(
      (sql) => sql`
        select current_setting('idle_in_transaction_session_timeout')::interval
          < current_setting('statement_timeout')::interval as is_shorter`,
    )
    expect(limits).toEqual({ is_shorter: true })
  })

  test('a slow statement is unavailable, and the next one has the usual timeout', async () => {
    const pool = openPool()
    const slow = pool.asService(async (sql) => {
      await sql`set local statement_timeout = '20ms'`
      await sql`select pg_sleep(15)`
    })
    await expect(slow).rejects.toEqual(unavailable)
    expect(await pool.asService((sql) => sql`show statement_timeout`)).toEqual([{ statement_timeout: '8s' }])
  })

  /** A role may end its own sessions; PostgreSQL responds when the session has ended. */
  const kill = (pid: number) => database.asService((sql) => sql`select pg_terminate_backend(${pid}, 10000)`)
  const pidOf = async (sql: Sql) => (await sql<{ pid: number }>`select pg_backend_pid() as pid`)[0]?.pid ?? 0

  test.each<[string, (sql: Sql, pid: number) => Promise<unknown>]>([
    ['during a statement', (sql, pid) => Promise.all([sql`select pg_sleep(15)`, kill(pid)])],
    [
      'between two statements',
      async (sql, pid) => {
        await kill(pid)
        await sql`select 1`
      },
    ],
    ['before the commit', (_, pid) => kill(pid)],
  ])('a connection that is killed %s is unavailable, and the next call gets a new one', async (_, work) => {
    const pool = openPool()
    const email = `${newId()}@example.com`
    let failed: unknown
    await pool
      .asOrg(acme, async (sql) => {
        await invite(sql, acme, email)
        await work(sql, await pidOf(sql))
      })
      .catch((error) => {
        failed = error
      })
    expect(failed).toBeInstanceOf(Failure)
    expect(failed).toEqual(unavailable)
    expect(await pool.asOrg(acme, visible)).toEqual([acme])
    expect(await invited(email)).toBe(0)
  })

  test('a connection that is killed while idle is reported and replaced', async () => {
    const onIdleError = vi.fn()
    const pool = openPool({ onIdleError })
    await kill(await pool.asService(pidOf))
    await vi.waitFor(() => expect(onIdleError).toHaveBeenCalled())
    expect(await pool.asOrg(acme, visible)).toEqual([acme])
  })

  /** PostgreSQL behind a proxy that can stop forwarding in both directions without closing connections. */
  async function useSilence() {
    const { host = '', port = 5432 } = new pg.Client(connection)
    const held: (() => void)[] = []
    const state = { isSilent: false, opened: 0 }
    const pass = (from: Socket, to: Socket) =>
      from
        .on('data', (chunk) => (state.isSilent ? held.push(() => to.write(chunk)) : to.write(chunk)))
        .on('close', () => to.destroy())
        .on('error', () => undefined)
    const between = createServer((socket) => {
      state.opened += 1
      const postgres = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
      pass(socket, postgres)
      pass(postgres, socket)
    }).listen(0, '127.0.0.1')
    await once(between, 'listening')
    onTestFinished(() => void between.close())
    const speak = () => {
      state.isSilent = false
      for (const send of held.splice(0)) send()
    }
    return {
      state,
      speak,
      connection: { ...connection, host: '127.0.0.1', port: (between.address() as AddressInfo).port },
    }
  }

  test('one that stops responding is soon unavailable, also for new transactions, and is used again when it responds', async () => {
    const { state, speak, connection } = await useSilence()
    const pool = openPool({ connection, connections: 2, answerWithinMs: 1_000 })
    const email = `${newId()}@example.com`
    expect(await pool.asOrg(acme, visible)).toEqual([acme])
    state.isSilent = true
    const requests = [
      pool.asOrg(acme, (sql) => invite(sql, acme, email)),
      pool.asOrg(acme, async (sql) => {
        await visible(sql)
        await visible(sql)
      }),
      ...Array.from({ length: 20 }, () => pool.asOrg(acme, visible)),
    ]
    expect(await Promise.allSettled(requests)).toEqual(
      requests.map(() => ({ status: 'rejected', reason: unavailable })),
    )
    await expect(pool.asOrg(acme, visible), 'on a new connection').rejects.toEqual(unavailable)
    const openedInSilence = state.opened
    speak()
    // A busy machine may need longer than a second for one of the attempts.
    await expect.poll(() => pool.asOrg(acme, visible).catch(String)).toEqual([acme])
    expect(state.opened, 'unresponsive connections are not reused').toBeGreaterThan(openedInSilence)
  })

  test('a transaction that waits too long for a connection is unavailable', async () => {
    const pool = openPool({ answerWithinMs: 4_000 })
    await pool.asService(visible)
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const first = pool.asService(() => held)
    await expect(pool.asOrg(acme, visible)).rejects.toEqual(unavailable)
    release()
    await first
    expect(await pool.asOrg(acme, visible)).toEqual([acme])
  })

  test('transactions beyond the queue for connections are unavailable at once', async () => {
    const pool = openPool({ mostWaiting: 3 })
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const first = pool.asService(() => held)
    const waiting = Array.from({ length: 3 }, () => pool.asService((sql) => sql`select 1`))
    await expect(pool.asService((sql) => sql`select 1`)).rejects.toEqual(unavailable)
    release()
    await Promise.all([first, ...waiting])
  })

  test.each([
    ['that cannot be reached', { host: '/nowhere' }],
    ['that does not exist', { database: 'no_such_database' }],
    ['that rejects the password', { password: 'wrong' }],
  ])('a database %s is unavailable', async (_, other) => {
    const pool = openPool({ connection: { ...connection, ...other } })
    await expect(pool.asService((sql) => sql`select 1`)).rejects.toEqual(unavailable)
  })
})

describe('connections', () => {
  /** Starts transactions that last until the test ends, as if they waited for locks. */
  function hold(count: number, begin: (work: () => Promise<void>) => Promise<unknown>) {
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
    const state = { running: 0 }
    const work = () => {
      state.running += 1
      return isOver
    }
    const all = Promise.allSettled(Array.from({ length: count }, () => begin(work)))
    onTestFinished(async () => {
      end()
      await all
    })
    return state
  }

  const visitorOf = (organization_id: string) => ({ organization_id })
  const userOf = (organization_id: string) => ({ organization_id, end_user: {} })

  test('are never all used by one organization, so that others need not wait', async () => {
    const pool = openPool({ connections: 10 })
    const held = hold(50, (work) => pool.asOrg(acme, work))
    expect(await pool.asOrg(globex, visible)).toEqual([globex])
    expect(await pool.asService(visible)).toEqual([])
    await expect.poll(() => held.running).toBe(7)
  })

  test('are used by few visitors of an organization, so that its users need not wait', async () => {
    const pool = openPool({ connections: 10 })
    const held = hold(50, (work) => pool.asHolder(visitorOf(acme), work))
    expect(await pool.asHolder(userOf(acme), visible)).toEqual([acme])
    expect(await pool.asHolder(visitorOf(globex), visible)).toEqual([globex])
    await expect.poll(() => held.running).toBe(2)
  })

  test('are half free when visitors of many organizations use all they can', async () => {
    const pool = openPool({ connections: 10 })
    const held = Array.from({ length: 10 }, newId).map((id) => hold(5, (work) => pool.asHolder(visitorOf(id), work)))
    expect(await pool.asOrg(globex, visible)).toEqual([globex])
    await expect.poll(() => held.reduce((sum, { running }) => sum + running, 0)).toBe(5)
  })

  test('go next to the organization that has the fewest', async () => {
    const pool = openPool({ connections: 4 })
    const order: string[] = []
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
    const first = [acme, acme, globex, globex].map((id) => pool.asOrg(id, () => isOver))
    const later = [acme, acme, acme, globex].map((id) =>
      pool.asOrg(id, async () => {
        order.push(id)
      }),
    )
    const newcomer = newId()
    later.push(
      pool.asOrg(newcomer, async () => {
        order.push(newcomer)
      }),
    )
    end()
    await Promise.all([...first, ...later])
    expect(order[0]).toBe(newcomer)
  })

  test('are all used by others, and a probe still gets its answer', async () => {
    const pool = openPool({ connections: 1 })
    const held = hold(2, (work) => pool.asOrg(acme, work))
    await expect.poll(() => held.running).toBe(1)
    await pool.ping()
    expect(held.running).toBe(1)
  })
})
