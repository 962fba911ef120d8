import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { createLog, type Log, removeCredentials } from './log.ts'
import { createSecrets } from './secrets.ts'

function logged(write: (log: Log) => void, level = 'trace'): string {
  const lines: string[] = []
  write(createLog(level, new Writable({ write: (line, _, done) => done(void lines.push(String(line))) })))
  return lines.join('')
}

const canary = 'c4n4ry'
const envelope = createSecrets(['log-secret-0123456789-abcdefghijklmnop']).seal(canary, 'place')
const jwt = `eyJhbGciOiJFZERTQSJ9.${Buffer.from('{"sub":"somebody"}').toString('base64url')}.${canary}-signature_x`

const credentials = [
  ['a live key', `pk_live_${canary}AbC123`],
  ['a test key', `pk_test_${canary}AbC123`],
  ['a bearer token', `Bearer ${canary}.opaque~+/token==`],
  ['a bearer token in lower case', `bearer ${canary}.opaque`],
  ['a JWT', jwt],
  ['an unsigned JWT', `eyJhbGciOiJub25lIn0.${canary}.`],
  ['a sealed envelope', envelope],
  ['a password in a database URL', `postgres://inlay:${canary}@db.example.com:5432/inlay`],
  ['a password with signs in it', `postgres://inlay:${canary}%40!$&'()*+,;=:x@db.example.com/inlay`],
  ['a password without a user', `redis://:${canary}@cache.example.com`],
] as const

/** The secret part of a credential, which must never be logged. */
const secretPart = (credential: string) => (credential === envelope ? envelope.slice(12) : canary)

describe('removes', () => {
  test.each(credentials)('%s from a sentence', (_, credential) => {
    const text = removeCredentials(`Refused "${credential}" (twice: ${credential}) at 12:00`)
    expect(text).not.toContain(secretPart(credential))
    expect(text).toMatch(/^Refused ".*\[removed\].* at 12:00$/)
  })

  test.each(credentials)('%s from an error, its stack and its causes', (_, credential) => {
    const error = new Error(`first ${credential}`, {
      cause: new TypeError(`second ${credential}`, { cause: `third ${credential}` }),
    })
    error.stack += `\n    at ${credential}`
    const line = logged((log) => log.error({ err: error }, 'request failed'))
    expect(line).not.toContain(secretPart(credential))
    expect(JSON.parse(line)).toMatchObject({
      msg: 'request failed',
      err: { type: 'Error', message: expect.stringMatching(/^first .*\[removed\]/), cause: { type: 'TypeError' } },
    })
  })

  test.each<[string, (log: Log, text: string) => void]>([
    ['an error that is logged alone', (log, text) => log.error(new Error(text))],
    ['an error that is logged without a message', (log, text) => log.error({ err: new Error(text) })],
    ['the message itself', (log, text) => log.error(text)],
    ['an error that is only text', (log, text) => log.error({ err: text }, 'failed')],
  ])('credentials from %s', (_, write) => {
    for (const [name, credential] of credentials) {
      const line = logged((log) => write(log, `Refused ${credential}`))
      expect(line, name).not.toContain(secretPart(credential))
      expect(JSON.parse(line).level).toBe('error')
    }
  })

  test.each(['authorization', 'password', 'secret', 'token', 'key', 'id_token', 'ticket'])('the field %s', (field) => {
    const line = logged((log) => log.info({ [field]: canary, other: 'stays' }, 'text'))
    expect(JSON.parse(line)).toMatchObject({ [field]: '[removed]', other: 'stays', msg: 'text' })
  })
})

describe('keeps', () => {
  test.each([
    'The database is not reachable',
    'connect ECONNREFUSED 127.0.0.1:5432',
    'postgres://db.example.com:5432/inlay',
    'postgres://inlay@db.example.com:5432/inlay',
    'https://example.com/a:b@c',
    'Say hello to admin@demo.test: she is a bearer of news',
    'publishable_keys.key_prefix, pk_live_, v1.2.3, eyJ',
    'at Object.<anonymous> (file:///srv/inlay/server/src/app.ts:10:5)',
  ])('%s', (text) => {
    expect(removeCredentials(text)).toBe(text)
  })

  test('the code and the type of an error', () => {
    const error = Object.assign(new RangeError('too far'), { code: 'ECONNRESET' })
    expect(JSON.parse(logged((log) => log.warn({ err: error }, 'failed')))).toMatchObject({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      err: {
        type: 'RangeError',
        message: 'too far',
        code: 'ECONNRESET',
        stack: expect.stringContaining('log.test.ts'),
      },
    })
  })
})

test('logs an error whose chain of causes is circular', () => {
  const [first, second] = [new Error('first'), new Error('second')]
  first.cause = second
  second.cause = first
  expect(logged((log) => log.error({ err: first }, 'failed'))).toContain('second')
})

test('drops lines below the level', () => {
  expect(logged((log) => log.info('quiet'), 'warn')).toBe('')
})

test.runIf(existsSync('/dev/full'))(
  'keeps the process running when the log cannot be written because the disk is full',
  async () => {
    const script = `
    import { createLog } from ${JSON.stringify(import.meta.resolve('./log.ts'))}
    const log = createLog('info')
    for (let n = 0; n < 1_000; n += 1) log.info({ n }, 'x'.repeat(100))
    setTimeout(() => process.exit(7), 1_000)`
    const child = spawn('sh', ['-c', 'exec "$0" --input-type=module --eval "$1" > /dev/full', process.execPath, script])
    let errors = ''
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    const [code] = await once(child, 'close')
    expect({ code, errors }).toEqual({ code: 7, errors: '' })
  },
)
