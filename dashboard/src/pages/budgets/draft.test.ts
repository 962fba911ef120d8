import { expect, test } from 'vitest'
import { changesOf, parseLimit } from './draft.ts'

test.each([
  ['day_tokens', '', null],
  ['day_tokens', ' 500000 ', 500_000],
  ['day_tokens', '500,000', 500_000],
  ['day_tokens', '1.500.000', 1_500_000],
  ['day_tokens', '5,0', undefined],
  ['day_tokens', '-1', undefined],
  ['day_tokens', '9'.repeat(17), undefined],
  ['day_tokens_per_address', '200,000', 200_000],
  ['day_cost_micro_usd', '$20', 20_000_000],
  ['day_cost_micro_usd', '2.50', 2_500_000],
  ['day_cost_micro_usd', '2,5', 2_500_000],
  ['day_cost_micro_usd', '0.000001', 1],
  ['day_cost_micro_usd', '0.0000001', undefined],
  ['day_cost_micro_usd', 'free', undefined],
] as const)('%s: "%s" is %s', (name, text, limit) => {
  expect(parseLimit(name, text)).toBe(limit)
})

test('only limits that differ are sent', () => {
  const none = { day_tokens: null, month_tokens: null, day_cost_micro_usd: null, month_cost_micro_usd: null }
  const saved = {
    organization: { ...none, day_tokens: 5 },
    end_user_default: none,
    anonymous: none,
    anonymous_shares: { day_tokens_per_address: 9, day_tokens_per_visitor: 8 },
  }
  const draft = {
    organization: { day_tokens: '', month_tokens: '7' },
    anonymous: { day_tokens: '' },
    anonymous_shares: { day_tokens_per_address: '', day_tokens_per_visitor: '8' },
  }
  expect(changesOf(draft, saved)).toEqual({
    organization: { day_tokens: null, month_tokens: 7 },
    anonymous_shares: { day_tokens_per_address: null },
  })
})
