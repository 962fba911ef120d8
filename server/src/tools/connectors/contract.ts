import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Success, Timestamp } from '../../kernel/foundation/shapes.ts'

/** Used as a prefix of tool names, so it allows only characters that tool names allow. */
const Name = z
  .string()
  .trim()
  .regex(
    /^[a-z0-9][a-z0-9-]{0,31}$/,
    'Must be 1 to 32 lowercase letters, digits and hyphens, and must not start with a hyphen',
  )

/** Stored exactly as entered, because it's the resource ID, which is compared as a string. */
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
  }, 'Must be a normalized https:// URL without a user name, password, query or fragment')

const visible = /^[\x21-\x7e]+$/
const visibleOnly = 'Must consist of ASCII characters without spaces'
const ClientId = z.string().min(1).max(255).regex(visible, visibleOnly)
const ClientSecret = z
  .string()
  .min(8, 'Must have at least 8 characters, because the last four are shown')
  .max(2000)
  .regex(visible, visibleOnly)

/** RFC 6749, section 3.3. */
const Scope = z
  .string()
  .regex(
    /^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/,
    'Must be 1 to 100 ASCII characters without spaces, quotes and backslashes',
  )
const Scopes = z
  .array(Scope)
  .max(20)
  .transform((scopes) => [...new Set(scopes)])

/** The server's own tool names, without the connector's prefix. */
const ReadOnlyTools = z
  .array(
    z
      .string()
      .min(1)
      .max(128)
      .refine((name) => !/\p{C}/u.test(name), 'Must not contain control characters'),
  )
  .max(512)
  .transform((names) => [...new Set(names)])

const kinds = ['id_jag', 'oauth'] as const
const audienceModes = ['resource', 'issuer'] as const
const statuses = ['active', 'disabled'] as const

const Connector = z
  .strictObject({
    id: z.string().describe('ID of the connector'),
    name: z.string().describe('Name of the connector. Its tools are named `<name>.<tool>`.'),
    kind: z
      .enum(kinds)
      .describe('`id_jag`: your identity provider vouches for users. `oauth`: each user gives consent.'),
    server_url: z.string().describe('MCP endpoint of the tool server, and its resource ID'),
    client_id: z.string().nullable().describe('Inlay’s client ID at the tool server; null if Inlay registers itself'),
    client_secret_last4: z.string().nullable().describe('Last four characters of the client secret; null without one'),
    idp_client_id: z
      .string()
      .nullable()
      .describe('Inlay’s client ID at your identity provider; null if it’s the same as `client_id`'),
    idp_client_secret_last4: z
      .string()
      .nullable()
      .describe('Last four characters of that client’s secret; null without one'),
    scopes: z.array(z.string()).describe('Scopes that Inlay requests; if empty, the scopes that the server requires'),
    audience_mode: z
      .enum(audienceModes)
      .describe(
        'Audience of the assertion: the server’s resource ID (`resource`), or the issuer of its tokens (`issuer`)',
      ),
    read_only_tools: z
      .array(z.string())
      .describe(
        'Tools that an admin has marked as read-only, by their names at the server. They run without asking the user, like tools with the annotation `readOnlyHint`.',
      ),
    status: z.enum(statuses).describe('Tools of a `disabled` connector can’t be called'),
    created_at: Timestamp.describe('When the connector was created'),
    updated_at: Timestamp.describe('When the connector was last changed'),
  })
  .meta({ id: 'Connector' })

/** The steps of a test, in order. */
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
          message: z.string().describe('What the step found, or why it failed'),
        }),
      )
      .describe('The steps in order'),
  })
  .meta({ id: 'ConnectorTest' })

const connectors = { tag: 'Connectors', resource: 'connector' } as const

const exampleConnector = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  name: 'orders',
  kind: 'id_jag',
  server_url: 'https://tools.example.com/mcp',
  client_id: 'inlay-hub',
  client_secret_last4: '9d1c',
  idp_client_id: null,
  idp_client_secret_last4: null,
  scopes: ['mcp:tools:read', 'mcp:tools:call'],
  audience_mode: 'resource',
  read_only_tools: ['text'],
  status: 'active',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listConnectors = operation({
  ...connectors,
  id: 'listConnectors',
  method: 'get',
  path: '/connectors',
  access: 'org',
  summary: 'List connectors',
  description:
    'Returns all connectors of the organization without their secrets. A connector is a remote tool server (MCP) whose tools Inlay calls on behalf of the user.',
  response: z.strictObject({ connectors: z.array(Connector).describe('The connectors') }),
  errors: [],
  example: { response: { connectors: [exampleConnector] } },
})

