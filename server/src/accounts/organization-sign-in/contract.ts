import { z } from 'zod'
import { usersDecideAccess } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Timestamp } from '../../kernel/foundation/shapes.ts'
import { parseDomain } from '../../organizations/directories/domains.ts'

const EmailDomain = z
  .string()
  .max(253)
  .transform((text, context) => {
    const domain = parseDomain(text)
    if (domain !== null) return domain
    context.addIssue({ code: 'custom', message: 'Must be a domain such as acme.example' })
    return z.NEVER
  })

const printable = /^[\x21-\x7e]+$/

const SignInDomain = z
  .strictObject({
    id: z.string().describe('ID of the domain'),
    domain: z.string().describe('Domain of email addresses, in lower case'),
    status: z
      .enum(['pending', 'verified', 'missing'])
      .describe(
        '`pending`: not proven yet. `verified`: users with an address in this domain sign in at your provider. `missing`: the same, but the DNS record was gone at the last check; after 7 days, the domain is pending again.',
      ),
    record_name: z.string().describe('Name of the DNS record that proves the domain. The domain itself works too.'),
    record_value: z.string().describe('Value of the TXT record'),
    verified_at: Timestamp.nullable().describe('When the record was first found; null if it wasn’t yet'),
    checked_at: Timestamp.nullable().describe('When Inlay last looked for the record; null if it hasn’t yet'),
    problem: z.string().nullable().describe('What the last check found instead of the record; null if it was found'),
  })
  .meta({ id: 'SignInDomain' })

const OrganizationSignIn = z
  .strictObject({
    is_active: z
      .boolean()
      .describe('Whether users can sign in: the plan includes it, a provider is set, and a domain is verified'),
    reason: z.string().nullable().describe('Why users can’t sign in at your provider; null if they can'),
    redirect_uri: z.string().describe('Redirect URI to register at your provider'),
    provider: z
      .strictObject({
        issuer: z.string().describe('Issuer URL of your provider'),
        client_id: z.string().describe('Client ID of Inlay at your provider'),
        client_secret_last4: z
          .string()
          .describe('Last four characters of the client secret; empty for a public client'),
        joins_on_first_sign_in: z
          .boolean()
          .describe('Whether users who sign in for the first time become members without an invitation'),
        created_at: Timestamp.describe('When the provider was set up'),
        updated_at: Timestamp.describe('When its settings were last changed'),
      })
      .nullable()
      .describe('Your provider; null if none is set'),
    domains: z.array(SignInDomain).describe('Your email domains, in alphabetical order'),
  })
  .meta({ id: 'OrganizationSignIn' })

const common = { tag: 'Single sign-on', access: 'admin' } as const

