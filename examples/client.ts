/** The shop as its identity provider knows it, and so the audience of the ID tokens that the widget sends. */
export const clientId = 'shop'
