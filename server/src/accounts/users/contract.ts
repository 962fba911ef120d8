import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Role } from '../../kernel/foundation/shapes.ts'

const Profile = z
  .strictObject({
    id: z.string().describe('ID of the user'),
    email: z.string().describe('Email address that the user signed in with'),
    name: z.string().describe('Display name'),
    avatar_url: z.string().describe('URL of the profile picture; empty if the user has none'),
    organizations: z
      .array(
        z.strictObject({
          id: z.string().describe('ID of the organization'),
          name: z.string().describe('Name of the organization'),
          slug: z.string().describe('Short unique name of the organization, for use in URLs'),
          role: Role.describe('The user’s role in this organization'),
        }),
      )
      .describe('Organizations that the user is a member of'),
  })
  .meta({ id: 'Profile' })

export const getMe = operation({
  id: 'getCurrentUser',
  method: 'get',
  path: '/users/me',
  access: 'user',
  usersOnly: 'a service account has no profile',
  tag: 'Users',
  summary: 'Get the signed-in user and their organizations',
  description:
    'Call this first with a new token to find out who it belongs to and which organizations it can be used for. The response is a 404 if the account behind the token has been deleted.',
  response: Profile,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10a1',
      email: 'ada@example.com',
      name: 'Ada Lovelace',
      avatar_url: '',
      organizations: [{ id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2', name: 'Acme', slug: 'acme', role: 'admin' }],
    },
  },
})
