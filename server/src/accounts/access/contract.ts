import { operation } from '../../kernel/foundation/operation.ts'
import { Success } from '../../kernel/foundation/shapes.ts'

export const logout = operation({
  id: 'logout',
  method: 'post',
  path: '/auth/logout',
  access: 'user',
  usersOnly: 'a service account has no session, and works until it expires or an admin deletes it',
  tag: 'Users',
  summary: 'Sign out',
  description:
    'Revokes the access token that you call with, and ends the session it was issued in. Every other access token and refresh token of that session stops working too. Sessions on other devices are not affected.',
  response: Success,
  errors: [],
  example: { response: { success: true } },
})
