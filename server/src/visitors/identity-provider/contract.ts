import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { originPatterns } from '../../kernel/foundation/shapes.ts'
import { idpAliases, idpTypes } from './issuers.ts'

const aliases = Object.keys(idpAliases) as (keyof typeof idpAliases)[]

const IdpType = z
  .enum([...idpTypes, ...aliases])
  .transform((type): (typeof idpTypes)[number] =>
    type in idpAliases ? idpAliases[type as keyof typeof idpAliases] : (type as never),
  )

const aboutTypes =
  'Vendor of the identity provider, or `custom_oidc` for any other OpenID provider. `idp_vendor_1` to `idp_vendor_8` are aliases for the eight vendors, in this order: `okta`, `azure` (Entra ID), `auth0`, `google`, `workos`, `firebase`, `onelogin`, `logto`. Requests can use either name; responses always use the vendor’s name.'

const Audiences = z
  .array(z.string().min(1).max(255))
  .max(50)
  .transform((audiences) => [...new Set(audiences)])

const AllowedDomains = originPatterns(100)

const settings = {
  idp_type: IdpType.nullable().describe(aboutTypes),
  allowed_audiences: Audiences.nullable().describe(
    'Client IDs of your application at the identity provider, compared with the token’s `aud`. Required in production; in development, null accepts any audience. For Firebase, defaults to the project ID.',
  ),
  idp_domain: z
    .string()
    .trim()
    .min(1)
    .max(255)
    .nullable()
    .describe(
      'Your tenant at the provider: `acme.okta.com`, an Entra tenant ID, `acme.us.auth0.com`, a WorkOS client ID, a Firebase project ID, `acme.onelogin.com`, `acme.logto.app`. Optional for Google, where it limits sign-in to that Workspace domain.',
    ),
  idp_issuer: z
    .url()
    .max(500)
    .nullable()
    .describe('Issuer URL of a `custom_oidc` provider, exactly as in its discovery document; `https` in production'),
}

const Config = z
  .strictObject({
    idp_type: z.enum(idpTypes).nullable().describe('Vendor of the identity provider; null if not set'),
    allowed_audiences: z
      .array(z.string())
      .nullable()
      .describe('Client IDs that ID tokens can be issued for; null if not set'),
    idp_domain: z.string().nullable().describe('Your tenant at the provider; null if not set'),
    idp_issuer: z.string().nullable().describe('Issuer URL of a `custom_oidc` provider; null if not set'),
    allowed_domains: z
      .array(z.string())
      .describe('Origins that can embed the widget with any key that doesn’t have its own origins'),
  })
  .meta({ id: 'IdentityProviderConfig' })

const common = { tag: 'Identity provider' } as const

const exampleIdentityProviderConfig = {
  idp_type: 'okta',
  allowed_audiences: ['0oa1b2c3d4EXAMPLE'],
  idp_domain: 'acme.okta.com',
  idp_issuer: null,
  allowed_domains: ['https://app.example.com'],
} as const

export const getConfig = operation({
  ...common,
  id: 'getIdentityProviderConfig',
  method: 'get',
  path: '/identity-providers/config',
  access: 'org',
  summary: 'Get the identity provider configuration',
  description:
    'Returns the provider whose ID tokens the widget accepts, and the origins that can embed the widget. All five fields are always present; a field that isn’t set is null or an empty list.',
  response: Config,
  errors: [],
  example: { response: exampleIdentityProviderConfig },
})

export const updateConfig = operation({
  ...common,
  id: 'updateIdentityProviderConfig',
  method: 'patch',
  path: '/identity-providers/config',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Change the identity provider configuration',
  description:
    'Send only the fields to change; null clears a field. You can set the type first and the domain later; until then, ID tokens are rejected with `IDP_NOT_CONFIGURED`. An invalid setting fails with a `VALIDATION_ERROR` for its field. Connected widgets have to authenticate again. To check your settings without saving them, use the test operation first.',
  body: z
    .strictObject({
      ...settings,
      allowed_domains: AllowedDomains.describe(
        'Origins that can embed the widget, such as `https://app.example.com`; replaces the old list',
      ),
    })
    .partial(),
  response: Config,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: {
    request: {
      idp_type: 'okta',
      idp_domain: 'acme.okta.com',
      allowed_audiences: ['0oa1b2c3d4EXAMPLE'],
      allowed_domains: ['https://app.example.com'],
    },
    response: exampleIdentityProviderConfig,
  },
})

