import { describe, expect, test } from 'vitest'
import { hasFrameMoved, MouseWatch, type Place } from './surprises.ts'

/** Where a pointer is in a frame at `left` and `top`, whose pixels are `zoom` pixels of the screen. */
const at = (screenX: number, screenY: number, { left = 700, top = 200, zoom = 1 } = {}): Place => ({
  screenX,
  screenY,
  clientX: Math.round((screenX - left) / zoom),
  clientY: Math.round((screenY - top) / zoom),
})

const ways: [name: string, to: [x: number, y: number]][] = [
  ['rests', [900, 500]],
  ['moves by a pixel', [901, 500]],
  ['moves a little', [905, 493]],
  ['moves far', [1080, 230]],
  ['comes back from the other side', [710, 790]],
]

describe.each([0.25, 0.5, 0.9, 1, 1.1, 1.5, 2, 5])('at a zoom of %d', (zoom) => {
  test.each(ways)('a frame at rest has not moved while the pointer %s', (_, [x, y]) => {
    expect(hasFrameMoved(at(900, 500, { zoom }), at(x, y, { zoom }))).toBe(false)
  })

  test.each(ways)('a frame that moves sideways is noticed while the pointer %s', (_, [x, y]) => {
    expect(hasFrameMoved(at(900, 500, { zoom }), at(x, y, { zoom, left: 800, top: 160 }))).toBe(true)
  })
})

test.each([
  ['up', { top: 140 }],
  ['down', { top: 260 }],
  ['left', { left: 640 }],
  ['right', { left: 760 }],
])('a frame that moves %s under a pointer at rest is noticed', (_, to) => {
  expect(hasFrameMoved(at(900, 500), at(900, 500, to))).toBe(true)
})

test('a frame that moves against the pointer is noticed', () => {
  expect(hasFrameMoved(at(900, 500), at(900, 510, { top: 260 }))).toBe(true)
})

describe('the mouse is surprised', () => {
  const follow = (...places: Place[]) => {
    const watch = new MouseWatch()
    return places.map((place) => watch.isSurprised(place))
  }

  test('when it comes into the frame, and not while it moves there', () => {
    expect(follow(at(900, 500), at(903, 500), at(910, 480), at(910, 480))).toEqual([true, false, false, false])
    const watch = new MouseWatch()
    const places = [at(900, 500), at(903, 500)]
    expect(places.map((place) => watch.isSurprised(place))).toEqual([true, false])
    watch.leave()
    expect(places.map((place) => watch.isSurprised(place))).toEqual([true, false])
  })

  test('once when the frame jumps', () => {
    const jumped = { top: 260 }
    expect(follow(at(900, 500), at(900, 500, jumped), at(901, 500, jumped))).toEqual([true, true, false])
  })

  test('when the frame slides in small steps', () => {
    const slide = Array.from({ length: 12 }, (_, step) => at(900 + step, 500, { top: 200 + 5 * step }))
    expect(follow(...slide).slice(1)).toContain(true)
  })
})
