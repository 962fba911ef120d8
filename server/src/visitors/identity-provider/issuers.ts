import { fingerprint } from '../../kernel/lib/secrets.ts'

/** The supported identity providers, and how each one's issuer is derived from the administrator's settings. */

export const idpTypes = [
  'okta',
  'azure',
  'auth0',
  'google',
  'workos',
  'firebase',
  'onelogin',
  'logto',
  'custom_oidc',
] as const
export type IdpType = (typeof idpTypes)[number]

/** Neutral names for the vendors. Accepted in requests, never returned. */
export const idpAliases = {
  idp_vendor_1: 'okta',
  idp_vendor_2: 'azure',
  idp_vendor_3: 'auth0',
  idp_vendor_4: 'google',
  idp_vendor_5: 'workos',
  idp_vendor_6: 'firebase',
  idp_vendor_7: 'onelogin',
  idp_vendor_8: 'logto',
} as const satisfies Record<string, IdpType>

export interface IdentityProviderSettings {
  idp_type: IdpType | null
  idp_domain: string | null
  idp_issuer: string | null
  allowed_audiences: readonly string[] | null
}

/** The claims that a provider's tokens must have. */
export interface TrustedIssuer {
  issuer: string
  /** For a Microsoft tenant that was entered by name. Its issuer contains its id, which the discovery document has. */
  issuerPattern?: RegExp
  /** Null accepts any audience; for development only. */
  audiences: readonly string[] | null
  /** Required `hd` claim, because Google has the same issuer for all Workspace domains. */
  hostedDomain?: string
}

/** Identifies the settings that a token was verified with. */
export const describeIdentityProvider = ({ issuer, audiences, hostedDomain }: TrustedIssuer): string =>
  fingerprint(JSON.stringify([issuer, audiences, hostedDomain ?? null]))

/** A setting is missing or malformed; `field` is its name. */
export class InvalidIdentityProvider extends Error {
  override name = 'InvalidIdentityProvider'
  readonly field: 'idp_type' | 'idp_domain' | 'idp_issuer'

  constructor(field: InvalidIdentityProvider['field'], message: string) {
    super(message)
    this.field = field
  }
}

/** The domain is missing. It may be set after the type; until then, no token is accepted. */
export class IncompleteIdentityProvider extends InvalidIdentityProvider {
  override name = 'IncompleteIdentityProvider'
}

/** Returns undefined if no provider is configured. */
export function trustedIssuer(
  settings: IdentityProviderSettings,
  mode: 'development' | 'production',
): TrustedIssuer | undefined {
  const { idp_type, allowed_audiences: audiences } = settings
  if (idp_type === null) return undefined
  if (idp_type === 'custom_oidc') return { issuer: customIssuer(settings.idp_issuer, mode), audiences }
  if (idp_type === 'google') {
    const hostedDomain = settings.idp_domain
    return { issuer: 'https://accounts.google.com', audiences, ...(hostedDomain && { hostedDomain }) }
  }
  const domain = settings.idp_domain
  if (!domain) throw new IncompleteIdentityProvider('idp_domain', `${idp_type} requires a domain`)
  return vendorIssuers[idp_type](domain, audiences)
}

/** The same, but undefined also for settings that are incomplete or that this mode doesn't accept. */
export function findTrustedIssuer(...settings: Parameters<typeof trustedIssuer>): TrustedIssuer | undefined {
  try {
    return trustedIssuer(...settings)
  } catch (error) {
    if (error instanceof InvalidIdentityProvider) return undefined
    throw error
  }
}

type VendorIssuer = (domain: string, audiences: TrustedIssuer['audiences']) => TrustedIssuer

const vendorIssuers: Record<Exclude<IdpType, 'custom_oidc' | 'google'>, VendorIssuer> = {
  okta(domain, audiences) {
    const [, host = domain, path = ''] = /^([^/]+)(\/oauth2\/[\w-]+)$/.exec(domain) ?? []
    return { issuer: `https://${requireHost(host)}${path}`, audiences }
  },
  azure(tenant, audiences) {
    if (/^(common|organizations|consumers)$/i.test(tenant)) {
      throw new InvalidIdentityProvider(
        'idp_domain',
        `"${tenant}" means every Microsoft tenant; enter the ID of your tenant`,
      )
    }
    const issuer = `https://login.microsoftonline.com/${tenant.toLowerCase()}/v2.0`
    if (guid.test(tenant)) return { issuer, audiences }
    requireHost(tenant)
    return { issuer, issuerPattern: /^https:\/\/login\.microsoftonline\.com\/[0-9a-f-]{36}\/v2\.0$/, audiences }
  },
  auth0: (domain, audiences) => ({ issuer: `https://${requireHost(domain)}/`, audiences }),
  workos(domain, audiences) {
    const isClientId = /^client_\w+$/.test(domain)
    const issuer = isClientId ? `https://api.workos.com/user_management/${domain}` : `https://${requireHost(domain)}`
    return { issuer, audiences }
  },
  firebase(project, audiences) {
    if (!/^[a-z0-9-]{4,64}$/.test(project))
      throw new InvalidIdentityProvider('idp_domain', 'Enter the ID of the Firebase project')
    return { issuer: `https://securetoken.google.com/${project}`, audiences: audiences ?? [project] }
  },
  onelogin(domain, audiences) {
    const host = domain.includes('.') ? domain : `${domain}.onelogin.com`
    return { issuer: `https://${requireHost(host)}/oidc/2`, audiences }
  },
  logto: (domain, audiences) => ({ issuer: `https://${requireHost(domain)}/oidc`, audiences }),
}

const guid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

function requireHost(text: string): string {
  const host = text.toLowerCase()
  const isHost = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/.test(host)
  if (!isHost)
    throw new InvalidIdentityProvider('idp_domain', `"${text}" isn’t a domain; enter one such as tenant.provider.com`)
  return host
}

function customIssuer(text: string | null, mode: 'development' | 'production'): string {
  if (!text) throw new InvalidIdentityProvider('idp_issuer', 'custom_oidc requires an issuer')
  const url = URL.parse(text)
  if (!url || url.username || url.password || url.search || url.hash || !/^https?:$/.test(url.protocol)) {
    throw new InvalidIdentityProvider('idp_issuer', 'The issuer must be a URL without user, query or fragment')
  }
  if (url.protocol === 'http:' && mode === 'production') {
    throw new InvalidIdentityProvider('idp_issuer', 'The issuer must start with https://')
  }
  return text
}
