/** Texts of the example page. */
export const english = {
  name: 'Willow Books',
  about: 'An example page. Your agent can use its three tools.',
  notes: 'Notes',
  none: 'No notes yet.',
}

export type ShopStrings = typeof english
