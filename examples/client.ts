/** The shop's client id at its identity provider, and so the audience of the ID tokens that the widget sends. */
export const clientId = 'shop'
