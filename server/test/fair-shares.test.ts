import { expect, test } from 'vitest'
import { createRunTurns } from '../src/agent/loop/run-turns.ts'
import { createAttendance } from '../src/channels/ag-ui/attendance.ts'
import { SendingSpace } from '../src/channels/chat/sending-space.ts'
import { createLog } from '../src/kernel/lib/log.ts'
import { openLocalBus } from '../src/kernel/stores/bus.ts'

/** What organizations share on a node, and how each of them gets the most of it. */

const mebibyte = 1024 * 1024

/** Takes a part for a new user of the organization. Returns a function that gives it back, or undefined if there is none. */
type Take = (organization: string) => Promise<(() => void) | undefined>

function takeRuns(): Take {
  const inTurn = createRunTurns()
  let users = 0
  return async (organization_id) => {
    const [begun, over, stop] = [Promise.withResolvers<true>(), Promise.withResolvers<void>(), new AbortController()]
    users += 1
    const end_user = { id: `user ${users}` } as never
    const done = inTurn({ holder: { organization_id, end_user }, signal: stop.signal }, () => {
      begun.resolve(true)
      return over.promise
    })
    const waits = new Promise<false>((resolve) => setImmediate(resolve, false))
    if (await Promise.race([begun.promise, waits])) return over.resolve
    stop.abort()
    over.resolve()
    await done
    return undefined
  }
}

const takeStreams = (bytes: number) => async (): Promise<Take> => {
  const attendance = await createAttendance({ bus: openLocalBus(), log: createLog('silent') })
  let users = 0
  return async (organization_id) => {
    users += 1
    const end_user = { id: `user ${users}`, verified_email: undefined, identity_expires_at: 0, provider: '' }
    const holder = { organization_id, publishable_key_id: 'key', origin: undefined, site_id: undefined, end_user }
    try {
      return attendance.admit(holder, undefined, bytes)
    } catch {
      return undefined
    }
  }
}

function takeSpace(): Take {
  const room = new SendingSpace()
  return async (organizationId) => room.take({ organizationId, isVisitor: false }, mebibyte)
}

test.each([
  ['runs', takeRuns, 30],
  ['AG-UI streams', takeStreams(0), 30],
  ['memory for the requests of AG-UI streams', takeStreams(mebibyte), 6],
  ['memory for long conversations', takeSpace, 6],
])(
  'five organizations that take all they can get leave %s to a sixth, and get less as it needs more',
  async (_, open, most) => {
    const take = await open()
    const greedy = ['a', 'b', 'c', 'd', 'e']
    const held = new Map<string, (() => void)[]>()
    for (const organization of greedy) {
      const parts: (() => void)[] = []
      held.set(organization, parts)
      for (let part = await take(organization); part; part = await take(organization)) parts.push(part)
    }
    for (let n = 0; n < most; n += 1) expect(await take('sixth'), `part ${n}`).toBeDefined()
    for (let n = 0; n < most; n += 1) {
      for (const parts of held.values()) parts.pop()?.()
      expect(await take('a'), 'the one who has most').toBeUndefined()
      expect(await take('sixth')).toBeDefined()
    }
  },
)
