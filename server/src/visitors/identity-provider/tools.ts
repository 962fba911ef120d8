import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { tool } from '../../kernel/foundation/tool.ts'
import * as contract from './contract.ts'
import { getConfig, type IdentityProviderConfig, testProvider, updateConfig } from './identity-provider.ts'
import { idpAliases } from './issuers.ts'

const { shape } = contract.updateConfig.body

/** The two tools support five of the nine providers. */
const ToolIdpType = z
  .enum([
    'okta',
    'azure',
    'auth0',
    'google',
    'custom_oidc',
    'idp_vendor_1',
    'idp_vendor_2',
    'idp_vendor_3',
    'idp_vendor_4',
  ])
  .transform((type) => (type in idpAliases ? idpAliases[type as keyof typeof idpAliases] : type) as Named)
type Named = 'okta' | 'azure' | 'auth0' | 'google' | 'custom_oidc'

const connection = {
  idp_domain: shape.idp_domain
    .unwrap()
    .unwrap()
    .optional()
    .describe(
      'The provider’s domain, such as acme.okta.com; for azure, the tenant ID. Required for okta, azure and auth0',
    ),
  idp_issuer: shape.idp_issuer.unwrap().unwrap().optional().describe('The full issuer URL. Required for custom_oidc'),
}

export const manageIdpConfig = tool({
  name: 'manage_idp_config',
  title: 'Manage the identity provider',
  description:
    'Manages the identity provider whose ID tokens the embedded widget accepts, and the origins that may embed it. `get` returns the settings. `update` changes only the given fields. `clear` removes the provider and every allowed origin, so end users can no longer sign in: ask the user first. Admins only.',
  access: 'admin',
  usersOnly: usersDecideTrust,
  input: z.strictObject({
    action: z.enum(['get', 'update', 'clear']),
    idp_type: ToolIdpType.optional().describe('For update: which provider'),
    idp_client_id: z
      .string()
      .min(1)
      .max(255)
      .optional()
      .describe('For update: the OIDC client ID that tokens must be issued for; other allowed audiences are kept'),
    ...connection,
    allowed_domains: shape.allowed_domains
      .unwrap()
      .optional()
      .describe('For update: all origins that may embed the widget, such as https://app.example.com'),
  }),
  output: z.strictObject({
    idp_type: contract.getConfig.response.shape.idp_type,
    idp_client_id: z.string().nullable(),
    idp_domain: z.string().nullable(),
    idp_issuer: z.string().nullable(),
    allowed_domains: z.array(z.string()),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  async handler(service, caller, { action, idp_client_id, ...changes }) {
    if (action === 'get') return describe(await getConfig(service, caller))
    if (action === 'clear') return describe(await updateConfig(service, caller, nothing))
    if (idp_client_id === undefined) return describe(await updateConfig(service, caller, changes))
    const { allowed_audiences } = await getConfig(service, caller)
    const others = (allowed_audiences ?? []).slice(1).filter((audience) => audience !== idp_client_id)
    return describe(await updateConfig(service, caller, { ...changes, allowed_audiences: [idp_client_id, ...others] }))
  },
})

const nothing = { idp_type: null, allowed_audiences: null, idp_domain: null, idp_issuer: null, allowed_domains: [] }

const describe = ({ allowed_audiences, ...config }: IdentityProviderConfig) => ({
  ...config,
  idp_client_id: allowed_audiences?.[0] ?? null,
})

export const testIdpConnection = tool({
  name: 'test_idp_connection',
  title: 'Test an identity provider',
  description:
    'Fetches a provider’s OIDC discovery document and reports whether it can be used, without saving anything. Use it before `manage_idp_config` with `update`. Only admins can test providers in private networks.',
  access: 'org',
  input: z.strictObject({ idp_type: ToolIdpType, ...connection }),
  output: z.discriminatedUnion('success', [
    z.strictObject({ success: z.literal(true), issuer: z.string(), jwks_uri: z.string() }),
    z.strictObject({ success: z.literal(false), error: z.string().describe('Why the test failed') }),
  ]),
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: true },
  async handler(service, caller, input) {
    const { success, issuer, jwks_uri, error } = await testProvider(service, caller, input)
    if (success) return { success: true as const, issuer: issuer ?? '', jwks_uri: jwks_uri ?? '' }
    return { success: false as const, error: error ?? '' }
  },
})
