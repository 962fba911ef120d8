/** The shop's client id at its identity provider, and so the audience of the ID tokens that the widget sends. */
export const clientId = 'shop'

/** With this client, the shop's users confirm their browsers, so that the agent's panel may act for them. */
export const frameClientId = 'inlay-panel'