export const createConnector = operation({
  ...connectors,
  id: 'createConnector',
  method: 'post',
  path: '/connectors',
  creates: true,
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Create a connector',
  description:
    'Use `id_jag` for your own tool servers: their tools appear in the hub for members who have signed in on a page with the widget. If Inlay’s client at the identity provider differs from the one at the tool server, send both `idp_client_id` and `idp_client_secret`. Use `oauth` for third-party servers: each member connects their account at `/connect/{id}`, and you only need a client if Inlay can’t register itself there. The response is a 409 if the name is in use.',
  body: z
    .strictObject({
      name: Name.describe('Prefix of the tools’ names: 1 to 32 lowercase letters, digits and hyphens'),
      kind: z.enum(kinds).describe('`id_jag` for your own tool servers, `oauth` for third-party servers'),
      server_url: ServerUrl.describe('MCP endpoint of the tool server; can’t be changed later'),
      client_id: ClientId.optional().describe('Inlay’s client ID at the tool server; required for `id_jag`'),
      client_secret: ClientSecret.optional().describe(
        'Secret of that client, 8 to 2000 characters; required for `id_jag`. It is stored encrypted and never returned.',
      ),
      idp_client_id: ClientId.optional().describe(
        'Inlay’s client ID at your identity provider, if it differs from `client_id`; only for `id_jag`',
      ),
      idp_client_secret: ClientSecret.optional().describe('Secret of that client; required with `idp_client_id`'),
      scopes: Scopes.optional().describe(
        'Scopes to request. Default for `id_jag`: `mcp:tools:read` and `mcp:tools:call`.',
      ),
      audience_mode: z
        .enum(audienceModes)
        .default('resource')
        .describe(
          'Audience of the assertion: the server’s resource ID (`resource`), or the issuer of its tokens (`issuer`)',
        ),
      read_only_tools: ReadOnlyTools.optional().describe(
        'Tools to mark as read-only, by their names at the server. They run without asking the user. Default: none.',
      ),
    })
    .superRefine((body, context) => {
      const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
      const has = (field: keyof typeof body) => body[field] !== undefined
      const isOauth = body.kind === 'oauth'
      if (!isOauth && !has('client_id')) refuse('client_id', 'Required')
      if (!isOauth && !has('client_secret')) refuse('client_secret', 'Required')
      if (!isOauth && body.scopes?.length === 0) refuse('scopes', 'Must have at least one scope')
      if (isOauth && has('client_secret') && !has('client_id')) refuse('client_id', 'Required with client_secret')
      if (isOauth && has('idp_client_id')) refuse('idp_client_id', 'Only allowed for id_jag')
      if (isOauth && body.audience_mode === 'issuer') refuse('audience_mode', 'issuer is only allowed for id_jag')
      if (has('idp_client_id') !== has('idp_client_secret'))
        refuse('idp_client_secret', 'idp_client_id and idp_client_secret must be sent together')
    }),
  response: Connector,
  errors: ['DUPLICATE_RESOURCE'],
  example: {
    request: {
      name: 'orders',
      kind: 'id_jag',
      server_url: 'https://tools.example.com/mcp',
      client_id: 'inlay-hub',
      client_secret: 'cs_EXAMPLE_9d1c',
    },
    response: exampleConnector,
  },
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
  example: { response: exampleConnector },
})

export const updateConnector = operation({
  ...connectors,
  id: 'updateConnector',
  method: 'patch',
  path: '/connectors/{id}',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Update a connector',
  description:
    'Fields that you leave out keep their values. You can’t change the server URL or the client IDs, because secrets are only sent to the server they were entered for; create another connector instead. The response is a 409 if the name is in use.',
  params: Id,
  body: z.strictObject({
    name: Name.optional().describe('New prefix of the tools’ names'),
    client_secret: ClientSecret.optional().describe('New secret of the client at the tool server'),
    idp_client_secret: ClientSecret.optional().describe(
      'New secret of the client at the identity provider; only if the connector has an `idp_client_id`',
    ),
    scopes: Scopes.optional().describe('New scopes, which replace the current list'),
    audience_mode: z.enum(audienceModes).optional().describe('Audience of the assertion'),
    read_only_tools: ReadOnlyTools.optional().describe(
      'Tools to mark as read-only, by their names at the server, which replace the current list',
    ),
    status: z.enum(statuses).optional().describe('Tools of a `disabled` connector can’t be called'),
  }),
  response: Connector,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
  example: { request: { scopes: ['mcp:tools:read'] }, response: { ...exampleConnector, scopes: ['mcp:tools:read'] } },
})

export const deleteConnector = operation({
  ...connectors,
  id: 'deleteConnector',
  method: 'delete',
  path: '/connectors/{id}',
  access: 'admin',
  summary: 'Delete a connector',
  description: 'Removes the connector’s tools from the hub. Tokens that were issued for it are no longer used.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

export const testConnector = operation({
  ...connectors,
  id: 'testConnector',
  method: 'post',
  path: '/connectors/{id}/test',
  access: 'admin',
  usersOnly: 'the test acts as the user who starts it',
  summary: 'Test a connector as yourself',
  description:
    'Runs the whole flow step by step with new tokens, up to listing the tools; no tool is called. For `id_jag`, Inlay uses your identity from the last page with the widget that you signed in to, so sign in to such a page first. If a step fails, the response is still a 200, with `success: false`.',
  params: Id,
  response: ConnectorTest,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      success: true,
      steps: [
        { step: 'metadata', status: 'ok', message: 'The server accepts tokens of https://tools.example.com.' },
        { step: 'provider_exchange', status: 'ok', message: 'The identity provider issued an assertion.' },
        { step: 'redemption', status: 'ok', message: 'The server issued an access token.' },
        { step: 'tools_list', status: 'ok', message: 'The server offers 12 tools.' },
      ],
    },
  },
})
