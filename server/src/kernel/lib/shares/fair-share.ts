/** What several owners take of a total. */
export interface Shared {
  total: number
  /** By all owners together. */
  taken: number
  /** By the one who asks for more. */
  own: number
}

/**
 * Whether an owner may take `size` more: afterwards it has at most as much as is still free. One owner alone gets half of
 * the total, and three get a quarter each. However many there are, the one who has nothing yet finds something.
 */
export const hasFairShare = ({ total, taken, own }: Shared, size: number): boolean => own + size <= total - taken - size
