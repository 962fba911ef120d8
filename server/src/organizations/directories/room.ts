import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Departures } from '../departures/departures.ts'

import * as contract from './contract.ts'
import * as directories from './directories.ts'

export const directoriesRoom: Room<Service & { departures: Departures }> = {
  tags: {
    Directories: 'User directories that send users and groups over SCIM.',
  },
  routes: [
    route(contract.getDirectoryStatus, directories.getDirectoryStatus),
    route(contract.listDirectories, directories.listDirectories),
    route(contract.createDirectory, directories.createDirectory),
    route(contract.getDirectory, directories.getDirectory),
    route(contract.updateDirectory, directories.updateDirectory),
    route(contract.deleteDirectory, directories.deleteDirectory),
    route(contract.listDirectoryUsers, directories.listDirectoryUsers),
    route(contract.listDirectoryGroups, directories.listDirectoryGroups),
    route(contract.rotateDirectoryToken, directories.rotateDirectoryToken),
    route(contract.updateDirectoryGroup, directories.updateDirectoryGroup),
  ],
  tools: [],
}
