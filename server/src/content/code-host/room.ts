import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Github } from '../github/github.ts'
import * as contract from './contract.ts'
import { getApp, removeApp, startManifest } from './github-app.ts'
import { removeInstallation, startInstallation } from './installations.ts'
import {
  connectRepository,
  disconnectRepository,
  getRepository,
  listRepositories,
  syncRepository,
} from './repository.ts'

export const githubAppRoom: Room<Service & { github: Github }> = {
  tags: {
    'Code hosting':
      'The organization’s GitHub app or the operator’s, and the repository that its skills are synced from.',
  },
  routes: bind(contract, {
    getApp,
    startManifest,
    removeApp,
    startInstallation,
    removeInstallation,
    listRepositories,
    getRepository,
    connectRepository,
    disconnectRepository,
    syncRepository,
  }),
  tools: [],
}
