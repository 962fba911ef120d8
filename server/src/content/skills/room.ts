import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as skills from './skills.ts'

export const skillsRoom: Room<Service> = {
  tags: {
    Skills: 'Instructions for agents: your own, and the ones built into Inlay.',
  },
  routes: [
    route(contract.listSkills, skills.listSkills),
    route(contract.createSkill, skills.createSkill),
    route(contract.getSkill, skills.getSkill),
    route(contract.patchSkill, skills.patchSkill),
    route(contract.archiveSkill, skills.archiveSkill),
    route(contract.listSkillVersions, skills.listSkillVersions),
    route(contract.getSkillVersion, skills.getSkillVersion),
    route(contract.restoreSkill, skills.restoreSkill),
  ],
  tools: [],
}