const exampleProvider = {
  issuer: 'https://acme.okta.com',
  client_id: 'inlay-hub',
  client_secret_last4: '9d1c',
  joins_on_first_sign_in: true,
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

const exampleSignInDomain = {
  id: '019a3f2e-7c1d-7b42-9f0a-5d1c8e6b4a22',
  domain: 'acme.example',
  status: 'verified',
  record_name: '_inlay.acme.example',
  record_value: 'inlay-verification=8Qm2vZ0cXyT4',
  verified_at: '2026-11-02T09:30:00.000Z',
  checked_at: '2026-11-02T09:30:00.000Z',
  problem: null,
} as const

const exampleOrganizationSignIn = {
  is_active: true,
  reason: null,
  redirect_uri: 'https://inlay.example.com/sign-in/organization/019a3f2e-7c1d-7b42-9f0a-5d1c8e6b4a21/callback',
  provider: exampleProvider,
  domains: [exampleSignInDomain],
} as const

export const getOrganizationSignIn = operation({
  ...common,
  id: 'getOrganizationSignIn',
  method: 'get',
  path: '/organizations/current/sign-in',
  summary: 'Get the sign-in provider of your organization',
  description:
    'Returns the OpenID provider where users of your email domains sign in to Inlay, and the domains with the DNS records that prove them. The client secret is never returned.',
  response: OrganizationSignIn,
  errors: [],
  example: { response: exampleOrganizationSignIn },
})

export const setSignInProvider = operation({
  ...common,
  id: 'setSignInProvider',
  method: 'put',
  path: '/organizations/current/sign-in',
  usersOnly: usersDecideAccess,
  summary: 'Set the sign-in provider of your organization',
  description:
    'To check the issuer first, use the test of identity providers with `custom_oidc`. A new issuer ends the sessions of users who signed in at the previous one. Your plan must include single sign-on.',
  body: z.strictObject({
    issuer: z
      .url()
      .max(500)
      .describe('Issuer URL, exactly as in the provider’s discovery document; `https` in production'),
    client_id: z
      .string()
      .min(1)
      .max(255)
      .regex(printable, 'Must consist of ASCII characters without spaces')
      .describe('Client ID of Inlay at your provider'),
    client_secret: z
      .string()
      .min(8, 'Must have at least 8 characters: the last four are shown')
      .max(2000)
      .regex(printable, 'Must consist of ASCII characters without spaces')
      .nullable()
      .optional()
      .describe(
        'Client secret. It’s stored encrypted and never returned. If absent, the stored one stays, unless the issuer changes. Null for a public client.',
      ),
    joins_on_first_sign_in: z
      .boolean()
      .optional()
      .describe(
        'Whether users who sign in for the first time become members without an invitation. Each takes a seat. Default: false.',
      ),
  }),
  response: OrganizationSignIn,
  errors: ['PAYMENT_REQUIRED'],
  example: {
    request: {
      issuer: 'https://acme.okta.com',
      client_id: 'inlay-hub',
      client_secret: 'cs_EXAMPLE_9d1c',
      joins_on_first_sign_in: true,
    },
    response: exampleOrganizationSignIn,
  },
})

export const deleteSignInProvider = operation({
  ...common,
  id: 'deleteSignInProvider',
  method: 'delete',
  path: '/organizations/current/sign-in',
  usersOnly: usersDecideAccess,
  summary: 'Delete the sign-in provider of your organization',
  description:
    'Ends the sessions of all users who signed in at the provider, and every token from them, immediately. The domains stay verified. Members stay members, but users of the provider can’t sign in until you set it up again with the same issuer.',
  response: OrganizationSignIn,
  errors: [],
  example: { response: exampleOrganizationSignIn },
})

const exampleAddedDomain = {
  ...exampleSignInDomain,
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  verified_at: '2026-11-14T16:05:12.480Z',
  checked_at: '2026-11-14T16:05:12.480Z',
} as const

export const addSignInDomain = operation({
  ...common,
  id: 'addSignInDomain',
  method: 'post',
  path: '/organizations/current/sign-in/domains',
  usersOnly: usersDecideAccess,
  summary: 'Add an email domain',
  description:
    'Returns the DNS record that proves that the domain is yours. Create it, then verify the domain. An organization has at most 20 domains.',
  body: z.strictObject({ domain: EmailDomain.describe('Domain of email addresses, such as `acme.example`') }),
  response: SignInDomain,
  errors: ['PAYMENT_REQUIRED', 'DUPLICATE_RESOURCE'],
  example: { request: { domain: 'acme.example' }, response: exampleAddedDomain },
})

export const verifySignInDomain = operation({
  ...common,
  id: 'verifySignInDomain',
  method: 'post',
  path: '/organizations/current/sign-in/domains/{id}/verify',
  usersOnly: usersDecideAccess,
  summary: 'Verify an email domain',
  description:
    'Looks for the DNS record. If it isn’t there, the response is still a 200, and `problem` says what was found. Inlay repeats the check every day. If the record is gone for 7 days, the domain is no longer verified. A domain can only be verified by one organization; a second one fails with a `DUPLICATE_RESOURCE`.',
  params: Id,
  resource: 'sign_in_domain',
  response: SignInDomain,
  errors: ['PAYMENT_REQUIRED', 'RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
  example: { response: exampleAddedDomain },
})

export const removeSignInDomain = operation({
  ...common,
  id: 'removeSignInDomain',
  method: 'delete',
  path: '/organizations/current/sign-in/domains/{id}',
  usersOnly: usersDecideAccess,
  summary: 'Remove an email domain',
  description:
    'Users with an address in the domain no longer sign in at your provider. The sessions of those who did end immediately, with every token from them.',
  params: Id,
  resource: 'sign_in_domain',
  response: OrganizationSignIn,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleOrganizationSignIn },
})
