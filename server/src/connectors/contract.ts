import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, Success, Timestamp } from '../shapes.ts'

/** Stands in front of the names of its tools, so it has only what such names may have. */
const Name = z
  .string()
  .trim()
  .regex(
    /^[a-z0-9][a-z0-9-]{0,31}$/,
    'Must be 1 to 32 lower-case letters, digits and hyphens, and not start with a hyphen',
  )

/** Kept as it was entered: it is the resource ID, which is compared letter by letter. */
const ServerUrl = z
  .string()
  .trim()
  .max(2000)
  .meta({ format: 'uri' })
  .refine((text) => {
    const url = URL.parse(text)
    return (
      url &&
      /^https?:$/.test(url.protocol) &&
      !url.username &&
      !url.password &&
      !url.search &&
      !url.hash &&
      (url.href === text || url.href === `${text}/`)
    )
  }, 'Must be an https:// URL in its usual form, without a user name, a password, a query or a fragment')

const visible = /^[\x21-\x7e]+$/
const visibleOnly = 'Must consist of ASCII characters without spaces'
const ClientId = z.string().min(1).max(255).regex(visible, visibleOnly)
const ClientSecret = z
  .string()
  .min(8, 'Must have at least 8 characters: the last four are shown')
  .max(2000)
  .regex(visible, visibleOnly)

/** RFC 6749, section 3.3. */
const Scope = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/, 'Is not a scope')
const Scopes = z
  .array(Scope)
  .max(20)
  .transform((scopes) => [...new Set(scopes)])

const kinds = ['id_jag', 'oauth'] as const
const audienceModes = ['resource', 'issuer'] as const
const statuses = ['active', 'disabled'] as const

const Connector = z
  .strictObject({
    id: z.string(),
    name: z.string().describe('Its tools are called `<name>.<tool>`'),
    kind: z
      .enum(kinds)
      .describe('`id_jag`: the organization’s identity provider vouches for people; `oauth`: each consents themselves'),
    server_url: z.string().describe('The MCP endpoint, and the resource ID'),
    client_id: z
      .string()
      .nullable()
      .describe('What the tool server, and the ID-JAG, know Inlay as; null: Inlay registers itself'),
    client_secret_last4: z.string().nullable(),
    idp_client_id: z.string().nullable().describe('What the identity provider knows Inlay as; null: the same'),
    idp_client_secret_last4: z.string().nullable(),
    scopes: z.array(z.string()).describe('Empty: those that the server asks for'),
    audience_mode: z
      .enum(audienceModes)
      .describe('Whom an ID-JAG is for: the resource ID, or the issuer of the server’s tokens where that differs'),
    status: z.enum(statuses),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'Connector' })

/** In the order in which they are taken. */
export const testSteps = {
  id_jag: ['metadata', 'provider_exchange', 'redemption', 'tools_list'],
  oauth: ['consent', 'tools_list'],
} as const

const ConnectorTest = z
  .strictObject({
    success: z.boolean(),
    steps: z.array(
      z.strictObject({
        step: z.enum([...new Set([...testSteps.id_jag, ...testSteps.oauth])]),
        status: z.enum(['ok', 'failed', 'skipped']).describe('`skipped`: one before it failed'),
        message: z.string().describe('What was found, or what is wrong'),
      }),
    ),
  })
  .meta({ id: 'ConnectorTest' })

const connectors = { tag: 'Connectors', resource: 'connector' } as const

export const listConnectors = operation({
  ...connectors,
  id: 'listConnectors',
  method: 'get',
  path: '/connectors',
  access: 'org',
  summary: 'The organization’s remote tool servers',
  response: z.strictObject({ connectors: z.array(Connector) }),
  errors: [],
})

export const createConnector = operation({
  ...connectors,
  id: 'createConnector',
  method: 'post',
  path: '/connectors',
  creates: true,
  access: 'admin',
  summary: 'Connect a remote tool server',
  description:
    'The tools of an `id_jag` connector appear in the hub for members whose identity a page with the widget has brought. The client at the identity provider, if it is another one than at the tool server, has both `idp_client_id` and `idp_client_secret`. An `oauth` connector is for servers of third parties: members allow Inlay to use it on the page `/connect/{id}`, and a client is needed only where Inlay cannot register itself.',
  body: z
    .strictObject({
      name: Name,
      kind: z.enum(kinds),
      server_url: ServerUrl,
      client_id: ClientId.optional().describe('Required for `id_jag`'),
      client_secret: ClientSecret.optional().describe('Required for `id_jag`'),
      idp_client_id: ClientId.optional(),
      idp_client_secret: ClientSecret.optional(),
      scopes: Scopes.optional().describe('For `id_jag` without them: `mcp:tools:read` and `mcp:tools:call`'),
      audience_mode: z.enum(audienceModes).default('resource'),
    })
    .superRefine((body, context) => {
      const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
      const has = (field: keyof typeof body) => body[field] !== undefined
      const isOauth = body.kind === 'oauth'
      if (!isOauth && !has('client_id')) refuse('client_id', 'Required')
      if (!isOauth && !has('client_secret')) refuse('client_secret', 'Required')
      if (!isOauth && body.scopes?.length === 0) refuse('scopes', 'Needs at least one')
      if (isOauth && has('client_secret') && !has('client_id')) refuse('client_id', 'Required for a client_secret')
      if (isOauth && has('idp_client_id')) refuse('idp_client_id', 'No identity provider takes part')
      if (isOauth && body.audience_mode === 'issuer') refuse('audience_mode', 'There are no assertions')
      if (has('idp_client_id') !== has('idp_client_secret'))
        refuse('idp_client_secret', 'idp_client_id and idp_client_secret go together')
    }),
  response: Connector,
  errors: ['DUPLICATE_RESOURCE'],
})

export const getConnector = operation({
  ...connectors,
  id: 'getConnector',
  method: 'get',
  path: '/connectors/{id}',
  access: 'org',
  summary: 'One remote tool server',
  params: Id,
  response: Connector,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const updateConnector = operation({
  ...connectors,
  id: 'updateConnector',
  method: 'patch',
  path: '/connectors/{id}',
  access: 'admin',
  summary: 'Change some of a connector’s settings',
  description:
    'The address and the clients stay: secrets are only ever sent where they were entered for. For others, make another connector.',
  params: Id,
  body: z.strictObject({
    name: Name.optional(),
    client_secret: ClientSecret.optional(),
    idp_client_secret: ClientSecret.optional().describe('Only where there is an `idp_client_id`'),
    scopes: Scopes.optional(),
    audience_mode: z.enum(audienceModes).optional(),
    status: z.enum(statuses).optional(),
  }),
  response: Connector,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
})

export const deleteConnector = operation({
  ...connectors,
  id: 'deleteConnector',
  method: 'delete',
  path: '/connectors/{id}',
  access: 'admin',
  summary: 'Forget a connector; tokens that were issued for it are not used again',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const testConnector = operation({
  ...connectors,
  id: 'testConnector',
  method: 'post',
  path: '/connectors/{id}/test',
  access: 'admin',
  summary: 'Go through the whole flow as yourself, step by step',
  description:
    'Uses the identity that you last brought to a page with the widget, and no token that is remembered. Nothing is called but `tools/list`.',
  params: Id,
  response: ConnectorTest,
  errors: ['RESOURCE_NOT_FOUND'],
})