/** The steps of a test, in order. */
export const providerTestSteps = ['discovery', 'issuer', 'endpoints', 'keys'] as const

export const testProvider = operation({
  ...common,
  id: 'testIdentityProvider',
  method: 'post',
  path: '/identity-providers/test',
  access: 'admin',
  summary: 'Test an identity provider without saving it',
  description:
    'Fetches the provider’s discovery document and compares its issuer. If that fails, the response is still a 200, with `success: false` and the reason in `error`. `steps` has each check with its result; the last one fetches the provider’s signing keys, which `success` doesn’t depend on. A missing or malformed setting fails with a `VALIDATION_ERROR` for its field. Nothing is saved, and no ID token is checked.',
  body: z.strictObject({
    idp_type: IdpType.describe(aboutTypes),
    idp_domain: settings.idp_domain.optional(),
    idp_issuer: settings.idp_issuer.optional(),
    allowed_audiences: settings.allowed_audiences.optional(),
  }),
  response: z
    .strictObject({
      success: z.boolean().describe('Whether the discovery document can be used'),
      issuer: z.string().nullable().describe('Issuer that ID tokens must have; null on failure'),
      jwks_uri: z.string().nullable().describe('URL of the provider’s signing keys; null on failure'),
      error: z.string().nullable().describe('Why the test failed; null on success'),
      steps: z
        .array(
          z.strictObject({
            step: z
              .enum(providerTestSteps)
              .describe(
                '`discovery` fetches the document, `issuer` compares its issuer, `endpoints` checks the URLs in it, `keys` fetches the signing keys',
              ),
            status: z.enum(['ok', 'failed', 'skipped']).describe('`skipped` if an earlier step failed'),
            message: z.string().describe('What the step found, or why it failed'),
          }),
        )
        .optional()
        .describe('The steps in order'),
    })
    .meta({ id: 'IdentityProviderTest' }),
  errors: [],
  example: {
    request: { idp_type: 'okta', idp_domain: 'acme.okta.com' },
    response: {
      success: true,
      issuer: 'https://acme.okta.com',
      jwks_uri: 'https://acme.okta.com/oauth2/v1/keys',
      error: null,
      steps: [
        { step: 'discovery', status: 'ok', message: 'https://acme.okta.com/.well-known/openid-configuration' },
        { step: 'issuer', status: 'ok', message: 'https://acme.okta.com' },
        { step: 'endpoints', status: 'ok', message: 'https://acme.okta.com/oauth2/v1/keys' },
        { step: 'keys', status: 'ok', message: '2 signing keys (RSA)' },
      ],
    },
  },
})

export const getAllowedDomains = operation({
  ...common,
  id: 'getAllowedDomains',
  method: 'get',
  path: '/organizations/current/allowed-domains',
  access: 'org',
  summary: 'Get the allowed domains',
  description:
    'Returns the origins that can embed the widget with any key that doesn’t have its own origins. It is the same list as `allowed_domains` in the identity provider configuration.',
  response: z.strictObject({ allowed_domains: z.array(z.string()).describe('Origins that can embed the widget') }),
  errors: [],
  example: { response: { allowed_domains: ['https://app.example.com'] } },
})

export const setAllowedDomains = operation({
  ...common,
  id: 'setAllowedDomains',
  method: 'put',
  path: '/organizations/current/allowed-domains',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Replace the allowed domains',
  description:
    'Applies to keys without their own origins. If you remove an origin, the widgets on its pages are disconnected within a minute. Each origin counts as a site of your plan, and a wildcard counts as one site. If your plan has no site left, the request fails with `PAYMENT_REQUIRED`.',
  body: z.strictObject({
    allowed_domains: AllowedDomains.describe(
      'Complete new list of origins, such as `https://app.example.com` or `https://*.example.com`; at most 100',
    ),
  }),
  response: z.strictObject({
    allowed_domains: z.array(z.string()).describe('The new list, in canonical form and without duplicates'),
  }),
  errors: ['PAYMENT_REQUIRED'],
  example: {
    request: { allowed_domains: ['https://app.example.com'] },
    response: { allowed_domains: ['https://app.example.com'] },
  },
})
