import { expect, test } from 'vitest'
import { pickEncoding } from './shared-file.ts'

test.each([
  [undefined, 'identity'],
  ['', 'identity'],
  ['gzip, deflate, br, zstd', 'br'],
  ['gzip', 'gzip'],
  ['GZIP;Q=0.5', 'gzip'],
  ['br;q=0.5, gzip;q=0.8', 'gzip'],
  ['br;q=0, gzip', 'gzip'],
  ['br ; q=1.0 , gzip', 'br'],
  ['*', 'br'],
  ['*;q=0', 'identity'],
  ['br;q=0, *', 'gzip'],
  ['identity, gzip;q=0.5', 'identity'],
  ['zstd', 'identity'],
  ['identity;q=0', 'identity'],
  ['br;q=oops, gzip', 'br'],
  [',;q=1,', 'identity'],
])('a client that accepts %j gets %s', (accepted, encoding) => {
  expect(pickEncoding(accepted)).toBe(encoding)
})
