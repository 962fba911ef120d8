import { scryptSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { begin } from '../../../test/oauth-client.ts'
import { addLocalUser } from '../users/local-accounts.ts'
import { isPassword } from '../users/passwords.ts'
import { beginAttempt, pairOf } from './attempts.ts'

const password = 'correct horse battery'
const wrong = 'wrong horse battery'

let app: HttpService
let people = 0
beforeAll(async () => {
  app = await startHttpService({ INLAY_TRUSTED_PROXIES: '127.0.0.0/8, ::1/128' })
})
afterAll(() => app.close())

/** An older, cheaper hash, so that the tests don't compete for CPU. */
const storedWith = (N: number) =>
  `scrypt$${N}$8$1$c2FsdA$${scryptSync(password, 'salt', 32, { N, r: 8, p: 1, maxmem: 256 * N * 8 }).toString('base64url')}`
const [cheap, costly] = [storedWith(2 ** 10), storedWith(2 ** 13)]

async function addPerson(hash = cheap): Promise<string> {
  people += 1
  const { id, email } = await addLocalUser(app.service, { email: `p${people}@example.com`, name: 'P' })
  await app.service.database.asService((sql) => sql`update users set password_hash = ${hash} where id = ${id}`)
  return email
}

/** A visitor on the sign-in page whose proxy reports `address`. */
async function visit(address: string): Promise<Browser> {
  const headers = { 'x-forwarded-for': address }
  return (await begin(app.url, {}, {}, new Browser(app.url, headers))).browser
}

const signIn = (browser: Browser, email: string, given: string) =>
  browser.press('Sign in', { email, password: given }).then(readPageResponse)

const readPageResponse = ({ page, text, html }: Browser) => ({
  status: page?.status,
  retryAfter: page?.headers.get('retry-after'),
  problem: /<p role="alert">([^<]*)</.exec(html)?.[1],
  isIn: text.includes('Signed in as'),
})

const isWrong = 'The email address or password is incorrect.'
const tooMany = 'Too many failed sign-in attempts for this email address.'

test.each([
  ['NUL', 'ann\0@example.com'],
  ['a lone surrogate', 'ann\ud800@example.com'],
])('a form field with %s is a wrong address, and no error', async (_, email) => {
  const browser = await visit('198.51.100.99')
  expect(await signIn(browser, email, wrong)).toMatchObject({ status: 400, problem: isWrong })
})

describe('failed attempts', () => {
  test.each(['an account', 'an unknown account'])('slow their sender down, for %s', async (kind) => {
    const email = kind === 'an account' ? await addPerson() : 'nobody@example.com'
    const browser = await visit('198.51.100.1')
    const tries = [wrong, wrong, wrong, wrong]
    const answers = []
    for (const given of tries) answers.push(await signIn(browser, email, given))
    expect(answers).toMatchObject([
      { status: 400, problem: isWrong },
      { status: 400, problem: isWrong },
      { status: 400, problem: `${isWrong} You can try again in 1 second.` },
      { status: 429, problem: `${tooMany} Try again in 1 second.`, retryAfter: '1' },
    ])
    app.clock.now += 1000
    expect(await signIn(browser, email, wrong)).toMatchObject({
      status: 400,
      problem: `${isWrong} You can try again in 2 seconds.`,
    })
    app.clock.now += 1999
    expect(await signIn(browser, email, wrong)).toMatchObject({ status: 429 })
  })

  test("don't block other addresses, and the delay expires", async () => {
    const email = await addPerson()
    const stranger = await visit('198.51.100.2')
    for (let turn = 0; turn < 4; turn += 1) await signIn(stranger, email, wrong)
    expect(await signIn(stranger, email, password), 'the password is not checked').toMatchObject({
      status: 429,
      isIn: false,
    })
    expect(await signIn(await visit('203.0.113.1'), email, password)).toMatchObject({ isIn: true })
    app.clock.now += 1000
    expect(await signIn(stranger, email, password)).toMatchObject({ isIn: true })
  })

  test('count together for a whole IPv6 network, and for an account in any case', async () => {
    const email = await addPerson()
    const addresses = ['2001:db8:1:2::1', '2001:db8:1:2::2', '2001:db8:1:2:3::4']
    for (const address of addresses) await signIn(await visit(address), email.toUpperCase(), wrong)
    expect(await signIn(await visit('2001:db8:1:2:ffff::'), email, password)).toMatchObject({ status: 429 })
    expect(await signIn(await visit('2001:db8:1:3::1'), email, password)).toMatchObject({ isIn: true })
  })

  test('are reset by a successful sign-in', async () => {
    const email = await addPerson()
    const browser = await visit('198.51.100.3')
    for (const given of [wrong, wrong, password]) await signIn(browser, email, given)
    const again = await visit('198.51.100.3')
    expect(await signIn(again, email, wrong)).toMatchObject({ status: 400, problem: isWrong })
  })

  test('in parallel are checked one at a time', async () => {
    const email = await addPerson()
    const visitors = await Promise.all(Array.from({ length: 10 }, () => visit('198.51.100.4')))
    const answers = await Promise.all(visitors.map((browser) => signIn(browser, email, wrong)))
    const statuses = answers.map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([400, 429]))
    // Only failures without a delay may be followed by another attempt.
    expect(statuses.filter((status) => status === 400).length).toBeLessThanOrEqual(3)
  })

  test('cause a delay of 1 second, doubling each time up to five minutes', async () => {
    const pair = pairOf('growing@example.com', '198.51.100.5')
    const waits = []
    for (let turn = 0; turn < 14; turn += 1) {
      const attempt = await beginAttempt(app.service, pair)
      if ('waitSeconds' in attempt) throw new Error('Not yet')
      const { failures, waitSeconds } = await attempt.fail()
      expect(failures).toBe(turn + 1)
      waits.push(waitSeconds)
      await attempt.end()
      app.clock.now += waitSeconds * 1000
    }
    expect(waits).toEqual([0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
  })
})

// Once, because the queue of password checks is the same on all stores, and the checks take seconds of CPU.
test.skipIf(inject('engines').redisUrl)("a flood of passwords from one address doesn't block others", async () => {
  const emails = await Promise.all(Array.from({ length: 5 }, () => addPerson()))
  const others = await Promise.all(emails.map((_, n) => visit(`203.0.113.${10 + n}`)))
  const victims = await Promise.all(Array.from({ length: 150 }, () => addPerson(costly)))
  const attacker = await visit('198.51.100.9')
  const address = attacker.form('Sign in').action.replace(/\/sign-in$/, '')
  const tabs = await Promise.all(victims.map(() => attacker.fork().open(address)))
  const flood = tabs.map((browser, n) => signIn(browser, victims[n] ?? '', wrong))
  const answers = await Promise.all(others.map((browser, n) => signIn(browser, emails[n] ?? '', password)))
  expect(answers.map(({ isIn }) => isIn)).toEqual([true, true, true, true, true])
  const statuses = (await Promise.all(flood)).map(({ status }) => status)
  expect(new Set(statuses), 'some wait, the others are refused').toEqual(new Set([400, 503]))
})

test('refuses a sign-in while too many checks are queued, and accepts it later', async () => {
  const email = await addPerson()
  const browser = await visit('203.0.113.20')
  // Each asks again as soon as it has an answer, so that the queue stays full.
  let isCrowded = true
  const crowd = Array.from({ length: 42 }, async (_, n) => {
    while (isCrowded) await isPassword(wrong, costly, `lane ${n}`)
  })
  expect(await signIn(browser, email, password)).toEqual({
    status: 503,
    problem: 'Too many users are signing in right now. Try again in a few seconds.',
    retryAfter: '5',
    isIn: false,
  })
  isCrowded = false
  await Promise.all(crowd)
  expect(await signIn(browser, email, password)).toMatchObject({ isIn: true })
})
