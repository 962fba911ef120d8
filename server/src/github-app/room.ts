import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'

import * as contract from './contract.ts'
import * as githubApp from './github-app.ts'

export const githubAppRoom: Room<Service> = {
  tags: {
    'Code hosting': 'The organization’s own GitHub app.',
  },
  routes: [
    route(contract.getApp, githubApp.getApp),
    route(contract.startManifest, githubApp.startManifest),
    route(contract.removeApp, githubApp.removeApp),
  ],
  tools: [],
}
