import { expect, test } from 'vitest'
import { createRunTurns } from './run-turns.ts'

/** Turns for three runs, two per organization, and the runs that have begun. */
function useTurns() {
  const inTurn = createRunTurns({ atATime: 3, perLane: 2 })
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  return {
    begun,
    begin(name: string, organization_id: string, isVisitor = false) {
      const abort = new AbortController()
      const end_user = isVisitor ? undefined : ({ id: name } as never)
      const done = inTurn({ holder: { organization_id, end_user }, signal: abort.signal }, (hasWaited) => {
        begun.push(hasWaited ? `${name}, after others` : name)
        if (abort.signal.aborted) return Promise.resolve()
        return new Promise((resolve) => ends.set(name, resolve))
      })
      return { abort, done }
    },
    async end(name: string) {
      ends.get(name)?.()
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test('an organization with many runs leaves room for those of others, and its own wait', async () => {
  const { begin, begun, end } = useTurns()
  for (const name of ['a1', 'a2', 'a3', 'a4']) begin(name, 'a')
  begin('b1', 'b')
  expect(begun).toEqual(['a1', 'a2', 'b1'])
  await end('a1')
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3, after others'])
})

test('visitors take turns with the users of their organization', async () => {
  const { begin, begun, end } = useTurns()
  for (const name of ['v1', 'v2', 'v3']) begin(name, 'a', true)
  begin('user', 'a')
  expect(begun).toEqual(['v1', 'v2', 'user'])
  begin('late', 'a')
  await end('v1')
  expect(begun.at(-1), 'the one who has fewer').toBe('v3, after others')
  await end('v2')
  expect(begun.at(-1)).toBe('late, after others')
})

test('a run that is stopped while it waits ends at once, and takes nobody’s turn', async () => {
  const { begin, begun, end } = useTurns()
  for (const name of ['a1', 'a2']) begin(name, 'a')
  const stopped = begin('a3', 'a')
  begin('a4', 'a')
  stopped.abort.abort()
  await stopped.done
  expect(begun).toEqual(['a1', 'a2', 'a3, after others'])
  await end('a1')
  expect(begun.at(-1)).toBe('a4, after others')
})
