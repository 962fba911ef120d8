import { z } from 'zod'
import { tool } from '../foundation/tool.ts'
import { getMe as contract } from './contract.ts'
import { getMe } from './users.ts'

export const getProfile = tool({
  name: 'get_profile',
  title: 'Get my profile',
  description:
    'Who the signed-in person is: id, email, name, and every organization they belong to with their role in it. Use it to find out whom you act for.',
  access: 'user',
  input: z.strictObject({}),
  output: contract.response.omit({ avatar_url: true }),
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  async handler(service, caller) {
    const { avatar_url, ...profile } = await getMe(service, caller)
    return profile
  },
})
