import { z } from 'zod'
import { operation } from '../operation.ts'
import { Role } from '../organizations/contract.ts'
import { Success } from '../shapes.ts'

const Profile = z
  .strictObject({
    id: z.string(),
    email: z.string(),
    name: z.string(),
    avatar_url: z.string().describe('Empty when the person has no picture'),
    organizations: z.array(z.strictObject({ id: z.string(), name: z.string(), slug: z.string(), role: Role })),
  })
  .meta({ id: 'Profile' })

export const getMe = operation({
  id: 'getCurrentUser',
  method: 'get',
  path: '/users/me',
  access: 'user',
  tag: 'Users',
  summary: 'The signed-in person and their organizations',
  response: Profile,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const logout = operation({
  id: 'logout',
  method: 'post',
  path: '/auth/logout',
  access: 'user',
  tag: 'Users',
  summary: 'End the token that makes this call, and the session that it comes from with all its tokens',
  response: Success,
  errors: [],
})
