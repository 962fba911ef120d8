import packageJson from '../../package.json' with { type: 'json' }
import type { AccessControl } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import type { Tool } from '../foundation/tool.ts'
import { createDispatcher } from './dispatcher.ts'
import { createEndpoint, type Endpoint } from './endpoint.ts'
import { skillMethods, skillsExtension } from './skills.ts'

const instructions =
  'Inlay administers organizations that embed an agent widget in their web applications. Every tool acts as the signed-in person, on the organization chosen at sign-in; verify_api_access says who and which. A failed call has isError and a JSON envelope: its data.code says what happened, and for VALIDATION_ERROR data.field and data.details say what to change. Resources are skills: read one when its description fits the task.'

/** Nobody is told of changes: a list says how long it may be kept. */
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
