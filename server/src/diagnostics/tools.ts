import { z } from 'zod'
import { Role, Timestamp } from '../foundation/shapes.ts'
import { tool } from '../foundation/tool.ts'

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
    'Checks the access token and returns its user, organization, role, and expiry. Use it first when other tools deny access.',
  access: 'user',
  input: z.strictObject({}),
  output: z.strictObject({
    status: z.string(),
    message: z.string(),
    authenticated: z.boolean(),
    user_email: z.string(),
    organization_id: z.string().nullable().describe('Null if no organization was selected at sign-in'),
    organization_name: z.string().nullable(),
    role: Role.nullable(),
    token_expires_at: Timestamp,
    token_expiring_soon: z.boolean().describe('Whether the token expires within five minutes'),
    has_refresh_token: z.boolean().describe('Whether the token’s sign-in can be refreshed'),
  }),
  annotations: readOnly,
  async handler({ clock }, { user, token, organization, role }) {
    return {
      status: 'ok',
      message: organization
        ? `Signed in as ${user.email}, ${role} of ${organization.name}`
        : `Signed in as ${user.email}, without an organization`,
      authenticated: true,
      user_email: user.email,
      organization_id: organization?.id ?? null,
      organization_name: organization?.name ?? null,
      role: role ?? null,
      token_expires_at: new Date(token.expires_at).toISOString(),
      token_expiring_soon: token.expires_at - clock() < soonMs,
      has_refresh_token: token.sign_in !== undefined,
    }
  },
})
