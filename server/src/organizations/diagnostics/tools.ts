import { z } from 'zod'
import { Role, Timestamp } from '../../kernel/foundation/shapes.ts'
import { tool } from '../../kernel/foundation/tool.ts'

const readOnly = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const

export const echo = tool({
  name: 'echo',
  title: 'Echo',
  description: 'Returns the message with the prefix `Echo: `. Use it to test the connection.',
  access: 'user',
  input: z.strictObject({ message: z.string().min(1).max(1000) }),
  output: z.strictObject({ message: z.string() }),
  annotations: readOnly,
  handler: async (_service, _caller, { message }) => ({ message: `Echo: ${message}` }),
})

const soonMs = 5 * 60_000

export const verifyApiAccess = tool({
  name: 'verify_api_access',
  title: 'Verify access',
  description:
    'Checks the access token or the service account’s key, and returns its user, organization, role, and expiry. Use it first when other tools deny access.',
  access: 'user',
  input: z.strictObject({}),
  output: z.strictObject({
    status: z.string(),
    message: z.string(),
    authenticated: z.boolean(),
    user_email: z.string().describe('Or `service-account:` and the name of the service account'),
    organization_id: z.string().nullable().describe('Null if no organization was selected at sign-in'),
    organization_name: z.string().nullable(),
    role: Role.nullable(),
    token_expires_at: Timestamp.nullable().describe('Null for a service account that doesn’t expire'),
    token_expiring_soon: z.boolean().describe('Whether the token expires within five minutes'),
    has_refresh_token: z.boolean().describe('Whether the token’s sign-in can be refreshed'),
  }),
  annotations: readOnly,
  async handler({ clock }, { user, actor, token, organization, role }) {
    return {
      status: 'ok',
      message: `${user ? 'Signed in' : 'Authenticated'} as ${actor}, ${organization ? `${role} of ${organization.name}` : 'without an organization'}`,
      authenticated: true,
      user_email: actor,
      organization_id: organization?.id ?? null,
      organization_name: organization?.name ?? null,
      role: role ?? null,
      token_expires_at: Number.isFinite(token.expires_at) ? new Date(token.expires_at).toISOString() : null,
      token_expiring_soon: token.expires_at - clock() < soonMs,
      has_refresh_token: token.sign_in !== undefined,
    }
  },
})
