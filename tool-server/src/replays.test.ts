import fc from 'fast-check'
import { expect, test } from 'vitest'
import { rememberInMemory } from './replays.ts'

test('an id can be claimed once until it expires, whatever else is claimed in the meantime', () => {
  const claims = fc.array(fc.record({ id: fc.constantFrom('a', 'b', 'c'), life: fc.nat(4000), pause: fc.nat(2000) }))
  fc.assert(
    fc.property(claims, (list) => {
      let now = 1_763_640_000
      const store = rememberInMemory(() => now * 1000)
      const ends = new Map<string, number>()
      for (const { id, life, pause } of list) {
        const isFree = (ends.get(id) ?? 0) <= now
        const isFirst = store.claim(id, now + life)
        // The store may keep an id for up to a minute longer, which is safe; too short isn't.
        if (!isFree) expect(isFirst).toBe(false)
        if ((ends.get(id) ?? 0) + 60 <= now) expect(isFirst).toBe(true)
        if (isFirst) ends.set(id, now + life)
        now += pause
      }
    }),
  )
})
