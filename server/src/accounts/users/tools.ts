import { z } from 'zod'
import { tool } from '../../kernel/foundation/tool.ts'
import { getMe as contract } from './contract.ts'
import { getMe } from './users.ts'

export const getProfile = tool({
  name: 'get_profile',
  title: 'Get my profile',
  description:
    'Get the signed-in user’s id, email, name, and organizations with their role in each. Use it to find out who you act for.',
  access: 'user',
  usersOnly: 'a service account has no profile',
  input: z.strictObject({}),
  output: contract.response.omit({ avatar_url: true }),
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  async handler(service, caller) {
    const { avatar_url, ...profile } = await getMe(service, caller)
    return profile
  },
})
