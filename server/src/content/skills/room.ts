import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import {
  archiveSkill,
  createSkill,
  getSkill,
  getSkillVersion,
  listSkills,
  listSkillVersions,
  patchSkill,
  restoreSkill,
} from './skills.ts'

export const skillsRoom: Room<Service> = {
  tags: {
    Skills: 'Instructions for agents: your own, and the ones built into Inlay.',
  },
  routes: bind(contract, {
    listSkills,
    createSkill,
    getSkill,
    patchSkill,
    archiveSkill,
    listSkillVersions,
    getSkillVersion,
    restoreSkill,
  }),
  tools: [],
}
