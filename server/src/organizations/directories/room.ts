import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { AccessCleanup } from '../access-cleanup/access-cleanup.ts'

import * as contract from './contract.ts'
import {
  createDirectory,
  deleteDirectory,
  getDirectory,
  getDirectoryStatus,
  listDirectories,
  listDirectoryGroups,
  listDirectoryUsers,
  rotateDirectoryToken,
  updateDirectory,
  updateDirectoryGroup,
} from './directories.ts'

export const directoriesRoom: Room<Service & { accessCleanup: AccessCleanup }> = {
  tags: {
    Directories: 'User directories that send users and groups over SCIM.',
  },
  routes: bind(contract, {
    getDirectoryStatus,
    listDirectories,
    createDirectory,
    getDirectory,
    updateDirectory,
    deleteDirectory,
    listDirectoryUsers,
    listDirectoryGroups,
    rotateDirectoryToken,
    updateDirectoryGroup,
  }),
  tools: [],
}
