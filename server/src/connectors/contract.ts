import { z } from 'zod'
import { operation } from '../foundation/operation.ts'
import { Id, Success, Timestamp } from '../foundation/shapes.ts'

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

/** As the server names its tools, without the connector's name. */
const ReadOnlyTools = z
  .array(
    z
      .string()
      .min(1)
      .max(128)
      .refine((name) => !/\p{C}/u.test(name), 'Must not have control characters'),
  )
  .max(512)
  .transform((names) => [...new Set(names)])

const kinds = ['id_jag', 'oauth'] as const
const audienceModes = ['resource', 'issuer'] as const
const statuses = ['active', 'disabled'] as const

const Connector = z
  .strictObject({
    id: z.string().describe('ID of the connector'),
    name: z.string().describe('Prefix of its tools, which are named `<name>.<tool>`'),
    kind: z
      .enum(kinds)
      .describe('`id_jag`: your identity provider vouches for users. `oauth`: each user consents on their own.'),
    server_url: z.string().describe('MCP endpoint of the tool server, and its resource ID'),
    client_id: z
      .string()
      .nullable()
      .describe('Client ID that Inlay has at the tool server; null if Inlay registers itself'),
    client_secret_last4: z.string().nullable().describe('Last four characters of the client secret; null without one'),
    idp_client_id: z
      .string()
      .nullable()
      .describe('Client ID that Inlay has at your identity provider; null if it is the same as `client_id`'),
    idp_client_secret_last4: z
      .string()
      .nullable()
      .describe('Last four characters of that client’s secret; null without one'),
    scopes: z.array(z.string()).describe('Scopes that Inlay asks for; if empty, those that the server requires'),
    audience_mode: z
      .enum(audienceModes)
      .describe(
        'Audience of the assertion: the server’s resource ID, or the issuer of its tokens if that is different',
      ),
    read_only_tools: z
      .array(z.string())
      .describe(
        'Tools that an admin has marked as read-only, by their names at the server. They run without asking the user, like tools whose annotations say `readOnlyHint`.',
      ),
    status: z.enum(statuses).describe('Tools of a `disabled` connector can’t be called'),
    created_at: Timestamp.describe('When the connector was created'),
    updated_at: Timestamp.describe('When the connector was last changed'),
  })
  .meta({ id: 'Connector' })

/** In the order in which they are taken. */
export const testSteps = {
  id_jag: ['metadata', 'provider_exchange', 'redemption', 'tools_list'],
  oauth: ['consent', 'tools_list'],
} as const

const ConnectorTest = z
  .strictObject({
    success: z.boolean().describe('Whether every step succeeded'),
    steps: z
      .array(
        z.strictObject({
          step: z.enum([...new Set([...testSteps.id_jag, ...testSteps.oauth])]).describe('Name of the step'),
          status: z.enum(['ok', 'failed', 'skipped']).describe('`skipped` if an earlier step failed'),
          message: z.string().describe('What was found, or what is wrong'),
        }),
      )
      .describe('The steps in order'),
  })
  .meta({ id: 'ConnectorTest' })

const connectors = { tag: 'Connectors', resource: 'connector' } as const

export const listConnectors = operation({
  ...connectors,
  id: 'listConnectors',
  method: 'get',
  path: '/connectors',
  access: 'org',
  summary: 'List connectors',
  description:
    'A connector is a remote tool server (MCP) whose tools Inlay calls as the user who asks. Returns every connector of the organization without its secrets.',
  response: z.strictObject({ connectors: z.array(Connector).describe('The connectors') }),
  errors: [],
})

export const createConnector = operation({
  ...connectors,
  id: 'createConnector',
  method: 'post',
  path: '/connectors',
  creates: true,
  access: 'admin',
  summary: 'Create a connector',
  description:
    '`id_jag` is for your own tool servers: their tools appear in the hub for members who have been identified by a page with the widget. If Inlay has another client at the identity provider than at the tool server, send both `idp_client_id` and `idp_client_secret`. `oauth` is for third-party servers: each member allows Inlay to use them on the page `/connect/{id}`, and you only need a client if Inlay can’t register itself there. A name that is in use is a 409.',
  body: z
    .strictObject({
      name: Name.describe('Prefix of its tools: 1 to 32 lower-case letters, digits and hyphens'),
      kind: z.enum(kinds).describe('`id_jag` for your own tool servers, `oauth` for third-party servers'),
      server_url: ServerUrl.describe('MCP endpoint of the tool server; can’t be changed later'),
      client_id: ClientId.optional().describe('Client ID that Inlay has at the tool server; required for `id_jag`'),
      client_secret: ClientSecret.optional().describe(
        'Secret of that client, 8 to 2000 characters; required for `id_jag`. It is stored encrypted and never returned.',
      ),
      idp_client_id: ClientId.optional().describe(
        'Client ID that Inlay has at your identity provider, if it is different; only for `id_jag`',
      ),
      idp_client_secret: ClientSecret.optional().describe('Secret of that client; required with `idp_client_id`'),
      scopes: Scopes.optional().describe(
        'Scopes to ask for. Default for `id_jag`: `mcp:tools:read` and `mcp:tools:call`.',
      ),
      audience_mode: z
        .enum(audienceModes)
        .default('resource')
        .describe(
          'Audience of the assertion: the server’s resource ID, or the issuer of its tokens if that is different',
        ),
      read_only_tools: ReadOnlyTools.optional().describe(
        'Tools to mark as read-only, by their names at the server: they run without asking the user. Default: none.',
      ),
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
  summary: 'Get a connector',
  description: 'Returns the settings of a connector without its secrets.',
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
  summary: 'Change a connector',
  description:
    'Fields that you leave out stay as they are. You can’t change the address or the client IDs, because secrets are only sent where they were entered for; create another connector instead. A name that is in use is a 409.',
  params: Id,
  body: z.strictObject({
    name: Name.optional().describe('New prefix of its tools'),
    client_secret: ClientSecret.optional().describe('New secret of the client at the tool server'),
    idp_client_secret: ClientSecret.optional().describe(
      'New secret of the client at the identity provider; only if there is an `idp_client_id`',
    ),
    scopes: Scopes.optional().describe('New scopes; replaces the old list'),
    audience_mode: z.enum(audienceModes).optional().describe('Audience of the assertion'),
    read_only_tools: ReadOnlyTools.optional().describe(
      'Tools to mark as read-only, by their names at the server; replaces the old list',
    ),
    status: z.enum(statuses).optional().describe('Tools of a `disabled` connector can’t be called'),
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
  summary: 'Delete a connector',
  description: 'Its tools disappear from the hub. Tokens that were issued for it are not used again.',
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
  summary: 'Test a connector as yourself',
  description:
    'Goes through the whole flow step by step with new tokens, up to listing the tools; no tool is called. For `id_jag`, Inlay uses the identity that you last brought to a page with the widget, so sign in to such a page first. A failed step is still a 200, with `success: false`.',
  params: Id,
  response: ConnectorTest,
  errors: ['RESOURCE_NOT_FOUND'],
})
