import { z } from 'zod'
import { operation } from '../operation.ts'
import { originPatterns } from '../shapes.ts'
import { idpAliases, idpTypes } from './issuers.ts'

const aliases = Object.keys(idpAliases) as (keyof typeof idpAliases)[]

const IdpType = z
  .enum([...idpTypes, ...aliases])
  .transform((type): (typeof idpTypes)[number] =>
    type in idpAliases ? idpAliases[type as keyof typeof idpAliases] : (type as never),
  )

const Audiences = z
  .array(z.string().min(1).max(255))
  .max(50)
  .transform((audiences) => [...new Set(audiences)])

const AllowedDomains = originPatterns(100)

const settings = {
  idp_type: IdpType.nullable(),
  allowed_audiences: Audiences.nullable().describe('OIDC client IDs; null accepts any, in development only'),
  idp_domain: z.string().trim().min(1).max(255).nullable(),
  idp_issuer: z.url().max(500).nullable(),
}

const Config = z
  .strictObject({
    idp_type: z.enum(idpTypes).nullable(),
    allowed_audiences: z.array(z.string()).nullable(),
    idp_domain: z.string().nullable(),
    idp_issuer: z.string().nullable(),
    allowed_domains: z.array(z.string()).describe('Origins allowed to embed the widget'),
  })
  .meta({ id: 'IdentityProviderConfig' })

const common = { tag: 'Identity provider' } as const

export const getConfig = operation({
  ...common,
  id: 'getIdentityProviderConfig',
  method: 'get',
  path: '/identity-providers/config',
  access: 'org',
  summary: 'Whose ID tokens the widget trusts, and where it may be embedded',
  response: Config,
  errors: [],
})

export const updateConfig = operation({
  ...common,
  id: 'updateIdentityProviderConfig',
  method: 'patch',
  path: '/identity-providers/config',
  access: 'admin',
  summary: 'Change some of the settings; null clears one',
  body: z.strictObject({ ...settings, allowed_domains: AllowedDomains }).partial(),
  response: Config,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})

export const testProvider = operation({
  ...common,
  id: 'testIdentityProvider',
  method: 'post',
  path: '/identity-providers/test',
  access: 'admin',
  summary: 'Fetch a provider’s discovery document and say what is wrong, without saving anything',
  body: z.strictObject({
    idp_type: IdpType,
    idp_domain: settings.idp_domain.optional(),
    idp_issuer: settings.idp_issuer.optional(),
    allowed_audiences: settings.allowed_audiences.optional(),
  }),
  response: z
    .strictObject({
      success: z.boolean(),
      issuer: z.string().nullable(),
      jwks_uri: z.string().nullable(),
      error: z.string().nullable(),
    })
    .meta({ id: 'IdentityProviderTest' }),
  errors: [],
})

export const getAllowedDomains = operation({
  ...common,
  id: 'getAllowedDomains',
  method: 'get',
  path: '/organizations/current/allowed-domains',
  access: 'org',
  summary: 'The origins that may embed the widget',
  response: z.strictObject({ allowed_domains: z.array(z.string()) }),
  errors: [],
})

export const setAllowedDomains = operation({
  ...common,
  id: 'setAllowedDomains',
  method: 'put',
  path: '/organizations/current/allowed-domains',
  access: 'admin',
  summary: 'Replace the origins that may embed the widget',
  body: z.strictObject({ allowed_domains: AllowedDomains }),
  response: z.strictObject({ allowed_domains: z.array(z.string()) }),
  errors: ['PAYMENT_REQUIRED'],
})
