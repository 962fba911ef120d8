import { setImmediate as endOfTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createTurnBatch } from './turn-batch.ts'

function useBatch() {
  const batches: (readonly string[])[] = []
  return { batches, ...createTurnBatch<string>((items) => batches.push(items)) }
}

test('passes on the items of a turn together, in order, at its end', async () => {
  const { batches, add } = useBatch()
  add('a')
  await Promise.resolve()
  add('b')
  expect(batches).toEqual([])
  await endOfTurn()
  expect(batches).toEqual([['a', 'b']])
  add('c')
  await endOfTurn()
  expect(batches).toEqual([['a', 'b'], ['c']])
})

test('passes items on at once when flushed, and never an empty batch', async () => {
  const { batches, add, flush } = useBatch()
  flush()
  add('a')
  flush()
  expect(batches).toEqual([['a']])
  await endOfTurn()
  expect(batches).toEqual([['a']])
})

test('passes on items that are added after a flush or while a batch is passed on', async () => {
  const { batches, add, flush } = useBatch()
  add('a')
  flush()
  add('b')
  await endOfTurn()
  expect(batches).toEqual([['a'], ['b']])

  const passed: string[] = []
  const echoing = createTurnBatch<string>(([item = '']) => {
    passed.push(item)
    if (passed.length < 3) echoing.add(`${item}!`)
  })
  echoing.add('a')
  for (let turn = 0; turn < 3; turn += 1) await endOfTurn()
  expect(passed).toEqual(['a', 'a!', 'a!!'])
})

test('passes on in the same turn what one batch adds to another', async () => {
  const { batches, add } = useBatch()
  const first = createTurnBatch<string>((items) => items.forEach(add))
  first.add('a')
  first.add('b')
  await endOfTurn()
  expect(batches).toEqual([['a', 'b']])
})

test('keeps the remaining turns working after an error', async () => {
  let fails = true
  const passed: string[] = []
  const { add, flush } = createTurnBatch<string>((items) => {
    if (fails) throw new Error('broken')
    passed.push(...items)
  })
  add('a')
  expect(flush).toThrow('broken')
  fails = false
  add('b')
  await endOfTurn()
  expect(passed).toEqual(['b'])
})
