import { expect, test, vi } from 'vitest'
import { patience, useUsedInstallation } from '../processes.ts'

const userCount = 24
const names = Array.from({ length: userCount }, (_, n) => `user${n}@acme.example`)

test('kill -9 of the server and of PostgreSQL during a SCIM cycle: a client that retries ends in exactly the right state', {
  timeout: 600_000,
}, async () => {
  const inlay = useUsedInstallation()
  let server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const owner = await inlay.connect()
  const [{ id: organization } = { id: '' }] = (
    await owner.query<{ id: string }>(`select id from organizations where slug = 'demo'`)
  ).rows
  await owner.query(`select set_config('inlay.organization_id', '${organization}', false)`)
  await owner.query(`update organizations set plan_id = 'enterprise' where id = '${organization}'`)
  await owner.query(
    `insert into sign_in_domains (organization_id, id, domain, token, verified_at, checked_at)
     values ('${organization}', gen_random_uuid(), 'acme.example', 'proven', now(), now())`,
  )
  await owner.end()
  const settings = { name: 'Okta', type: 'okta', domain: 'acme.example' }
  const connected = await server.call('POST', '/api/directories', { token, body: settings })
  const { id: directory, bearer_token } = connected.body

  /** Sends a request once. Undefined if there was no usable response, so that the client has to repeat it. */
  async function attempt(method: string, path: string, body?: unknown) {
    try {
      const response = await fetch(`${server.url}/scim/v2/${directory}${path}`, {
        method,
        headers: { authorization: `Bearer ${bearer_token}`, 'content-type': 'application/scim+json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      if (response.status >= 500 || response.status === 429) return undefined
      return { status: response.status, body: text && JSON.parse(text) }
    } catch {
      return undefined
    }
  }
  /** Repeats a request until it has a response, as directories do. */
  const send = (method: string, path: string, body?: unknown) =>
    vi.waitFor(async () => {
      const answer = await attempt(method, path, body)
      if (!answer) throw new Error(`No response to ${method} ${path}`)
      return answer
    }, patience)
  const find = async (kind: string, attribute: string, value: string): Promise<string | undefined> => {
    const filter = encodeURIComponent(`${attribute} eq "${value}"`)
    return (await send('GET', `/${kind}?filter=${filter}`)).body.Resources[0]?.id
  }
  const ensure = async (kind: string, attribute: string, value: string): Promise<string> => {
    const known = await find(kind, attribute, value)
    if (known) return known
    const created = await send('POST', `/${kind}`, { [attribute]: value })
    // A create whose response was lost has happened: its repetition is refused as a duplicate.
    if (created.status === 409) return (await find(kind, attribute, value)) ?? ''
    expect(created.status).toBe(201)
    return created.body.id
  }
  const patch = async (path: string, ...Operations: object[]) =>
    expect((await send('PATCH', path, { Operations })).status).toBeLessThan(300)

  /** A whole cycle. Each step says the state that it wants, so that it can be repeated. */
  async function cycle(disturb: (step: number) => void): Promise<Map<string, string>> {
    const ids = new Map<string, string>()
    for (const [n, name] of names.entries()) {
      disturb(n)
      ids.set(name, await ensure('Users', 'userName', name))
    }
    const group = await ensure('Groups', 'displayName', 'Support')
    await restarting
    // A token is for one URL, and the port has changed.
    const path = `/api/directories/${directory}/groups/${group}`
    const mapping = { token: await inlay.token('admin@demo.test', 'demo'), body: { role: 'member' } }
    await vi.waitFor(async () => expect((await server.call('PATCH', path, mapping)).status).toBe(200), patience)
    for (const [n, name] of names.entries()) {
      disturb(userCount + n)
      await patch(`/Groups/${group}`, { op: 'add', path: 'members', value: [{ value: ids.get(name) }] })
    }
    for (const [n, name] of names.entries()) {
      disturb(2 * userCount + n)
      if (n % 4 === 0) await patch(`/Users/${ids.get(name)}`, { op: 'replace', value: { active: false } })
      if (n % 4 === 1) {
        const value = `members[value eq "${ids.get(name)}"]`
        await patch(`/Groups/${group}`, { op: 'remove', path: value })
      }
    }
    return ids
  }

  let restarting: Promise<void> | undefined
  const kills = { server: 0, database: 0 }
  function disturb(step: number): void {
    if (step % 18 === 9) {
      // While the next request is on its way.
      const killed = server
      kills.server += 1
      setImmediate(() => killed.signal('SIGKILL'))
      restarting = killed.finished.then(async () => {
        server = await inlay.start()
      })
    } else if (step % 18 === 0 && step > 0) {
      const pid = inlay.postmaster()
      if (pid === undefined) return
      kills.database += 1
      setImmediate(() => process.kill(pid, 'SIGKILL'))
    }
  }
  const ids = await cycle(disturb)
  await restarting
  expect(kills.server).toBe(4)
  expect(kills.database).toBeGreaterThan(0)

  const client = await inlay.connect()
  await client.query(`select set_config('inlay.organization_id', '${organization}', false)`)
  const { rows } = await client.query<{ id: string; user_name: string; state: string }>(`
    select u.id, u.user_name,
      case when m.id is null then 'no member' when m.deactivated_at is null then 'member' else 'deactivated' end as state
    from directory_users u left join members m on m.directory_user_id = u.id order by u.created_at, u.id`)
  await client.end()
  const expected = names.map((name, n) => ({
    id: ids.get(name),
    user_name: name,
    state: n % 4 === 0 ? 'deactivated' : n % 4 === 1 ? 'no member' : 'member',
  }))
  const byName = (one: { user_name: string }, other: { user_name: string }) =>
    one.user_name < other.user_name ? -1 : 1
  expect(rows.sort(byName)).toEqual(expected.sort(byName))
  expect(await inlay.run('audit verify')).toMatchObject({ code: 0 })
})
