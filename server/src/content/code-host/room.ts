import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Github } from '../github/github.ts'
import * as contract from './contract.ts'
import * as githubApp from './github-app.ts'
import * as installations from './installations.ts'
import * as repository from './repository.ts'
import type { CodeSync } from './sync.ts'

export const githubAppRoom: Room<Service & { github: Github; codeSync: CodeSync }> = {
  tags: {
    'Code hosting':
      'The organization’s GitHub app or the operator’s, and the repository that its skills are synced from.',
  },
  routes: [
    route(contract.getApp, githubApp.getApp),
    route(contract.startManifest, githubApp.startManifest),
    route(contract.removeApp, githubApp.removeApp),
    route(contract.startInstallation, installations.startInstallation),
    route(contract.removeInstallation, installations.removeInstallation),
    route(contract.listRepositories, repository.listRepositories),
    route(contract.getRepository, repository.getRepository),
    route(contract.connectRepository, repository.connectRepository),
    route(contract.disconnectRepository, repository.disconnectRepository),
    route(contract.syncRepository, repository.syncRepository),
  ],
  tools: [],
}
