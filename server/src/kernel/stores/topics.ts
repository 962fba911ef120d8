/** The channel on which nodes tell each other what has changed. */
export const changesChannel = 'changes'

export type ChangeMessage = { topics: string[] } | { missed: true }

/** The kinds of changes, each as `<kind>:<id>`. */
export const topics = {
  /** A user's profile, memberships or sessions. */
  user: (id: string) => `user:${id}` as const,
  /** An access token was revoked; see `AccessToken.id`. */
  token: (id: string) => `token:${id}` as const,
  /** A browser session of the authorization server ended. */
  session: (uid: string) => `session:${uid}` as const,
  /** A grant ended, and with it every token issued under it. */
  grant: (id: string) => `grant:${id}` as const,
  key: (id: string) => `key:${id}` as const,
  /** A service account’s role, name, keys or expiry, or that it was deleted. */
  serviceAccount: (id: string) => `service-account:${id}` as const,
  /** An organization's identity provider or allowed domains. */
  identityProvider: (organizationId: string) => `identity-provider:${organizationId}` as const,
  /** What decides what frames may see: the client with which users confirm their browsers, and where the keys work. */
  frames: (organizationId: string) => `frames:${organizationId}` as const,
  /** Also if one of the end user's browsers was confirmed or removed. */
  endUser: (id: string) => `end-user:${id}` as const,
  /** An end user has connected or disconnected their account at a third party. */
  consents: (endUserId: string) => `consents:${endUserId}` as const,
  connectors: (organizationId: string) => `connectors:${organizationId}` as const,
  governance: (organizationId: string) => `governance:${organizationId}` as const,
  toolCallSettings: (organizationId: string) => `tool-call-settings:${organizationId}` as const,
  agentSettings: (organizationId: string) => `agent-settings:${organizationId}` as const,
}

type TopicKind = ReturnType<(typeof topics)[keyof typeof topics]> extends `${infer Kind}:${string}` ? Kind : never

export function parseTopic(topic: string): [kind: TopicKind, id: string] {
  const [kind, id = ''] = topic.split(':')
  return [kind as TopicKind, id]
}
