import { z } from 'zod'
import { Role, Timestamp } from '../foundation/shapes.ts'
import { tool } from '../foundation/tool.ts'

const readOnly = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const

export const echo = tool({
  name: 'echo',
  title: 'Echo',
  description: 'Answers with the message, prefixed with `Echo: `. For trying out whether the connection works.',
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
    'Whether the token works, for whom, in which organization and role, and until when. Use it first when other tools refuse.',
  access: 'user',
  input: z.strictObject({}),
  output: z.strictObject({
    status: z.string(),
    message: z.string(),
    authenticated: z.boolean(),
    user_email: z.string(),
    organization_id: z.string().nullable().describe('Null when no organization was chosen at sign-in'),
    organization_name: z.string().nullable(),
    role: Role.nullable(),
    token_expires_at: Timestamp,
    token_expiring_soon: z.boolean().describe('Within five minutes'),
    has_refresh_token: z.boolean().describe('Whether the token comes from a sign-in that can be renewed'),
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
