import packageJson from '../../../package.json' with { type: 'json' }
import type { AccessControl } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Tool } from '../../kernel/foundation/tool.ts'
import type { Endpoint } from '../../kernel/http/json-endpoint.ts'
import { createDispatcher } from './dispatcher.ts'
import { createEndpoint } from './endpoint.ts'
import { skillMethods, skillsExtension } from './skills.ts'

const instructions =
  'Inlay administers organizations that embed an agent widget in their web applications. Every tool acts as the signed-in user, on the organization chosen at sign-in; verify_api_access returns both. A failed call has isError and a JSON envelope: data.code identifies the error, and for VALIDATION_ERROR data.field and data.details explain what to change. Resources are skills: read one when its description fits the task.'

/** Clients aren't notified of changes; each list states how long it may be cached. */
const capabilities = {
  tools: { listChanged: false },
  resources: { listChanged: false },
  extensions: { [skillsExtension]: {} },
}

export async function createMcp<Needs extends Service>(
  service: Needs,
  access: AccessControl,
  tools: readonly Tool<Needs>[],
): Promise<Endpoint> {
  const offer = {
    info: { name: 'inlay', title: 'Inlay', version: packageJson.version, websiteUrl: service.config.publicUrl },
    instructions,
    capabilities,
    tools,
    methods: skillMethods,
  }
  return createEndpoint(service, access, await createDispatcher(service, offer))
}
