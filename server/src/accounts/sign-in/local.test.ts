import { createHook } from 'node:async_hooks'
import { scryptSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { addLocalUser, findLocalAccount } from '../users/local-accounts.ts'
import { signIn, type User } from '../users/users.ts'
import { createPasswordLink } from './password-pages.ts'
import { signInAsDemoUser as signInAsDemo, signInMethods, signInWithPassword as signInWith } from './sign-in.ts'

const password = 'correct horse battery'
const long = Array.from({ length: 60 }, (_, n) => `word ${n} `).join('')

const address = '203.0.113.7'

/** The user, or the reason for the refusal. */
async function signInWithPassword(service: Service, email: string, password: string) {
  const outcome = await signInWith(service, { email, password, address })
  return outcome.is === 'signed in' ? outcome.user : outcome.is
}
const signInAsDemoUser = (service: Service, email: string) => signInAsDemo(service, email, address)

let app: TestService
let people = 0
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

async function addPerson(given?: string) {
  people += 1
  const account = { email: `person-${people}@example.com`, name: `Person ${people}` }
  return addLocalUser(app.service, { ...account, ...(given !== undefined && { password: given }) })
}

const accountOf = async (email: string) => {
  const account = await findLocalAccount(app.service, email)
  if (!account) throw new Error(`No account ${email}`)
  return account
}

describe('a password', () => {
  test('signs its owner in, regardless of the case of the email address', async () => {
    const person = await addPerson(password)
    expect(await signInWithPassword(app.service, person.email, password)).toEqual(person)
    expect(await signInWithPassword(app.service, person.email.toUpperCase(), password)).toEqual(person)
  })

  test.each([
    ['a wrong password', (email: string) => [email, 'correct horse batter']],
    ['no password', (email: string) => [email, '']],
    ['a password that is too long', (email: string) => [email, password.padEnd(201)]],
    ['an unknown address', () => ['nobody@example.com', password]],
    ['an address with spaces', (email: string) => [` ${email}`, password]],
    ['no address', () => ['', password]],
    ['an address that is too long', (email: string) => [email.padStart(255, 'x'), password]],
    ['a wildcard', () => ['person-%', password]],
    ['the account of a user without a password', () => ['admin@demo.test', password]],
    ['the account of a user without a password, and an empty password', () => ['admin@demo.test', '']],
  ])('rejects %s', async (_, make) => {
    const person = await addPerson(password)
    const [email = '', given = ''] = make(person.email)
    expect(await signInWithPassword(app.service, email, given)).toBe('wrong')
  })

  test('does not open an account of another issuer with the same email address', async () => {
    const identity = { email_verified: true, name: 'Eve', avatar_url: '', email: 'eve@example.com' }
    await signIn(app.service, { ...identity, issuer: 'https://elsewhere.example', subject: 'eve@example.com' })
    expect(await signInWithPassword(app.service, 'eve@example.com', password)).toBe('wrong')
  })

  test('takes the same time to check for a user with a password, without one, and for an unknown user', async () => {
    const person = await addPerson(password)
    let runs = 0
    const hook = createHook({ init: (_, type) => void (type === 'SCRYPTREQUEST' && runs++) }).enable()
    onTestFinished(() => void hook.disable())
    for (const email of [person.email, 'admin@demo.test', 'nobody@example.com']) {
      runs = 0
      expect(await signInWithPassword(app.service, email, 'something else')).toBe('wrong')
      expect({ email, runs }).toEqual({ email, runs: 1 })
    }
  })

  test('with an outdated hash is rehashed when it is used', async () => {
    const person = await addPerson()
    const hash = scryptSync(password, 'salt', 32, { N: 1024, r: 8, p: 1 }).toString('base64url')
    const old = `scrypt$1024$8$1$c2FsdA$${hash}`
    await app.service.database.asService((sql) => sql`update users set password_hash = ${old} where id = ${person.id}`)
    expect(await signInWithPassword(app.service, person.email, 'something else')).toBe('wrong')
    expect((await accountOf(person.email)).password_hash).toBe(old)
    expect(await signInWithPassword(app.service, person.email, password)).toEqual(person)
    const { password_hash } = await accountOf(person.email)
    expect(password_hash).toMatch(/^scrypt\$2048\$/)
    expect(await signInWithPassword(app.service, person.email, password)).toEqual(person)
    expect((await accountOf(person.email)).password_hash, 'only once').toBe(password_hash)
  })
})

describe('demo users', () => {
  test('sign in without a password in development', async () => {
    const methods = signInMethods(app.service)
    expect(methods).toMatchObject({ external: false, local: true })
    expect(methods.demoUsers.map(({ email }) => email)).toContain('admin@demo.test')
    expect(await signInAsDemoUser(app.service, 'admin@demo.test')).toEqual({
      id: expect.any(String),
      email: 'admin@demo.test',
      name: 'Demo Admin',
      session_generation: 0,
    })
  })

  test('are the only users who can', async () => {
    const person = await addPerson(password)
    for (const email of [person.email, 'nobody@example.com', 'ADMIN@demo.test', '']) {
      expect(await signInAsDemoUser(app.service, email)).toBeUndefined()
    }
  })

  test('do not exist in production', async () => {
    const production = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    expect(signInMethods(production.service)).toEqual({
      external: false,
      local: true,
      passkeys: true,
      resets: false,
      demoUsers: [],
    })
    expect(await signInAsDemoUser(production.service, 'admin@demo.test')).toBeUndefined()
  })
})

describe('a password link', () => {
  const linkFor = async (email: string) => {
    const link = new URL(await createPasswordLink(app.service, 'http://localhost:8787', await accountOf(email)))
    expect(link.origin + link.pathname).toBe('http://localhost:8787/sign-in/set-password')
    return link.searchParams.get('token') ?? ''
  }
  const open = (token: string) => read(app.fetch(`/sign-in/set-password?${new URLSearchParams({ token })}`))
  const submit = (fields: Record<string, string>) =>
    read(app.fetch('/sign-in/set-password', { method: 'POST', body: new URLSearchParams(fields) }))
  /** A new password ends all sessions, once. */
  const afterwards = (person: User): User => ({ ...person, session_generation: person.session_generation + 1 })
  const notValid = { status: 404, text: expect.stringContaining('This link isn’t valid') }

  test('shows a form, sets the password, and then stops working', async () => {
    const person = await addPerson()
    const token = await linkFor(person.email)
    const page = await open(token)
    expect(page).toMatchObject({ status: 200, text: expect.stringContaining(`name="token" value="${token}"`) })
    expect(page.headers.get('cache-control')).toBe('no-store')
    expect(page.headers.get('referrer-policy')).toBe('no-referrer')
    expect(await submit({ token, password, repeated: password })).toMatchObject({
      status: 200,
      text: expect.stringContaining('Your password is set'),
    })
    expect(await signInWithPassword(app.service, person.email, password)).toEqual(afterwards(person))
    expect(await open(token)).toMatchObject(notValid)
    expect(await submit({ token, password: `another ${password}`, repeated: `another ${password}` })).toMatchObject(
      notValid,
    )
    expect(await signInWithPassword(app.service, person.email, password)).toEqual(afterwards(person))
    expect(app.logged()).not.toContain(token)
    expect(app.logged()).not.toContain(password)
  })

  test.each([
    ['11 characters', 'jolly teapo', undefined, 'Use at least 12 characters.'],
    ['no characters', '', undefined, 'Use at least 12 characters.'],
    ['201 characters', long.slice(0, 201), undefined, 'Use at most 200 characters.'],
    ['two different ones', 'jolly teapots', 'jolly kettles', 'The passwords don’t match.'],
    ['one character repeated twelve times', 'aaaaaaaaaaaa', undefined, 'This password repeats itself'],
    ['a common one', 'Password1234!', undefined, 'This password is made of common words'],
    [
      'the user’s own email address',
      'person@example.com',
      undefined,
      'This password is mostly your name or email address',
    ],
  ])('rejects %s, and stays valid', async (_, given, repeated, problem) => {
    const person = await addPerson()
    const token = await linkFor(person.email)
    const answer = await submit({ token, password: given, repeated: repeated ?? given })
    expect(answer).toMatchObject({ status: 400, text: expect.stringContaining(`<p role="alert">${problem}`) })
    if (given) expect(answer.text, 'the password is not sent back').not.toContain(given)
    expect((await submit({ token, password, repeated: password })).status).toBe(200)
  })

  test.each([12, 200])('accepts %i characters', async (length) => {
    const person = await addPerson()
    const given = long.slice(0, length)
    expect((await submit({ token: await linkFor(person.email), password: given, repeated: given })).status).toBe(200)
    expect(await signInWithPassword(app.service, person.email, given)).toEqual(afterwards(person))
  })

  test('works for only one of several concurrent requests', async () => {
    const person = await addPerson()
    const token = await linkFor(person.email)
    const passwords = ['one', 'two', 'three', 'four'].map((word) => `${word} ${password}`)
    const answers = await Promise.all(passwords.map((given) => submit({ token, password: given, repeated: given })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404])
    const winner = passwords[answers.findIndex(({ status }) => status === 200)] ?? ''
    expect(await signInWithPassword(app.service, person.email, winner)).toEqual(afterwards(person))
  })

  test('stops working once the password is set with another link', async () => {
    const person = await addPerson(password)
    const [older, newer] = [await linkFor(person.email), await linkFor(person.email)]
    const fresh = `new ${password}`
    expect((await submit({ token: newer, password: fresh, repeated: fresh })).status).toBe(200)
    expect(await submit({ token: older, password, repeated: password })).toMatchObject(notValid)
    expect(await signInWithPassword(app.service, person.email, fresh)).toEqual(afterwards(person))
    expect(await signInWithPassword(app.service, person.email, password), 'the old password no longer works').toBe(
      'wrong',
    )
  })

  test.each(['', 'guessed', 'x'.repeat(5000)])('is not valid with the token "%.10s"', async (token) => {
    expect(await open(token)).toMatchObject(notValid)
    expect(await submit({ token, password, repeated: password })).toMatchObject(notValid)
  })

  // Redis has its own clock; expiry is tested with the store.
  test.skipIf(inject('engines').redisUrl)('is valid for a day', async () => {
    const aging = await useTestService()
    const account = await findLocalAccount(aging.service, 'admin@demo.test')
    if (!account) throw new Error('No demo')
    const link = new URL(await createPasswordLink(aging.service, 'http://localhost:8787', account))
    aging.clock.now += 24 * 60 * 60_000 - 1
    expect((await aging.fetch(link.pathname + link.search)).status).toBe(200)
    aging.clock.now += 2
    expect((await aging.fetch(link.pathname + link.search)).status).toBe(404)
  })

  test('rejects large forms', async () => {
    expect((await submit({ token: 'x'.repeat(20_000) })).status).toBe(413)
  })
})

async function read(answer: Promise<Response>) {
  const response = await answer
  return { status: response.status, headers: response.headers, text: await response.text() }
}
